"""Configs are found by name, in the folders given first, and stand as names in records."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.configs import Configs, opened
from tests.oracle.errors import OracleError


def folder(place: Path, name: str) -> Path:
    (place / name).mkdir(parents=True)
    (place / name / "config.json").write_text("{}", encoding="utf-8")
    return place / name


def test_the_first_folder_wins(tmp_path: Path) -> None:
    mine = folder(tmp_path / "one", "model")
    folder(tmp_path / "two", "model")
    other = folder(tmp_path / "two", "other")
    configs = Configs((tmp_path / "one", tmp_path / "two"))
    assert [configs.folder("model"), configs.folder("other")] == [mine, other]


def test_a_folder_without_a_config_is_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(OracleError, match="no config called empty: give the folder that it lies in with --configs"):
        Configs((tmp_path,)).folder("empty")


def test_flags_name_configs_and_messages_get_the_names_back(tmp_path: Path) -> None:
    draft = folder(tmp_path, "draft-1.7B")
    configs = Configs((tmp_path,))
    flag = '{"model": "{configs}/draft-1.7B", "num_speculative_tokens": 2}'
    assert configs.named(flag) == flag.replace("{configs}/draft-1.7B", str(draft))
    assert configs.unnamed(configs.named(flag)) == flag


def test_the_golden_configs_are_always_there() -> None:
    with opened(()) as configs:
        assert (configs.folder("Qwen__Qwen3-8B") / "config.json").is_file()
