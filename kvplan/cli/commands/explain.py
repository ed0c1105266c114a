"""`kvplan explain`: one rule."""

from __future__ import annotations

import click

from kvplan.cli.output import canvas, write


@click.command(
    "explain",
    short_help="Explain one rule, with a bad and a good example.",
    epilog="""
\b
Example:
  kvplan explain KV201
""",
)
@click.argument("code")
@click.option("--format", "format_name", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--output", metavar="FILE", help="Write to FILE instead of standard output.")
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
