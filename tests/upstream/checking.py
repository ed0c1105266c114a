"""Holding kvplan's tables against what was read of a release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvplan.releases import Release
from tests.upstream import departures
from tests.upstream.facts import Difference, Facts, Subject, differences
from tests.upstream.subjects import SUBJECTS


def compared(subject: Subject, release: str, extract: Mapping[str, Facts]) -> Iterator[Difference]:
    """Where kvplan's table (left) and the extract (right) differ in one subject. Raises LookupError where the
    extract was made before the subject was."""
    if subject.name not in extract:
        raise LookupError(f"the extract of {release} lacks {subject.name}: read it (extract {release} --subject …)")
    if subject.told is not None:
        yield from differences(subject.name, subject.told(Release(release, release)), extract[subject.name])


def unintended(release: str, extract: Mapping[str, Facts]) -> Iterator[Difference]:
    """The differences in all subjects that no departure explains."""
    for subject in SUBJECTS:
        for difference in compared(subject, release, extract):
            if departures.intended(difference, release) is None:
                yield difference
