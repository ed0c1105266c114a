"""A few hostile inputs by chance on every run; `python -m tests.fuzzing` does many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvplan.releases import KNOWN
from tests import fuzzing
from tests.fuzzing import Edit

few = settings(max_examples=25, suppress_health_check=list(HealthCheck))

values = st.sampled_from(fuzzing.VALUES) | st.integers() | st.floats() | st.text(max_size=8)
edits = st.lists(st.tuples(st.integers(0, 10**6), values), min_size=1, max_size=4)
words = st.lists(st.sampled_from((*fuzzing._flags(), *fuzzing.WORDS)), max_size=8)
own = st.lists(st.sampled_from(fuzzing.OWN), max_size=3).map(lambda pairs: [word for pair in pairs for word in pair])
text = st.lists(st.sampled_from(fuzzing._PIECES) | st.text(max_size=5), max_size=30).map(" ".join)


@few
@given(model=st.sampled_from(fuzzing.models()), edits=edits, release=st.sampled_from(KNOWN))
def test_configs(tmp_path_factory: Any, model: str, edits: Sequence[Edit], release: str) -> None:
    fuzzing.check_config(model, edits, release, tmp_path_factory.mktemp("fuzz"))


@few
@given(
    model=st.sampled_from(fuzzing.models()),
    words=words,
    own=own,
    release=st.sampled_from(KNOWN),
    format_name=st.sampled_from(fuzzing.FORMATS),
)
def test_commands(model: str, words: Sequence[str], own: Sequence[str], release: str, format_name: str) -> None:
    fuzzing.check_command(model, words, own, release, format_name)


@few
@given(name=st.sampled_from(fuzzing.NAMES), text=text, format_name=st.sampled_from(fuzzing.FORMATS))
def test_manifests(tmp_path_factory: Any, name: str, text: str, format_name: str) -> None:
    folder: Path = tmp_path_factory.mktemp("fuzz")
    fuzzing.check_manifest(name, text, format_name, folder)
