"""`kvplan check`: the gate."""

from __future__ import annotations

from typing import Any

import click

from kvplan.cli.launching import plan_of, report_of, tell
from kvplan.cli.options import launch_options, output_options, rule_options, threshold_option
from kvplan.cli.words import LaunchCommand


@click.command(
    "check",
    cls=LaunchCommand,
    short_help="Say whether a launch starts, and what is wrong with it.",
    epilog="""
\b
Examples:
  kvplan check GLM-5.2-FP8 --skip-layers 0,1
  kvplan check ./my-model --kv-cache-dtype fp8 -tp 8 --gpu h200 --available-kv-memory 60GiB
  kvplan check --vllm-version 0.25.1 --fail-on warning --format json -- \\
      vllm serve zai-org/GLM-5.2-FP8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1

\b
Exit codes: 0 nothing at or above --fail-on, 1 something, 2 the input cannot be used.
""",
)
@launch_options
@threshold_option("error", shown="error")
@rule_options
@output_options
@click.pass_context
def command(ctx: click.Context, /, fail_on: str, **_options: Any) -> int:
    """Say whether a launch starts, and what is wrong with it.

    MODEL is a catalog name (see `kvplan models`), a directory, a config.json, `-` for standard input, or a Hub id.
    vLLM's own options stand beside kvplan's, or the whole command stands after `--` and is read as vLLM reads it.
    """
    from kvplan.report.values import Detail
    from kvplan.rules.values import Severity

    report = report_of(ctx, plan_of(ctx), detail=Detail.CHECK)
    tell(ctx, report)
    return int(report.verdict.reaches(Severity(fail_on)))
