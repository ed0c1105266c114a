"""`kvplan scan`: every launch in files and directories."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvplan.cli.completing import files, gpus, releases
from kvplan.cli.configured import announce, settings_of
from kvplan.cli.failing import debugging
from kvplan.cli.launching import choice_of, hear_of_requests
from kvplan.cli.options import output_options, rule_options, settings_options, threshold_option
from kvplan.cli.output import deliver, say, targets
from kvplan.cli.progress import teller
from kvplan.errors import InputError

if TYPE_CHECKING:
    from kvplan.launch.globs import Globs


@click.command(
    "scan",
    short_help="Check every vLLM launch in manifests, scripts and directories.",
    epilog="""
\b
Examples:
  kvplan scan deploy/
  kvplan scan --model-map /models/glm=zai-org/GLM-5.2-FP8 --gpu h200 k8s/ run.sh
  helm template ./chart | kvplan scan -
  kvplan scan --include 'deploy/**/*.yaml' --exclude deploy/archive/ .
  kvplan scan deploy/ --output-sarif kvplan.sarif --output-markdown summary.md
  kvplan scan deploy/ --write-baseline baseline.json
  kvplan scan deploy/ --baseline baseline.json --fail-on warning

\b
Exit codes: 0 nothing at or above --fail-on, 1 something, 2 no launch found or the input cannot be used.
What cannot be followed counts as a warning.
""",
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH…", shell_complete=files)
@click.option(
    "--model-map",
    metavar="PATH=MODEL",
    multiple=True,
    help="The model behind a path of the container, such as /models/glm=zai-org/GLM-5.2-FP8 (repeatable).",
)
@click.option(
    "--vllm-version",
    metavar="RELEASE",
    shell_complete=releases,
    help="The vLLM release of launches that do not name theirs.",
)
@click.option("--gpu", metavar="GPU[:COUNT]", shell_complete=gpus, help="The GPU of launches that do not name theirs.")
@click.option(
    "--available-kv-memory", metavar="SIZE", help="Memory for the cache on each GPU, such as 60GiB; or what vLLM logs."
)
@click.option(
    "--env",
    metavar="NAME=VALUE",
    multiple=True,
    help="The value of a variable that the files leave open (repeatable).",
)
@click.option(
    "--include",
    metavar="PATTERN",
    multiple=True,
    help="Look only at such files of directories: 'deploy/**/*.yaml', '*.sh', ops/ (repeatable).",
)
@click.option("--exclude", metavar="PATTERN", multiple=True, help="Never look at such files (repeatable).")
@click.option("--offline", is_flag=True, help="Never use the network.")
@click.option("--allow-empty", is_flag=True, help="Finding no launch is no error.")
@threshold_option("error", shown="error")
@rule_options
@output_options
@click.option(
    "--baseline", "baseline_file", metavar="FILE", shell_complete=files, help="Findings that FILE has do not count."
)
@click.option(
    "--write-baseline",
    metavar="FILE",
    shell_complete=files,
    help="Write what is found to FILE, for --baseline, instead of telling it; exit code 0.",
)
@settings_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    paths: tuple[str, ...],
    model_map: tuple[str, ...],
    vllm_version: str | None,
    gpu: str | None,
    available_kv_memory: str | None,
    env: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    offline: bool,
    allow_empty: bool,
    fail_on: str,
    no_ignore: bool,
    baseline_file: str | None,
    write_baseline: str | None,
    **outputs: Any,
) -> int:
    """Find every vLLM launch in the files and directories PATH… (`-` is standard input) and check each.

    Kubernetes manifests and the resources and chart values of serving stacks, shell scripts, Dockerfiles, compose
    files, systemd units, Markdown, Python, recipes and vLLM's own `--config` files are read. The release, the GPU and
    the model come from the files; the options here answer what the files leave open.
    """
    from kvplan.launch.environment import parse_assignments
    from kvplan.launch.hardware import parse_gpu
    from kvplan.launch.resolving import Answers, parse_model_map
    from kvplan.launch.sizes import parse_available
    from kvplan.releases import resolve
    from kvplan.rules.values import Severity
    from kvplan.runs import baseline
    from kvplan.runs.launching import Sources
    from kvplan.runs.scanning import ScanRequest, scan

    settings = settings_of(ctx)
    announce(ctx)
    hear_of_requests()
    answers = Answers(
        release=None if vllm_version is None else resolve(vllm_version).name,
        gpu=None if gpu is None else parse_gpu(gpu),
        available_kv_memory=(
            None if available_kv_memory is None else parse_available(available_kv_memory, "--available-kv-memory")
        ),
        environment=parse_assignments(env),
        models={**settings.additions.models, **parse_model_map(model_map)},
    )
    # A baseline that is written holds everything that counts today, whatever an older one says.
    old = None if baseline_file is None or write_baseline is not None or no_ignore else baseline.read(baseline_file)
    request = ScanRequest(
        paths=paths,
        answers=answers,
        choice=choice_of(ctx),
        sources=Sources(offline=offline, additions=settings.additions),
        include=_globs("--include", include) or settings.include,
        exclude=_globs("--exclude", exclude) or settings.exclude,
        baseline=old,
        debug=debugging(ctx),
    )
    wanted = targets(outputs)
    scanned = scan(request, getattr(sys.stdin, "buffer", None), teller())
    report = scanned.report
    if write_baseline is not None:
        number = baseline.write(report, write_baseline)
        say([f"{number:,} findings written to {write_baseline}"])
        return 0
    say(scanned.notices)
    if not report.launches and not report.lost:
        # A text about nothing is left to the message below; files for programs are made all the same.
        wanted = tuple(target for target in wanted if target.format.name != "text")
    deliver(wanted, lambda one, canvas: one.render_scan(report, canvas, Severity(fail_on)))
    if scanned.nothing is not None and not allow_empty:
        say([f"{scanned.nothing} in {', '.join(paths)[:200]} (--allow-empty makes that no error)"])
        return 2
    return int(report.verdict.reaches(Severity(fail_on)))


def _globs(option: str, patterns: tuple[str, ...]) -> Globs | None:
    """The patterns as seen from the current directory; None without any."""
    from kvplan.launch.globs import any_of

    try:
        return any_of(Path(), patterns) if patterns else None
    except InputError as error:
        raise InputError(f"{option}: {error}") from None
