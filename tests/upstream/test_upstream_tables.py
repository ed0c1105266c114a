"""kvplan's dated tables against what was read of every known release."""

from __future__ import annotations

import json

import pytest

from kvplan.releases import KNOWN
from tests.upstream import checking, departures, store
from tests.upstream.subjects import SUBJECTS, messages

ADVICE = "who is right? ask the sources: mend kvplan's table, the reader, or name it in tests/upstream/departures.py"


@pytest.mark.parametrize("release", KNOWN)
def test_tables_say_what_the_release_says(release: str) -> None:
    found = [str(one) for one in checking.unintended(release, store.load(release))]
    assert not found, f"{ADVICE} (kvplan's table stands first)\n" + "\n".join(found)


@pytest.mark.parametrize("release", KNOWN)
def test_extracts_are_whole_and_kept_as_they_are_written(release: str) -> None:
    extract = store.load(release)
    assert extract.keys() == {subject.name for subject in SUBJECTS}
    assert json.loads(store.dump(extract)) == extract
    assert store.packed(extract) == store.path_of(release).read_bytes()


def test_departures_are_needed() -> None:
    used = {
        departure
        for release in KNOWN
        for subject in SUBJECTS
        for difference in checking.compared(subject, release, store.load(release))
        if (departure := departures.intended(difference, release)) is not None
    }
    assert [str(one) for one in departures.DEPARTURES if one not in used] == []


def test_quoted_texts_are_the_texts_of_a_release() -> None:
    """A new or changed text of a refusal: read the releases again (`extract RELEASE --subject messages`) where it is
    vLLM's, name it among OWN_WORDS where it is not."""
    held = {text for release in KNOWN for text in store.load(release)["messages"]}
    assert sorted(set(messages.quoted()) - held - messages.OWN_WORDS.keys()) == []
    assert sorted(held & messages.OWN_WORDS.keys()) == []
    assert sorted(messages.OWN_WORDS.keys() - set(messages.quoted())) == []
