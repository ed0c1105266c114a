"""Options that kvplan does not look at: every option of every release is followed, harmless or named."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from kvplan.launch import lookedat
from kvplan.launch.options import fields_of, table_of
from kvplan.releases import KNOWN, Release
from tests import asking

PACKAGE = Path(__file__).parents[2] / "kvplan"
READERS_OF_ALL = {"launch/options.py", "launch/lookedat.py"}
"""Modules that name options without looking at them."""


@cache
def named_in_code() -> frozenset[str]:
    """Every string constant of the package's code, docstrings left out by having blanks."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if str(path.relative_to(PACKAGE)) in READERS_OF_ALL:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
                found.add(node.value)
    return frozenset(found)


@pytest.mark.parametrize("release", KNOWN)
def test_every_option_is_followed_harmless_or_named(release: str) -> None:
    for name in table_of(Release(release, release)).by_name:
        harmless, declared = lookedat.is_harmless(name), lookedat.is_declared(name)
        assert not (harmless and declared), name
        told = harmless or declared or bool(lookedat.fields_listed(name))
        assert told or name in named_in_code(), f"{name}: look at it, or say why not"


@pytest.mark.parametrize("option", ["attention_config", "compilation_config", "kernel_config", "kv_transfer_config"])
def test_so_is_every_field_of_the_configs_that_matter(option: str) -> None:
    listed = lookedat.fields_listed(option)
    for release in KNOWN:
        for field in fields_of(option, Release(release, release)) or ():
            assert field in listed or field in named_in_code(), f"{option}.{field}: look at it, or say why not"


def test_the_file_names_no_option_that_never_was() -> None:
    ever = {name for release in KNOWN for name in table_of(Release(release, release)).by_name}
    assert lookedat.listed() <= ever


def test_what_is_given_and_not_looked_at_is_told() -> None:
    launch = asking.launched("vllm serve m --io-processor-plugin mine --kernel-config.linear_backend cutlass --host h")
    assert [one.option for one in lookedat.not_looked_at(launch)] == [
        "--io-processor-plugin",
        "--kernel-config.linear_backend",
    ]
    assert "host" not in launch.settings


def test_the_plan_is_then_not_exact() -> None:
    command = "vllm serve meta-llama/Llama-3.1-8B"
    assert asking.planned(command).exact
    unread = asking.planned(f"{command} --linear-backend cutlass")
    assert unread.error is None
    assert not unread.exact
    assert all(layer.covered for layer in unread.layers)


def test_a_value_that_asks_for_nothing_is_not() -> None:
    command = "vllm serve m --linear-backend auto --load-format auto --prefix-caching-hash-algo sha256"
    assert lookedat.not_looked_at(asking.launched(command)) == ()
