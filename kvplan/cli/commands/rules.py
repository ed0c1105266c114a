"""`kvplan rules`: all rules."""

from __future__ import annotations

import click

from kvplan.cli.options import plain_output_options
from kvplan.cli.output import canvas, write


@click.command(
    "rules",
    short_help="List the rules.",
    epilog="""
\b
Examples:
  kvplan rules
  kvplan rules --format json
""",
)
@plain_output_options
def command(format_name: str, output: str | None) -> int:
    """List the rules with their severities."""
    from kvplan.report.listings import as_json, rule_dict, rules_text
    from kvplan.rules import rules

    if format_name == "json":
        write(as_json("kvplan-rules/1", rules=[rule_dict(rule) for rule in rules()]), output)
    else:
        write(rules_text(rules(), canvas(output)), output)
    return 0
