"""How quick kvplan is, against what people would otherwise start: `pytest tests/benchmarks --benchmark-enable`.

Cold starts are whole processes, byte code cached, best of several; the two bounds of the project are asserted. The
figures in docs/accuracy.md are the ratios of the minima.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kvplan.checkpoint import load
from kvplan.engine import plan
from kvplan.launch.build import from_command
from kvplan.launch.hardware import parse_gpu
from kvplan.launch.values import Launch
from kvplan.releases import resolve
from kvplan.report.canvas import Canvas
from kvplan.report.formats import FORMATS
from kvplan.report.values import make
from kvplan.rules import run

ROOT = Path(__file__).parents[2]
ROUNDS = 7
MODEL = "meta-llama/Meta-Llama-3.1-70B"
"""80 layers."""

pytestmark = pytest.mark.skipif("not config.getoption('benchmark_enable')", reason="benchmarks run on demand")

CHECK = ("-m", "kvplan", "check", "GLM-5.2-FP8", "--offline")
TRANSFORMERS = ("-c", "import transformers")


def process(arguments: tuple[str, ...]) -> None:
    """Run Python in a process of its own, with byte code cached as in an installation."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )


def launch() -> Launch:
    """The 80-layer model on eight GPUs."""
    return from_command(
        ["vllm", "serve", MODEL, "-tp", "8", "--kv-cache-dtype", "fp8"],
        release=resolve("latest"),
        hardware=parse_gpu("h200"),
        available_kv_memory=60 * 2**30,
    )


def seconds(benchmark: BenchmarkFixture) -> float:
    """The least of the measured times."""
    assert benchmark.stats is not None
    return float(benchmark.stats.stats.min)


@pytest.fixture(scope="module")
def cold() -> dict[str, float]:
    """Least wall times of the cold starts, by what was started."""
    return {}


@pytest.mark.parametrize("what", [TRANSFORMERS, CHECK], ids=["import transformers", "kvplan check"])
def test_cold_start(what: tuple[str, ...], benchmark: BenchmarkFixture, cold: dict[str, float]) -> None:
    benchmark.pedantic(process, args=(what,), warmup_rounds=1, rounds=ROUNDS)  # type: ignore[no-untyped-call]
    cold[what[-1]] = seconds(benchmark)
    if len(cold) == 2:
        ratio = cold[CHECK[-1]] / cold[TRANSFORMERS[-1]]
        benchmark.extra_info["of import transformers"] = f"{ratio:.2f}"
        assert ratio <= 0.5


def test_plan_of_eighty_layers(benchmark: BenchmarkFixture) -> None:
    checkpoint, asked = load(MODEL, offline=True), launch()
    planned = benchmark(plan, checkpoint, asked)
    assert len(planned.layers) == 80
    assert seconds(benchmark) <= 0.005


def test_rules(benchmark: BenchmarkFixture) -> None:
    planned = plan(load(MODEL, offline=True), launch())
    assert benchmark(run, planned)


@pytest.mark.parametrize("name", ["text", "json"])
def test_formats(name: str, benchmark: BenchmarkFixture) -> None:
    planned = plan(load(MODEL, offline=True), launch())
    report = make(planned, run(planned))
    assert benchmark(FORMATS[name].render, report, Canvas())
