"""`kvplan explain`: one rule."""

from __future__ import annotations

import click

from kvplan.cli.completing import rules
from kvplan.cli.options import plain_output_options
from kvplan.cli.output import canvas, write


@click.command(
    "explain",
    short_help="Explain one rule, with a bad and a good example.",
    epilog="""
\b
Examples:
  kvplan explain KV201
  kvplan explain skip-token-matches-nothing
""",
)
@click.argument("code", shell_complete=rules)
@plain_output_options
def command(code: str, format_name: str, output: str | None) -> int:
    """Explain the rule CODE (or of that name), with a bad and a good example."""
    from kvplan.report.listings import as_json, rule_dict, rule_text
    from kvplan.rules import get

    rule = get(code)
    if format_name == "json":
        write(as_json("kvplan-rules/1", rules=[rule_dict(rule)]), output)
    else:
        write(rule_text(rule, canvas(output)), output)
    return 0
