"""`kvplan plan`: everything computed."""

from __future__ import annotations

from typing import Any

import click

from kvplan.cli.launching import plan_of, report_of, tell
from kvplan.cli.options import launch_options, output_options, rule_options, threshold_option
from kvplan.cli.words import LaunchCommand


@click.command(
    "plan",
    cls=LaunchCommand,
    short_help="Show everything computed: layers, groups, blocks, capacity.",
    epilog="""
\b
Examples:
  kvplan plan GLM-5.2-FP8 --kv-cache-dtype fp8 -tp 8 --available-kv-memory 60GiB
  kvplan plan --format json --gpu b200 -- vllm serve openai/gpt-oss-120b -tp 2

\b
Exit codes: 0 vLLM starts, 1 it does not (or what --fail-on names is found), 2 the input cannot be used.
""",
)
@launch_options
@threshold_option(None, shown="a start-up that fails")
@rule_options
@output_options
@click.pass_context
def command(ctx: click.Context, /, fail_on: str | None, **_options: Any) -> int:
    """Show everything computed: settings, block size, backends, layers, groups and capacity."""
    from kvplan.report.values import Detail
    from kvplan.rules.values import Severity

    plan = plan_of(ctx)
    report = report_of(ctx, plan, detail=Detail.PLAN)
    tell(ctx, report)
    return int(not plan.ok) if fail_on is None else int(report.verdict.reaches(Severity(fail_on)))
