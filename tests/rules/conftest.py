"""Plans for the rules' tests: real runs of catalog models, and plans with a start-up error put in by hand."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Protocol

import pytest

from kvplan.checkpoint import Checkpoint, load
from kvplan.engine import Plan, plan
from kvplan.engine.speculation.wanted import draft_reference
from kvplan.engine.values import Stage, StartupError
from kvplan.launch.build import from_command
from kvplan.launch.hardware import parse_gpu
from kvplan.launch.sizes import parse_size
from kvplan.releases import resolve
from kvplan.runs.launching import weighed


class Launched(Protocol):
    """Runs `vllm serve …` on a release and GPU."""

    def __call__(
        self,
        command: str,
        version: str = "0.33.0",
        gpu: str | None = "h200",
        available: str | None = "60GiB",
        weights: str | None = None,
    ) -> Plan: ...


class Stopped(Protocol):
    """A plan whose start-up stops with an error of that code."""

    def __call__(self, code: str, *, version: str = "0.33.0", **facts: object) -> Plan: ...


@cache
def _loaded(model: str) -> Checkpoint:
    return load(model, offline=True)


def _run(command: str, version: str, gpu: str | None, available: str | None, weights: str | None = None) -> Plan:
    launch = from_command(
        shlex.split(command),
        release=resolve(version),
        hardware=None if gpu is None else parse_gpu(gpu),
        available_kv_memory=None if available is None else parse_size(available, "--available-kv-memory"),
    )
    assert launch.model is not None
    named = draft_reference(launch)
    draft = None if named is None else _loaded(named)
    overrides: Any = launch.get("hf_overrides")
    if isinstance(overrides, Mapping):
        return plan(load(launch.model, offline=True, hf_overrides=overrides), launch, draft=draft)
    return plan(weighed(_loaded(launch.model), weights), launch, draft=draft)


@pytest.fixture(scope="session")
def launched() -> Launched:
    """Plans by vLLM command."""

    def run(
        command: str,
        version: str = "0.33.0",
        gpu: str | None = "h200",
        available: str | None = "60GiB",
        weights: str | None = None,
    ) -> Plan:
        return _run(command, version, gpu, available, weights)

    return run


@pytest.fixture(scope="session")
def stopped() -> Stopped:
    """Plans by error code."""

    def stop(code: str, *, version: str = "0.33.0", **facts: object) -> Plan:
        sound = _run("vllm serve meta-llama/Llama-3.1-8B", version, "h200", "60GiB")
        return replace(sound, error=StartupError(Stage.SPECS, "ValueError", "it does not work", code, facts))

    return stop
