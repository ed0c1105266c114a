"""What kvplan knows about each architecture that a release registers: for people who ask before they check."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.engine.coverage import covered_releases
from kvplan.engine.models import families, registered
from kvplan.engine.models.registered import Registration
from kvplan.engine.models.unplaceable import REASONS
from kvplan.releases import KNOWN, Release, resolve


@dataclass(frozen=True, slots=True)
class Overview:
    """One architecture in one release."""

    architecture: str
    kind: str
    """`decoder`, `encoder`, or a kind of `unplaceable`."""
    not_computed: str | None
    """Why its caches are not computed; None where they are (an encoder has none)."""
    family: str | None
    """The file in `engine/models/families` that builds its layers; None where none does or the text config decides."""
    wraps: str | None
    """The language model that a multimodal class builds, or `text_config` where that names it."""
    releases: tuple[str, ...]
    """Known releases that register it."""
    covered: tuple[str, ...]
    """Those in which vLLM's own answers were compared and all agree."""


def overview(release: Release) -> tuple[Overview, ...]:
    """All architectures registered in `release`, in alphabetical order."""
    return tuple(
        _told(entry, release)
        for name in registered.architectures(release)
        if (entry := registered.lookup(name, release)) is not None
    )


def _told(entry: Registration, release: Release) -> Overview:
    name = entry.architecture
    computed = entry.kind not in REASONS
    _, recipe = families.of(entry, release)
    wraps = recipe.wraps is not None
    return Overview(
        architecture=name,
        kind=entry.kind,
        not_computed=REASONS.get(entry.kind),
        family=_file(entry, release) if computed else None,
        wraps=(recipe.architecture or "text_config") if wraps else None,
        releases=tuple(each for each in KNOWN if registered.lookup(name, resolve(each)) is not None),
        covered=covered_releases().get(name, ()),
    )


def _file(entry: Registration, release: Release) -> str | None:
    """The file that builds the layers; a wrapper's are built by the family of what it wraps."""
    _, recipe = families.of(entry, release)
    if recipe.wraps is not None:
        inner = registered.lookup(recipe.architecture, release) if recipe.architecture else None
        return None if inner is None else _file(inner, release)
    return f"{families.file_of(entry)}.py"
