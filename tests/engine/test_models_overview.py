"""What `kvplan models --architectures` knows of each architecture."""

from __future__ import annotations

import pytest

from kvplan.engine.coverage import covered_releases
from kvplan.engine.models.overview import Overview, overview
from kvplan.engine.models.registered import architectures, lookup
from kvplan.engine.models.unplaceable import REASONS
from kvplan.releases import KNOWN, resolve

NEWEST = resolve("latest")


@pytest.fixture(scope="module")
def known() -> dict[str, Overview]:
    """The newest release's architectures by name."""
    return {entry.architecture: entry for entry in overview(NEWEST)}


def test_every_registered_architecture_is_told(known: dict[str, Overview]) -> None:
    assert tuple(known) == architectures(NEWEST)
    for name, entry in known.items():
        registered = lookup(name, NEWEST)
        assert registered is not None
        assert entry.kind == registered.kind
        assert (entry.not_computed is not None) == (entry.kind in REASONS)
        assert entry.releases[-1] == KNOWN[-1]
        assert entry.covered == covered_releases().get(name, ())


def test_a_family_file_a_wrapper_and_a_general_one(known: dict[str, Overview]) -> None:
    assert (known["Gemma4ForCausalLM"].family, known["Gemma4ForCausalLM"].wraps) == ("gemma.py", None)
    wrapper = known["Gemma4ForConditionalGeneration"]
    assert (wrapper.family, wrapper.wraps) == ("gemma.py", "Gemma4ForCausalLM")
    assert (known["LlamaForCausalLM"].family, known["LlamaForCausalLM"].releases) == ("general.py", KNOWN)
    llava = known["LlavaForConditionalGeneration"]
    assert (llava.family, llava.wraps) == (None, "text_config")


def test_coverage_is_for_known_architectures_and_releases() -> None:
    for name, releases in covered_releases().items():
        assert all(release in KNOWN for release in releases), name
