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
  kvplan rules KV2
  kvplan rules skip --format json
""",
)
@click.argument("text", required=False, default="")
@plain_output_options
def command(text: str, format_name: str, output: str | None) -> int:
    """List the rules with their severities: all, or those whose code begins with TEXT, or whose name or summary
    contains it."""
    from kvplan.errors import InputError
    from kvplan.report.listings import as_json, rule_dict, rules_text
    from kvplan.rules import rules

    wanted = text.lower()
    kept = [
        rule
        for rule in rules()
        if rule.code.lower().startswith(wanted) or wanted in rule.name or wanted in rule.summary.lower()
    ]
    if not kept:
        raise InputError(f"no rule contains {text[:80]!r}; leave the text out to list all")
    if format_name == "json":
        write(as_json("kvplan-rules/1", rules=[rule_dict(rule) for rule in kept]), output)
    else:
        write(rules_text(kept, canvas(output)), output)
    return 0
