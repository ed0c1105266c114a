"""`kvplan sweep`: one row a combination of values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click
from click.core import ParameterSource

from kvplan.cli.completing import release_spans
from kvplan.cli.launching import asked, choice_of
from kvplan.cli.options import launch_options, output_options, rule_options, threshold_option
from kvplan.cli.output import deliver, say, targets
from kvplan.cli.progress import teller
from kvplan.cli.words import LaunchCommand
from kvplan.errors import InputError


@click.command(
    "sweep",
    cls=LaunchCommand,
    short_help="Compare releases, GPUs and options: one row a combination.",
    epilog="""
\b
Examples:
  kvplan sweep gemma-3-27b-it --releases all --available-kv-memory 40GiB --diff
  kvplan sweep GLM-5.2-FP8 --vllm-version 0.25.1,0.33.0 --kv-cache-dtype auto,fp8 -tp 4,8 --gpu h200,b200
  kvplan sweep GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8 --vary '--skip-layers 0,1 | --skip-layers 0-3 | '
  kvplan sweep gpt-oss-120b --releases 0.25.. --diff --fail-on error --output-markdown sweep.md

\b
Several values are written with commas between: --gpu h200,b200 -tp 4,8. A comma that belongs to the value is written
\\, and options that take lists or JSON are left whole: vary those with --vary. A command after -- is left as it is.

\b
Exit codes: 0 told, 1 a row has what --fail-on names, 2 no combination can be used.
""",
)
@click.option(
    "--releases",
    metavar="LIST",
    shell_complete=release_spans,
    help="--vllm-version that also takes 'all' and spans: 0.19..0.26.",
)
@click.option(
    "--diff", is_flag=True, help="Tell what changes from row to row, and which history entries are the cause."
)
@click.option(
    "--vary",
    metavar="'WORDS | WORDS'",
    multiple=True,
    help="Alternatives for any words of the launch, one of which may be nothing (repeatable).",
)
@launch_options
@threshold_option(None, shown="nothing")
@rule_options
@output_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    releases: str | None,
    diff: bool,
    vary: tuple[str, ...],
    fail_on: str | None,
    **_options: Any,
) -> int:
    """Show one row a combination of the values of options, and with --diff what changes from row to row, and why."""
    from kvplan.rules.values import Severity
    from kvplan.runs.combining import combinations, every_release
    from kvplan.runs.sweeping import SweepRequest, sweep

    launch = asked(ctx, () if releases is None else ("vllm_version",))
    if releases is not None:
        if ctx.get_parameter_source("vllm_version") not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP):
            raise InputError("give either --releases or --vllm-version, not both")
        launch = replace(launch, vllm_version=every_release(releases))
    outputs = targets(ctx.params)
    swept = sweep(SweepRequest(combinations=combinations(launch, vary), choice=choice_of(ctx), diff=diff), teller())
    say(swept.notices)
    report = swept.report
    threshold = None if fail_on is None else Severity(fail_on)
    deliver(outputs, lambda one, canvas: one.render_sweep(report, canvas, threshold))
    return 0 if threshold is None else int(report.verdict.reaches(threshold))
