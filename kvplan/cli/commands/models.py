"""`kvplan models`: the catalog, and the architectures known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from kvplan.cli.output import canvas, write
from kvplan.errors import InputError

if TYPE_CHECKING:
    from kvplan.report.canvas import Canvas

Item = TypeVar("Item")


@click.command(
    "models",
    short_help="List the models of the catalog, or the architectures known.",
    epilog="""
\b
Examples:
  kvplan models glm
  kvplan models --architectures deepseek
""",
)
@click.argument("text", required=False, default="")
@click.option("--architectures", is_flag=True, help="List the architectures of a vLLM release instead.")
@click.option(
    "--vllm-version",
    metavar="RELEASE",
    default="latest",
    show_default="the newest known",
    help="The release whose architectures are meant.",
)
@click.option("--format", "format_name", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--output", metavar="FILE", help="Write to FILE instead of standard output.")
def command(text: str, architectures: bool, vllm_version: str, format_name: str, output: str | None) -> int:
    """List the models of the catalog (or the architectures) whose name contains TEXT."""
    if architectures:
        write(_architectures(text, vllm_version, format_name, canvas(output)), output)
    else:
        write(_models(text, format_name, canvas(output)), output)
    return 0


def _models(text: str, format_name: str, canvas: Canvas) -> str:
    from kvplan.checkpoint.catalog import names
    from kvplan.report.listings import as_json, table_text

    headings = ("name", "architecture", "model_type")
    rows = _kept(text, [(entry.name, entry.architecture, entry.model_type) for entry in names()], lambda row: row)
    if format_name == "json":
        return as_json("kvplan-models/1", models=[dict(zip(headings, row, strict=True)) for row in rows])
    return table_text(("name", "architecture", "model type"), rows, "model", canvas)


def _architectures(text: str, version: str, format_name: str, canvas: Canvas) -> str:
    from dataclasses import asdict

    from kvplan.engine.models.overview import overview
    from kvplan.releases import resolve
    from kvplan.report.listings import architectures_text, as_json

    release = resolve(version)
    kept = _kept(
        text, overview(release), lambda known: (known.architecture, known.kind, known.family or "", known.wraps or "")
    )
    if format_name == "json":
        return as_json("kvplan-models/1", architectures=[asdict(known) for known in kept])
    return architectures_text(kept, release, canvas)


def _kept(text: str, items: Iterable[Item], cells: Callable[[Item], Sequence[str]]) -> list[Item]:
    """The items with a cell that contains `text`, in any case."""
    kept = [item for item in items if any(text.lower() in cell.lower() for cell in cells(item))]
    if not kept:
        raise InputError(f"nothing known contains {text[:80]!r}; leave the text out to list all")
    return kept
