"""`kvplan models`: the catalog, and the architectures known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from kvplan.cli.completing import releases
from kvplan.cli.configured import announce, settings_of
from kvplan.cli.options import plain_output_options, settings_options
from kvplan.cli.output import canvas, write
from kvplan.errors import InputError

if TYPE_CHECKING:
    from kvplan.report.canvas import Canvas
    from kvplan.runs.settings.values import Settings

Item = TypeVar("Item")


@click.command(
    "models",
    short_help="List the models of the catalog, or the architectures known.",
    epilog="""
\b
Examples:
  kvplan models glm
  kvplan models --architectures deepseek
  kvplan models --architectures --vllm-version 0.25.1 --format json
""",
)
@click.argument("text", required=False, default="")
@click.option("--architectures", is_flag=True, help="List the architectures of a vLLM release instead.")
@click.option(
    "--vllm-version",
    metavar="RELEASE",
    default="latest",
    show_default="the newest known",
    shell_complete=releases,
    help="The release whose architectures are meant.",
)
@plain_output_options
@settings_options
@click.pass_context
def command(
    ctx: click.Context, /, text: str, architectures: bool, vllm_version: str, format_name: str, output: str | None
) -> int:
    """List the models of the catalog (or the architectures) whose name contains TEXT, those of the project's settings
    file first."""
    announce(ctx, () if architectures else ("vllm_version",))
    if architectures:
        write(_architectures(text, vllm_version, format_name, canvas(output)), output)
    else:
        write(_models(text, settings_of(ctx), format_name, canvas(output)), output)
    return 0


def _models(text: str, settings: Settings, format_name: str, canvas: Canvas) -> str:
    from dataclasses import asdict

    from kvplan.checkpoint.catalog import names
    from kvplan.report.listings import as_json, models_text

    own = _kept(text, settings.additions.listed(), lambda one: (one.name, one.architecture, one.model_type))
    known = _kept(text, names(), lambda entry: (entry.name, entry.architecture, entry.model_type))
    if not own and not known:
        raise _nothing(text)
    if format_name == "json":
        told = [
            *({**asdict(one), "source": "settings"} for one in own),
            *(
                {
                    "name": one.name,
                    "architecture": one.architecture,
                    "model_type": one.model_type,
                    "source": "catalog",
                }
                for one in known
            ),
        ]
        return as_json("kvplan-models/1", models=told)
    return models_text(own, known, settings.file or "", canvas)


def _architectures(text: str, version: str, format_name: str, canvas: Canvas) -> str:
    from dataclasses import asdict

    from kvplan.engine.models.overview import overview
    from kvplan.releases import resolve
    from kvplan.report.listings import architectures_text, as_json

    release = resolve(version)
    kept = _kept(
        text, overview(release), lambda known: (known.architecture, known.kind, known.family or "", known.wraps or "")
    )
    if not kept:
        raise _nothing(text)
    if format_name == "json":
        return as_json("kvplan-models/1", architectures=[asdict(known) for known in kept])
    return architectures_text(kept, release, canvas)


def _kept(text: str, items: Iterable[Item], cells: Callable[[Item], Sequence[str]]) -> list[Item]:
    """The items with a cell that contains `text`, in any case."""
    return [item for item in items if any(text.lower() in cell.lower() for cell in cells(item))]


def _nothing(text: str) -> InputError:
    return InputError(f"nothing known contains {text[:80]!r}; leave the text out to list all")
