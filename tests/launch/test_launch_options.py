"""The option tables: choices, defaults and lifetimes, release by release."""

from __future__ import annotations

import pytest

from kvplan.launch.options import MATTERING, choices_of, default_of, lifetime_of, option_of, table_of
from kvplan.releases import KNOWN, resolve


@pytest.mark.parametrize("name", KNOWN)
def test_every_release_has_a_table_without_clashing_flags(name: str) -> None:
    table = table_of(resolve(name))
    assert len(table.by_name) > 200
    assert {"--kv-cache-dtype", "--max-model-len", "-tp", "--no-enable-prefix-caching"} <= set(table.by_flag)
    assert table.by_name["model_tag"].positional
    for option in table.by_name.values():
        assert option.nargs in (None, "+", "?", "*")
        for flag in (*option.flags, *option.hidden):
            assert table.by_flag[flag] is option


def test_every_mattering_name_exists_in_some_release() -> None:
    known = {name for release in KNOWN for name in table_of(resolve(release)).by_name}
    assert sorted(MATTERING - known) == []


@pytest.mark.parametrize(
    ("release", "value", "allowed"),
    [
        ("0.16.0", "float16", False),
        ("0.18.1", "float16", True),
        ("0.19.1", "int8_per_token_head", False),
        ("0.21.0", "int8_per_token_head", True),
        ("0.16.0", "turboquant_k8v4", False),
        ("0.20.2", "turboquant_k8v4", True),
    ],
)
def test_cache_dtype_choices_by_release(release: str, value: str, *, allowed: bool) -> None:
    choices = choices_of("kv_cache_dtype", resolve(release))
    assert choices is not None
    assert (value in choices) is allowed


def test_newest_release_does_not_check_the_cache_dtype_while_parsing() -> None:
    assert choices_of("kv_cache_dtype", resolve("0.33.0")) is None


def test_block_size_choices_end_after_0_17() -> None:
    assert choices_of("block_size", resolve("0.17.1")) == (1, 8, 16, 32, 64, 128, 256)
    assert choices_of("block_size", resolve("0.18.1")) is None


@pytest.mark.parametrize(
    ("name", "release", "value"),
    [
        ("gpu_memory_utilization", "0.16.0", 0.9),
        ("gpu_memory_utilization", "0.19.1", 0.9),
        ("gpu_memory_utilization", "0.20.2", 0.92),
        ("gpu_memory_utilization", "0.33.0", 0.92),
        ("kv_cache_dtype", "0.33.0", "auto"),
        ("tensor_parallel_size", "0.25.1", 1),
        ("max_num_seqs", "0.25.1", None),
        ("kv_cache_dtype_skip_layers", "0.33.0", []),
        ("kv_cache_dtype_skip_layers", "0.16.0", None),
        ("swap_space", "0.17.1", 4),
        ("swap_space", "0.18.1", None),
        ("model", "0.33.0", "Qwen/Qwen3-0.6B"),
        ("no_such_option", "0.33.0", None),
    ],
)
def test_defaults(name: str, release: str, value: object) -> None:
    assert default_of(name, resolve(release)) == value


def test_lifetimes() -> None:
    skip = lifetime_of("--kv-cache-dtype-skip-layers")
    assert skip is not None
    assert (skip.first, skip.last) == ("0.19.1", "0.33.0")
    swap = lifetime_of("--swap-space")
    assert swap is not None
    assert (swap.first, swap.last) == ("0.16.0", "0.17.1")
    assert lifetime_of("--never-was") is None


def test_opposite_spellings() -> None:
    newest = option_of("enable_prefix_caching", resolve("0.33.0"))
    assert newest is not None
    assert not newest.negates("--enable-prefix-caching")
    assert newest.negates("--no-enable-prefix-caching")
    assert newest.negates("--disable-prefix-caching")
    manager = option_of("disable_hybrid_kv_cache_manager", resolve("0.33.0"))
    assert manager is not None
    assert not manager.negates("--disable-hybrid-kv-cache-manager")
    assert manager.negates("--enable-hybrid-kv-cache-manager")
    assert "--disable-prefix-caching" not in table_of(resolve("0.32.0")).by_flag


def test_unknown_newer_release_takes_the_newest_table() -> None:
    assert table_of(resolve("0.99.0")) is table_of(resolve("latest"))
