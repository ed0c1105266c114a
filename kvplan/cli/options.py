"""kvplan's own options, as the commands share them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kvplan.cli.completing import files, gpus, releases, rules
from kvplan.cli.configured import collect
from kvplan.cli.words import PassedOn
from kvplan.report.formats import FORMATS

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_SETTINGS = (
    click.option(
        "--kvplan-config",
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=collect,
        shell_complete=files,
        help="Read kvplan's settings from FILE (--config is vLLM's own option).",
        show_default=".kvplan.toml, kvplan.toml or pyproject.toml [tool.kvplan], the nearest upwards",
    ),
    click.option(
        "--isolated",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=collect,
        help="Read no settings file.",
    ),
)

_LAUNCH = (
    click.option(
        "--vllm-version",
        metavar="RELEASE",
        default="latest",
        show_default="the newest known",
        shell_complete=releases,
        help="The vLLM release, such as 0.25.1.",
    ),
    click.option(
        "--gpu",
        metavar="GPU[:COUNT]",
        show_default="h200, assumed",
        shell_complete=gpus,
        help="The GPU: a name (h200, b200:8, 'RTX 4090') or a compute capability (sm_90).",
    ),
    click.option(
        "--available-kv-memory",
        metavar="SIZE",
        help="Memory for the cache on each GPU, 60GiB, bytes, or the line of vLLM's log that tells it.",
    ),
    click.option(
        "--weights",
        metavar="SIZE",
        show_default="what the model's files say",
        help="Size of the model's weights, such as 141GiB: with --gpu, to estimate the memory left for the cache.",
    ),
    click.option(
        "--env",
        metavar="NAME=VALUE",
        multiple=True,
        help="An environment variable of the launch (repeatable). kvplan's own environment is never looked at.",
    ),
    click.option(
        "--skip-layers",
        cls=PassedOn,
        metavar="LIST",
        expose_value=False,
        help="--kv-cache-dtype-skip-layers that also takes commas and ranges: 0,1 or 0-3.",
    ),
    click.option("--offline", is_flag=True, help="Never use the network."),
)

_OUTPUT_FILE = click.option(
    "--output", metavar="FILE", shell_complete=files, help="Write to FILE instead of standard output."
)

_OUTPUT = (
    click.option(
        "--format",
        "format_name",
        type=click.Choice(list(FORMATS)),
        default="text",
        show_default=True,
        help="How the result is told.",
    ),
    _OUTPUT_FILE,
    *(
        click.option(f"--output-{name}", metavar="FILE", shell_complete=files, help=f"Also to FILE: {one.summary}.")
        for name, one in FORMATS.items()
    ),
)

_PLAIN_OUTPUT = (
    click.option(
        "--format",
        "format_name",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="How the result is told.",
    ),
    _OUTPUT_FILE,
)

_RULES = (
    click.option(
        "--select",
        metavar="RULES",
        multiple=True,
        shell_complete=rules,
        help="Only these rules: codes, beginnings of codes or names (KV2,KV301).",
    ),
    click.option("--ignore", metavar="RULES", multiple=True, shell_complete=rules, help="Leave these rules out."),
    click.option(
        "--no-ignore",
        is_flag=True,
        help="Show all: leave no rule out, and let no comment, settings entry or baseline suppress a finding.",
    ),
)


def launch_options(command: Decorated) -> Decorated:
    """The options that say which launch is meant."""
    return _all((*_LAUNCH, *_SETTINGS), command)


def settings_options(command: Decorated) -> Decorated:
    """The options that say which settings file holds; `launch_options` has them."""
    return _all(_SETTINGS, command)


def output_options(command: Decorated) -> Decorated:
    """The options that say how and where the result is told, in any format and in several at once."""
    return _all(_OUTPUT, command)


def plain_output_options(command: Decorated) -> Decorated:
    """The same for a command whose result is no list of findings: text or JSON."""
    return _all(_PLAIN_OUTPUT, command)


def rule_options(command: Decorated) -> Decorated:
    """The options that say which rules speak."""
    return _all(_RULES, command)


def threshold_option(default: str | None, shown: str) -> Callable[[Decorated], Decorated]:
    """The option that says what makes a command fail; `shown` is its default in words."""
    return click.option(
        "--fail-on",
        type=click.Choice(["error", "warning", "note"]),
        default=default,
        show_default=shown,
        help="The least severity that makes the exit code 1.",
    )


def _all(options: tuple[Callable[[Any], Any], ...], command: Decorated) -> Decorated:
    for option in reversed(options):
        command = option(command)
    return command


def codes(values: tuple[str, ...]) -> tuple[str, ...]:
    """Rule codes, beginnings of codes or rule names, from repeatable options that also take commas."""
    return tuple(code.strip() for value in values for code in value.split(",") if code.strip())
