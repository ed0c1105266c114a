"""How quick `kvplan scan` is: `pytest tests/benchmarks --benchmark-enable`.

A thousand launches in three hundred files, all different, stay under ten seconds of one core, and the time grows with
the launches. Processor time is held to that, which a busy machine does not change; the table shows wall time.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kvplan.checkpoint import catalog
from kvplan.releases import KNOWN
from kvplan.report.scanvalues import ScanReport
from kvplan.runs.launching import Sources
from kvplan.runs.scanning import ScanRequest, scan

pytestmark = pytest.mark.skipif("not config.getoption('benchmark_enable')", reason="benchmarks run on demand")

LIMIT = 10.0
"""Seconds for a thousand launches."""

POD = """apiVersion: apps/v1
kind: Deployment
metadata: {{name: m{number}}}
spec:
  template:
    spec:
      nodeSelector: {{nvidia.com/gpu.product: {gpu}}}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v{release}
          args:
{arguments}
          resources: {{limits: {{nvidia.com/gpu: 8}}}}
---
"""


def write(folder: Path, launches: int) -> None:
    """Files with ten launches for three of them, manifests and scripts in turn, all different."""
    chosen = random.Random(launches)
    models = [entry.name for entry in catalog.names()]
    files = max(1, launches * 3 // 10)
    for file in range(files):
        manifests: list[str] = []
        commands: list[str] = []
        for number in range(launches * file // files, launches * (file + 1) // files):
            release = chosen.choice(KNOWN)
            words = [
                *("--model", chosen.choice(models)),
                *("--tensor-parallel-size", chosen.choice("1248")),
                *("--kv-cache-dtype", chosen.choice(("auto", "fp8"))),
                *("--max-num-seqs", str(number + 1)),
            ]
            arguments = "\n".join(f'            - "{word}"' for word in words)
            gpu = chosen.choice(("NVIDIA-H200", "NVIDIA-L40S"))
            manifests.append(POD.format(number=number, gpu=gpu, release=release, arguments=arguments))
            commands.append(f"docker run --gpus all vllm/vllm-openai:v{release} {' '.join(words)}\n")
        name, text = (f"{file}.sh", commands) if file % 3 == 2 else (f"{file}.yaml", manifests)
        (folder / name).write_text("".join(text), encoding="utf-8")


@pytest.mark.parametrize("launches", [100, 1000, 10_000])
def test_scan(launches: int, tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    write(tmp_path, launches)

    began = time.process_time()

    def run() -> ScanReport:
        nonlocal began
        began = time.process_time()
        return scan(ScanRequest(paths=(str(tmp_path),), sources=Sources(offline=True))).report

    report = benchmark.pedantic(run, rounds=1, warmup_rounds=int(launches < 1000))  # type: ignore[no-untyped-call]
    assert len(report.launches) == launches
    assert report.unreadable == ()
    assert time.process_time() - began < LIMIT * launches / 1000 + 1
