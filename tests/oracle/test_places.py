"""Where the environment and the sources lie, and what is said where they are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle import places
from tests.oracle.errors import OracleError


@pytest.fixture(autouse=True)
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_ORACLE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("VLLM_SOURCES", str(tmp_path / "sources"))


def test_a_missing_environment_says_how_to_make_it() -> None:
    with pytest.raises(OracleError, match=r"python -m tests\.oracle setup"):
        places.interpreter()


def test_an_environment_that_is_not_ready_is_missing(tmp_path: Path) -> None:
    python = tmp_path / "home/venv/bin/python"
    python.parent.mkdir(parents=True)
    python.touch()
    with pytest.raises(OracleError, match="no oracle environment"):
        places.interpreter()
    (tmp_path / "home/ready").touch()
    assert places.interpreter() == python


def test_missing_sources_say_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(OracleError, match=r"python -m tests.oracle sources 0\.33\.0"):
        places.sources("0.33.0")
    (tmp_path / "sources/vllm-0.33.0/vllm").mkdir(parents=True)
    assert places.sources("0.33.0") == places.unpack_sources("0.33.0") == tmp_path / "sources/vllm-0.33.0"


@pytest.mark.parametrize(("release", "own"), [("0.15.1", True), ("0.9.2", True), ("0.16.0", False), ("1.0.0", False)])
def test_releases_before_0_16_read_configs_with_transformers_4(release: str, own: bool, tmp_path: Path) -> None:
    assert places.packages_in_front(release) == (tmp_path / "home/transformers4" if own else None)


def test_requirements_pin_every_package() -> None:
    lines = places.REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    assert len(lines) > 100
    assert all(line.count("==") == 1 for line in lines)
