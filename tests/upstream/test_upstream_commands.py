"""The commands of the upstream reader."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvplan.releases import NEWEST
from tests.upstream import store
from tests.upstream.__main__ import main
from tests.upstream.test_upstream_subjects import PACKAGE
from tests.upstream.written import written


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """The folder of the small package."""
    return written(tmp_path / "vllm", PACKAGE).folder


@pytest.fixture
def extracts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of extracts with that of the newest known release, for this test alone."""
    folder = tmp_path / "extracts"
    folder.mkdir()
    shutil.copy(store.path_of(NEWEST), folder)
    monkeypatch.setattr(store, "FOLDER", folder)
    store.load.cache_clear()
    yield folder
    store.load.cache_clear()


def test_extract_writes_all_or_one_subject(sources: Path, extracts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extract", "0.34.0", str(sources)]) == 0
    first = (extracts / "0.34.0.json.xz").read_bytes()
    (sources / "envs.py").write_text("environment_variables = {'VLLM_NEW': 1}\n")
    assert main(["extract", "0.34.0", str(sources), "--subject", "environment"]) == 0
    assert store.load("0.34.0")["environment"] == {"VLLM_NEW": True}
    assert store.load("0.34.0")["speculative_keys"] == {"method": True}
    assert first != (extracts / "0.34.0.json.xz").read_bytes()
    assert "facts on" in capsys.readouterr().out


def test_extract_keeps_nothing_of_sources_it_cannot_read(
    sources: Path, extracts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (sources / "config" / "cache.py").write_text("")
    assert main(["extract", "0.34.0", str(sources)]) == 2
    assert not (extracts / "0.34.0.json.xz").exists()
    assert "config/cache.py has no CacheDType: `cache_dtypes` must learn the new place" in capsys.readouterr().err


def test_rows_stand_table_by_table(sources: Path, extracts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rows", "0.34.0", "--after", NEWEST, str(sources)]) == 0
    told = capsys.readouterr().out
    assert "speculative_keys (engine/speculation/wanted.py KEYS)" in told
    assert f'  - xpress_topc: until="{NEWEST}"' in told
    assert "  + LlamaDraft\tllama\tLlamaForCausalLM\tgP\t?\t0.34.0\t" in told


def test_check_tells_both_sides(sources: Path, extracts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", NEWEST]) == 0
    main(["extract", NEWEST, str(sources), "--subject", "speculative_methods"])
    assert main(["check", NEWEST]) == 1
    assert f"{NEWEST}: speculative_methods: dspark: true against absent" in capsys.readouterr().out


def test_show_and_readers(sources: Path, extracts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", NEWEST, "cache_dtypes"]) == 0
    assert '"octave_k3v4"' in capsys.readouterr().out
    assert main(["readers", "--kv-cache-memory-bytes", "0.34.0", str(sources)]) == 0
    assert "engine/arg_utils.py:create: self.kv_cache_memory_bytes" in capsys.readouterr().out


def test_missing_sources_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extract", "0.34.0", str(tmp_path)]) == 2
    assert "no unpacked vLLM 0.34.0" in capsys.readouterr().err
