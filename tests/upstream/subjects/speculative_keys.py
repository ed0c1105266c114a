"""The keys of `--speculative-config`: the fields of SpeculativeConfig that its constructor takes."""

from __future__ import annotations

from typing import Any

from kvplan.engine.speculation import wanted
from kvplan.releases import Release
from tests.upstream import classes
from tests.upstream.evaluate import ClassRef, Evaluator
from tests.upstream.facts import Facts, Subject
from tests.upstream.sources import Moved, Sources

PLACE = "config/speculative.py"


def read(sources: Sources) -> Facts:
    """Key by key: true."""
    evaluator = Evaluator(sources)
    owner = evaluator.constant(sources.first(PLACE), "SpeculativeConfig")
    if not isinstance(owner, ClassRef):
        raise Moved(f"{PLACE} has no SpeculativeConfig: `speculative_keys` must learn the new place")
    return dict.fromkeys(classes.fields(evaluator, owner), True)


def told(release: Release) -> Facts:
    """kvplan's keys for the release."""
    return {name: True for name, span in wanted.KEYS.items() if release.within(span)}


def row(name: str, value: Any, since: str) -> str:
    """A row of kvplan's table."""
    return f'"{name}": Span(since="{since}"),'


SUBJECT = Subject(name="speculative_keys", table="engine/speculation/wanted.py KEYS", read=read, told=told, row=row)
