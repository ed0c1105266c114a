"""Launches that share their words: one where they are found twice, two where what surrounds them differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.asking import told

_ARGS = "[--model, Qwen/Qwen3-0.6B, --kv-cache-dtype, fp8]"
_SCRIPT = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: start}
data:
  start.sh: |
    vllm serve Qwen/Qwen3-0.6B
"""
_POD = """\
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  volumes: [{name: s, configMap: {name: start}}]
  containers:
    - {name: vllm, image: "vllm/vllm-openai:%s", command: [bash, /s/start.sh], volumeMounts: [{name: s, mountPath: /s}]}
"""

_COMPOSE = """\
x-common: &common
  image: vllm/vllm-openai:v0.33.0
  command: [--model, Qwen/Qwen3-0.6B]
services:
  first:
    <<: *common
    %s
  second:
    <<: *common
    %s
"""


def scanned(text: str, name: str, folder: Path) -> list[dict[str, Any]]:
    (folder / name).write_text(text)
    launches: list[dict[str, Any]] = told("scan", str(folder), "--offline", "--isolated")["launches"]
    return launches


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docker-compose.yaml", _COMPOSE % ("labels: {a: b}", "image: vllm/vllm-openai:v0.25.1")),
        ("docker-compose.yaml", _COMPOSE % ("labels: {a: b}", "accelerator: t4")),
        ("docker-compose.yaml", _COMPOSE % ("labels: {a: b}", "environment: {VLLM_KV_CACHE_LAYOUT: HND}")),
        ("docker-compose.yaml", _COMPOSE % ("labels: {a: b}", "environment: {CUDA_VISIBLE_DEVICES: '0,1'}")),
        ("pods.yaml", _SCRIPT + _POD % ("prod", "v0.33.0") + _POD % ("canary", "v0.25.1")),
        (
            "pod.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n"
            f"    - {{name: a, image: 'vllm/vllm-openai:v0.33.0', args: &args {_ARGS}}}\n"
            "    - {name: b, image: 'vllm/vllm-openai:v0.25.1', args: *args}\n",
        ),
        (
            "loop.sh",
            "for v in v0.33.0 v0.25.1; do\n  docker run vllm/vllm-openai:$v --model Qwen/Qwen3-0.6B\ndone\n",
        ),
    ],
)
def test_launches_that_differ_are_both_told(name: str, text: str, tmp_path: Path) -> None:
    assert len(scanned(text, name, tmp_path)) == 2


def test_a_script_and_the_pod_that_mounts_it_are_one(tmp_path: Path) -> None:
    (launch,) = scanned(_SCRIPT + _POD % ("prod", "v0.25.1"), "pod.yaml", tmp_path)
    assert launch["found"]["release_given"] == "0.25.1"


def test_a_loop_over_what_changes_nothing_is_one(tmp_path: Path) -> None:
    text = "for name in a b c; do\n  NAME=$name vllm serve Qwen/Qwen3-0.6B\ndone\n"
    assert len(scanned(text, "loop.sh", tmp_path)) == 1
