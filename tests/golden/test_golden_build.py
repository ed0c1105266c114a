"""The golden tests' data: configs.zip holds what is named, and grows with records that are added."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tests.golden import build


def test_every_config_that_is_named_is_there(configs: Path) -> None:
    assert [name for name in build.named() if not (configs / name / "config.json").is_file()] == []


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ([], []),
        (["--speculative-config", '{"model": "../configs/draft-1.7B", "num_speculative_tokens": 2}'], ["draft-1.7B"]),
        (["--speculative-config", '{"model": "ngram"}'], []),
        (["--speculative-config", "{not json"], []),
        (["--spec-model", "{configs}/draft_2"], ["draft_2"]),
        (["--hf-overrides", '{"a": "{configs}/one", "b": "{configs}/two"}'], ["one", "two"]),
    ],
)
def test_flags_name_configs(flags: list[str], names: list[str]) -> None:
    assert list(build.others(flags)) == names


def test_records_are_read_as_they_were_written(tmp_path: Path) -> None:
    records = build.records("0.24.0")[:3]
    build.write(tmp_path / "made.jsonl.xz", records)
    assert list(build.read(tmp_path / "made.jsonl.xz")) == records


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Golden data of its own: no records yet, one case."""
    for name in ("RECORDS", "EXTRA"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(build, name, tmp_path / name)
    monkeypatch.setattr(build, "CONFIGS", tmp_path / "configs.zip")
    monkeypatch.setattr(build, "CASES", tmp_path / "cases.jsonl")
    (tmp_path / "cases.jsonl").write_text(json.dumps({"config": "first"}), encoding="utf-8")
    return tmp_path


def config(place: Path, name: str) -> None:
    (place / name).mkdir(parents=True)
    (place / name / "config.json").write_text(json.dumps({"of": name}), encoding="utf-8")


def test_configs_of_new_records_are_added_to_those_that_were_there(data: Path) -> None:
    config(data / "one", "first")
    build.build([data / "one"])
    config(data / "two", "second")
    build.write(data / "EXTRA/new.jsonl.xz", [{"release": "0.33.0", "config": "second", "flags": []}])
    build.build([data / "two"])
    with zipfile.ZipFile(build.CONFIGS) as archive:
        assert archive.namelist() == ["first/config.json", "second/config.json"]
    before = build.CONFIGS.read_bytes()
    build.build([])
    assert build.CONFIGS.read_bytes() == before


def test_a_config_that_is_nowhere_is_told_and_nothing_is_lost(data: Path) -> None:
    config(data / "one", "first")
    build.build([data / "one"])
    before = build.CONFIGS.read_bytes()
    build.write(data / "EXTRA/new.jsonl.xz", [{"release": "0.33.0", "config": "unknown", "flags": []}])
    with pytest.raises(SystemExit, match="no config of unknown, which a record or a case names"):
        build.build([])
    assert build.CONFIGS.read_bytes() == before
