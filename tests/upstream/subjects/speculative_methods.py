"""The methods that `--speculative-config` may name: `SpeculativeMethod`."""

from __future__ import annotations

from kvplan.engine.speculation import wanted
from kvplan.releases import Release
from tests.upstream.evaluate import Evaluator, LiteralType
from tests.upstream.facts import Facts, Subject
from tests.upstream.sources import Moved, Sources
from tests.upstream.subjects.speculative_keys import PLACE, row


def read(sources: Sources) -> Facts:
    """Method by method: true."""
    found = Evaluator(sources).constant(sources.first(PLACE), "SpeculativeMethod")
    if not isinstance(found, LiteralType):
        raise Moved(f"{PLACE} has no SpeculativeMethod: `speculative_methods` must learn the new place")
    return dict.fromkeys(found.values, True)


def told(release: Release) -> Facts:
    """kvplan's methods for the release."""
    return {name: True for name, span in wanted.METHODS.items() if release.within(span)}


SUBJECT = Subject(
    name="speculative_methods", table="engine/speculation/wanted.py METHODS", read=read, told=told, row=row
)
