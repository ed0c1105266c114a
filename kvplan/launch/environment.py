"""vLLM's environment variables: which names a release reads, and which of them touch the cache.

`data/environment.json` lists every `VLLM_*` name of `vllm/envs.py` with the runs of releases that have it. Only
variables given with the launch count; kvplan never looks at its own environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from kvplan.errors import InputError
from kvplan.launch.values import Remark
from kvplan.releases import KNOWN, Release, Span

MATTERING: Mapping[str, str] = {
    "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE": "keeps the hybrid manager with chunked attention",
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "lets --max-model-len exceed what the model's config allows",
    "VLLM_BATCH_INVARIANT": "restricts the attention backends",
    "VLLM_DCP_Q_REPLICATE": "default of --dcp-q-replicate",
    "VLLM_KV_CACHE_LAYOUT": "forces the NHD or HND layout of the cache",
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "takes the memory of CUDA graphs off the cache",
    "VLLM_MLA_DISABLE": "runs MLA models with full attention",
    "VLLM_PP_LAYER_PARTITION": "sets the number of layers of each pipeline stage",
    "VLLM_PREFIX_CACHE_RETENTION_INTERVAL": "default of --prefix-cache-retention-interval",
    "VLLM_SSM_CONV_STATE_LAYOUT": "layout of the convolution state",
    "VLLM_USE_HW_AGNOSTIC": "changes the layer classes of the transformers backend",
    "VLLM_USE_SIMPLE_KV_OFFLOAD": "connector used for --kv-offloading-size",
    "VLLM_USE_V2_MODEL_RUNNER": "chooses the model runner",
}
"""The variables that can change the cache or the layers, and how."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.ASCII | re.DOTALL)


def split_assignment(text: str) -> tuple[str, str] | None:
    """`NAME=VALUE` as a pair, or None where `text` is no assignment."""
    match = _ASSIGNMENT.fullmatch(text)
    return None if match is None else (match[1], match[2])


def parse_assignments(texts: Iterable[str]) -> dict[str, str]:
    """The values of `--env NAME=VALUE`; raises InputError for one that is no assignment."""
    found: dict[str, str] = {}
    for text in texts:
        pair = split_assignment(text)
        if pair is None:
            raise InputError(f"--env {text[:80]!r} is not an assignment: write it like VLLM_MLA_DISABLE=1")
        found[pair[0]] = pair[1]
    return found


def knows(name: str, release: Release) -> bool:
    """Whether `release` reads the variable `name`."""
    return any(release.within(span) for span in _spans().get(name, ()))


def remarks_on(environment: Mapping[str, str], release: Release) -> list[Remark]:
    """A remark for each `VLLM_*` variable that `release` does not read."""
    return [
        Remark("unknown_environment", name, _where_known(name))
        for name in environment
        if name.startswith("VLLM_") and _NAME.fullmatch(name) and not knows(name, release)
    ]


def _where_known(name: str) -> str:
    spans = _spans().get(name)
    if spans is None:
        return f"no vLLM release from {KNOWN[0]} on reads this variable"
    known = [f"{span.since or KNOWN[0]} to {span.until or KNOWN[-1]}" for span in spans]
    return f"only vLLM {' and '.join(known)} reads this variable"


@cache
def _spans() -> Mapping[str, tuple[Span, ...]]:
    text = (Path(__file__).parent / "data" / "environment.json").read_text("utf-8")
    return {
        name: tuple(Span(since=since, until=until) for since, until in runs) for name, runs in json.loads(text).items()
    }
