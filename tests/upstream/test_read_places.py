"""Where options are read, in a small written package; and which of them the engine does not name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.upstream import unfollowed
from tests.upstream.subjects import read_places
from tests.upstream.test_upstream_subjects import PACKAGE
from tests.upstream.written import written

ENGINE_ARGS = """
class EngineArgs:
    max_model_len: int = ModelConfig.max_model_len
    quick: bool = get_field(ModelConfig, "quick")
    kv_cache_memory_bytes: int | None = None

    def create_engine_config(self):
        if self.quick and not self.max_model_len:
            raise ValueError
        return CacheConfig(bytes=self.kv_cache_memory_bytes)

    @staticmethod
"""

READING = """
def outside(vllm_config, other: "ModelConfig | None"):
    cache = vllm_config.cache_config
    assert cache.bytes
    if vllm_config.draft_model_config.quick:
        return getattr(other, "max_model_len", None)
    return hf_config.max_model_len

class Worker:
    def __init__(self, model_config):
        self.conf = model_config
        self.max_model_len = model_config.max_model_len

    def run(self):
        if self.conf.quick:
            log(self.max_model_len)
            if self.late:
                raise RuntimeError
        return vllm_config.cache_config.nested.depth
"""

OWN = """
@config
class NestedConfig:
    depth: int = 1

    @field_validator("depth")
    def check(cls, value):
        raise ValueError

@config
class CacheConfig:
    nested: NestedConfig
    kv_cache_memory_bytes: int
    layers: list
    computed: str
    bytes: int

    def settle(self):
        return self.bytes

    def compute_hash(self):
        return self.bytes
"""


@pytest.fixture
def places(tmp_path: Path) -> Mapping[str, Any]:
    """What is read of the package."""
    package = {
        **PACKAGE,
        "engine/arg_utils.py": PACKAGE["engine/arg_utils.py"].replace(
            "class EngineArgs:\n    @staticmethod\n", ENGINE_ARGS
        ),
        "config/cache.py": 'CacheDType = Literal["auto", "fp8"]\n' + OWN,
        "v1/worker.py": READING,
        "third_party/aside.py": READING,
    }
    return read_places.read(written(tmp_path, package))


def test_a_reading_is_told_by_receiver_and_field(places: Mapping[str, Any]) -> None:
    assert places["max_model_len"]["outside"] == [
        "engine/arg_utils.py:EngineArgs.create_engine_config!",
        "v1/worker.py:Worker.__init__",
        "v1/worker.py:outside",
    ]


def test_readings_that_decide_about_a_refusal_are_marked(places: Mapping[str, Any]) -> None:
    assert places["quick"]["outside"] == [
        "engine/arg_utils.py:EngineArgs.create_engine_config!",
        "v1/worker.py:Worker.run!",
        "v1/worker.py:outside",
    ]
    assert read_places.refusing(places["quick"])["outside"] == places["quick"]["outside"][:2]


def test_an_option_is_followed_to_the_field_that_it_fills(places: Mapping[str, Any]) -> None:
    assert places["kv_cache_memory_bytes"] == {"outside": ["v1/worker.py:outside!"], "own": ["CacheConfig.settle"]}


def test_fields_of_objects_stand_beside_the_options(places: Mapping[str, Any]) -> None:
    assert places["cache_config.depth"] == {"outside": ["v1/worker.py:Worker.run"], "own": ["NestedConfig.check!"]}
    assert places["speculative_config.method"] == {}
    assert places["port"] == {}


def test_many_places_are_counted_by_folder() -> None:
    folders = {f"models/{name}/at.py:Model.__init__": None for name in "abcdefghijklm"}
    found = read_places.shortened({*folders, "models/a/deep/at.py:Model.check!"})
    assert found[0] == "models/a/ (1)"
    assert "models/a/deep/at.py:Model.check!" in found
    assert read_places.shortened(set(folders) - {"models/a/at.py:Model.__init__"})[0] == "models/b/at.py:Model.__init__"


def test_options_that_the_engine_does_not_name() -> None:
    facts: dict[str, Any] = {"kv_cache_dtype": {}, "nobody_asks": {"own": ["X.y!"]}, "a_config.block_size": {}}
    assert list(unfollowed.unfollowed(facts)) == [("nobody_asks", {"own": ["X.y!"]})]
