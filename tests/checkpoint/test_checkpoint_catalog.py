"""The catalog is what its files say, and quick to read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kvplan.checkpoint import Source, catalog, load
from kvplan.checkpoint.build import PUBLISHED, build, encode, main, piece_of
from kvplan.checkpoint.normalise import normalise
from kvplan.errors import InputError


def test_normalising_afresh_gives_what_the_catalog_holds() -> None:
    entries = catalog.names()
    assert len(entries) > 300
    for entry in entries:
        document, quant = catalog.raw(entry)
        found = normalise(document.data, file=entry.name, quant_file=quant.data if quant else None)
        kept = load(entry.name)
        assert kept.source is Source.CATALOG
        assert kept.config_sha256 == document.sha256, entry.name
        assert encode(kept.config) == encode(found.config), entry.name
        assert encode(kept.text_config) == encode(found.text_config), entry.name
        assert (kept.text_config is kept.config) == (found.text_config is found.config), entry.name
        assert kept.architectures == found.architectures, entry.name
        assert kept.model_type == found.model_type, entry.name
        assert kept.quantization == json.loads(encode(found.quantization)), entry.name
        assert kept.normalised_by == found.by, entry.name


def test_names_are_sorted_and_say_where_they_come_from() -> None:
    names = [entry.name for entry in catalog.names()]
    assert names == sorted(names, key=lambda name: name.lower().replace("/", "__"))
    assert not [name for name in names if name.startswith("_")]
    assert all(entry.provenance and entry.model_type for entry in catalog.names())


def test_provenance_tells_the_source_and_not_how_it_was_copied() -> None:
    for entry in catalog.names():
        assert not re.search(r"file id|re-typed|read through|tool", entry.provenance), entry.name
        assert entry.provenance.count("(") == entry.provenance.count(")"), entry.name


def test_incomplete_copies_are_marked_and_complete_ones_not() -> None:
    kinds = {entry.name: entry.incomplete for entry in catalog.names()}
    assert kinds["LiquidAI/LFM2-1.2B"] == "trimmed"
    assert kinds["deepseek-ai/DeepSeek-V4.1-Flash"] == "reconstructed"
    assert kinds["zai-org/GLM-5.2-FP8"] is None
    assert set(kinds.values()) == {None, "trimmed", "reconstructed"}
    assert load("LFM2-1.2B", offline=True).incomplete == "trimmed"


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_published_values_fill_incomplete_copies_only(name: str) -> None:
    entry = catalog.find(name)
    assert entry is not None
    assert entry.incomplete is not None
    document, _ = catalog.raw(entry)
    for field, value in PUBLISHED[name].items():
        kept = document.data[field]
        assert kept == value if not isinstance(value, dict) else value.items() <= kept.items()
    assert catalog.checkpoint(entry, name).config_sha256 == document.sha256


def test_reading_one_model_needs_no_transformers() -> None:
    code = (
        "import sys, time\n"
        "from kvplan.checkpoint import load\n"
        "load('GLM-5.2-FP8')\n"
        "print([m for m in ('transformers', 'huggingface_hub', 'pydantic', 'yaml') if m in sys.modules])\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""


def test_an_ambiguous_bare_name_lists_the_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = catalog.names()[0]
    bare = entry.name.split("/")[1].lower()
    monkeypatch.setattr(catalog, "_by_bare_name", lambda: {bare: (entry, catalog.names()[1])})
    with pytest.raises(InputError, match="is ambiguous: give one of"):
        catalog.find(bare)


def test_building_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    configs = tmp_path / "configs"
    rows = ["folder,source,source_kind,completeness"]
    for name, kind in (("acme__tiny", "complete"), ("acme__typed", "trimmed"), ("_test__x", "complete")):
        (configs / name).mkdir(parents=True)
        (configs / name / "config.json").write_text('{"model_type": "llama", "num_hidden_layers": 2}')
        rows.append(f"{name},a source (file id 12); re-typed,verbatim,{kind}")
    (configs / "acme__broken").mkdir()
    (configs / "acme__broken" / "config.json").write_text("{}")
    rows.append("acme__broken,a source,verbatim,complete")
    (configs / "INDEX.csv").write_text("\n".join(rows) + "\n")
    first, second = tmp_path / "first", tmp_path / "second"
    skipped = build(configs, first)
    assert build(configs, second) == skipped
    assert len(skipped) == 1
    assert "acme/broken" in skipped[0]
    for name in (catalog.INDEX_FILE, catalog.PIECES_FILE, catalog.RAW_FILE):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    index = json.loads((first / catalog.INDEX_FILE).read_text())
    assert [row[0] for row in index] == ["acme/tiny", "acme/typed"]
    assert [row[3:5] for row in index] == [["a source", None], ["a source", "trimmed"]]


def test_the_build_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err


def test_a_language_section_outside_the_config_cannot_be_kept() -> None:
    document, _ = catalog.raw(catalog.names()[0])
    found = normalise(document.data, file="x")
    elsewhere = type(found)(found.config, dict(found.config), found.architectures, "x", None, found.by)
    with pytest.raises(LookupError):
        piece_of(document, elsewhere)
