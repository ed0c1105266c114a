"""`kvplan models`: the catalog, and the architectures known."""

from __future__ import annotations

import click

from kvplan.cli.output import canvas, write
from kvplan.errors import InputError

_NONE = {"encoder": "none: an encoder keeps no cache"}
"""What kvplan says about architectures that own no cache; the others are computed or have a reason why not."""


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
    from kvplan.report.listings import as_json, table_text

    headings, rows = _architectures(vllm_version) if architectures else _models()
    kept = [row for row in rows if any(text.lower() in cell.lower() for cell in row)]
    if not kept:
        raise InputError(f"nothing known contains {text[:80]!r}; leave the text out to list all")
    noun = "architecture" if architectures else "model"
    if format_name == "json":
        items = [dict(zip(headings, row, strict=True)) for row in kept]
        write(as_json("kvplan-models/1", **{f"{noun}s": items}), output)
    else:
        write(table_text([heading.replace("_", " ") for heading in headings], kept, noun, canvas(output)), output)
    return 0


def _models() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    from kvplan.checkpoint.catalog import names

    rows: list[tuple[str, ...]] = [(entry.name, entry.architecture, entry.model_type) for entry in names()]
    return ("name", "architecture", "model_type"), rows


def _architectures(version: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    from kvplan.engine.models.registered import architectures, lookup
    from kvplan.engine.models.unplaceable import REASONS
    from kvplan.releases import resolve

    release = resolve(version)
    rows: list[tuple[str, ...]] = []
    for name in architectures(release):
        entry = lookup(name, release)
        if entry is not None:
            why = REASONS.get(entry.kind)
            rows.append((name, _NONE.get(entry.kind, "computed") if why is None else f"not computed: {why}"))
    return ("architecture", "caches"), rows
