"""Which architectures vLLM's own answers cover, release by release.

`data/coverage.json` lists, for every architecture, the releases for which conformance records exist and agree. It is
written by the command that makes the conformance table, so that "exact" is never a matter of opinion.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources

from kvplan.engine.models.geometry import ModelGeometry
from kvplan.releases import Release


@cache
def covered_releases() -> Mapping[str, tuple[str, ...]]:
    """Architecture to the releases in which records of it agree with the engine."""
    text = resources.files("kvplan.engine").joinpath("data/coverage.json").read_text("utf-8")
    return {architecture: tuple(releases) for architecture, releases in json.loads(text).items()}


def is_covered(geometry: ModelGeometry, release: Release, draft: str | None = None) -> bool:
    """Whether numbers for this architecture, and that of its draft, were checked against vLLM's own in this release."""
    names = [geometry.architecture] if draft is None else [geometry.architecture, draft]
    return not release.beyond_known and all(release.acts_as in covered_releases().get(name, ()) for name in names)
