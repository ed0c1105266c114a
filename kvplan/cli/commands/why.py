"""`kvplan why`: the chain of reasons."""

from __future__ import annotations

from typing import Any

import click

from kvplan.cli.launching import plan_of, report_of, tell
from kvplan.cli.options import launch_options, plain_output_options, rule_options
from kvplan.cli.words import LaunchCommand


@click.command(
    "why",
    cls=LaunchCommand,
    short_help="Show the chain of reasons behind each value.",
    epilog="""
\b
Examples:
  kvplan why GLM-5.2-FP8 --kv-cache-dtype fp8 --skip-layers 0,1 --layer 0
  kvplan why --vllm-version 0.25.1 --value block_size -- vllm serve zai-org/GLM-5.2-FP8 --kv-cache-dtype fp8

\b
Exit codes: 0, or 2 when the input cannot be used.
""",
)
@click.option("--layer", type=click.IntRange(min=0), metavar="N", help="Only what concerns decoder layer N.")
@click.option("--value", metavar="NAME", help="Only this value: backend, cache_dtype, block_size …")
@launch_options
@rule_options
@plain_output_options
@click.pass_context
def command(ctx: click.Context, /, layer: int | None, value: str | None, **_options: Any) -> int:
    """Show the chain of reasons behind each value, in the order in which vLLM settles them."""
    from kvplan.report.trace import check_question
    from kvplan.report.values import Detail

    plan = plan_of(ctx)
    check_question(plan, layer, value)
    tell(ctx, report_of(ctx, plan, detail=Detail.WHY, layer=layer, value=value))
    return 0
