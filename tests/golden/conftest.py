"""The configs that records and cases name, unpacked once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import build


@pytest.fixture(scope="session")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one folder a config."""
    target = tmp_path_factory.mktemp("configs")
    build.unpack(target)
    return target
