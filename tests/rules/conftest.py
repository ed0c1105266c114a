"""Plans for the rules' tests: real runs of catalog models, and plans with a start-up error put in by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import pytest

from kvplan.engine import Plan
from kvplan.engine.failures import Failure
from kvplan.engine.values import Stage, StartupError
from tests import asking


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
    """A plan whose start-up stops with that failure."""

    def __call__(self, failure: Failure, *, version: str = "0.33.0") -> Plan: ...


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
        return asking.planned(command, release=version, gpu=gpu, memory=available, weights=weights)

    return run


@pytest.fixture(scope="session")
def stopped() -> Stopped:
    """Plans by failure."""

    def stop(failure: Failure, *, version: str = "0.33.0") -> Plan:
        sound = asking.planned("vllm serve meta-llama/Llama-3.1-8B", release=version)
        return replace(sound, error=StartupError(Stage.SPECS, "ValueError", "it does not work", failure))

    return stop
