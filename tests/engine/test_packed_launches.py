"""Whole launches with packed caches: boundary layers, refusals, views and block sizes, release by release."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from kvplan.checkpoint import Checkpoint, load
from kvplan.engine import Plan
from kvplan.engine.cache_dtypes import boundary_layers
from kvplan.engine.stop import StartupStops
from kvplan.engine.values import Stage
from kvplan.releases import resolve
from tests import asking

LLAMA, GEMMA, HYBRID = "meta-llama/Llama-3.1-8B", "google/gemma-2-9b", "Qwen/Qwen3-Next-80B-A3B-Thinking"
GIB = 1 << 30


@cache
def _loaded(model: str) -> Checkpoint:
    return load(model, offline=True)


def planned(model: str, options: str, release: str, gpu: str = "h200", **overrides: object) -> Plan:
    changed = ("--hf-overrides", json.dumps(overrides)) if overrides else ()
    return asking.planned(["vllm", "serve", model, *shlex.split(options), *changed], release=release, gpu=gpu)


def pages(found: Plan) -> set[int]:
    return {layer.spec_page_bytes for layer in found.layers}


@pytest.mark.parametrize(("layers", "tokens"), [(32, "0 1 30 31"), (3, "0 2"), (4, "0 1 2 3"), (1, ""), (0, "")])
def test_boundary_layers(layers: int, tokens: str) -> None:
    assert " ".join(boundary_layers.boundary_layers(layers)) == tokens


@pytest.mark.parametrize(
    ("release", "spec", "mode"),
    [
        ("0.20.2", "TQFullAttentionSpec", "NONE"),
        ("0.26.0", "TQFullAttentionSpec", "NONE"),
        ("0.27.1", "TQFullAttentionSpec", "TURBOQUANT"),
        ("0.28.0", "FullAttentionSpec", "TURBOQUANT_4BIT_NC"),
    ],
)
def test_turboquant_layers(release: str, spec: str, mode: str) -> None:
    found = planned(LLAMA, "--kv-cache-dtype turboquant_4bit_nc", release)
    assert found.ok
    ends, inner = [found.layers[i] for i in (0, 1, 30, 31)], found.layers[2:30]
    assert {layer.backend for layer in ends} == {"FLASH_ATTN"}
    assert {(layer.spec, layer.quant_mode, layer.backend) for layer in inner} == {(spec, mode, "TURBOQUANT")}
    assert all(layer.spec_page_bytes == layer.spec_block_size * 8 * 134 for layer in inner)
    assert all(layer.skipped and layer.cache_dtype == "auto" for layer in ends)


def test_boundary_layers_pin_flash_attention_2() -> None:
    """The checkpoint takes the cache dtype away from TurboQuant, but the FlashAttention version stays pinned."""
    scheme = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True}
    section = {"quant_method": "compressed-tensors", "kv_cache_scheme": scheme}
    found = planned(LLAMA, "--kv-cache-dtype turboquant_4bit_nc", "0.21.0", quantization_config=section)
    assert {layer.cache_dtype for layer in found.layers[2:30]} == {"fp8"}
    assert {layer.backend for layer in found.layers[2:30]} == {"FLASHINFER"}


@pytest.mark.parametrize(("release", "block_size"), [("0.24.0", 16), ("0.25.1", 32), ("0.28.0", 32), ("0.33.0", 32)])
def test_boundary_layers_align_the_block_size(release: str, block_size: int) -> None:
    """The primary is priced as dense bytes, because layer 0 is on FLASH_ATTN: 4,096 / 2,048 = 2 blocks."""
    found = planned(LLAMA, "--kv-cache-dtype turboquant_4bit_nc", release)
    assert {layer.spec_block_size for layer in found.layers} == {block_size}


def test_tokens_that_are_no_numbers() -> None:
    options = "--kv-cache-dtype turboquant_k8v4 --kv-cache-dtype-skip-layers sliding_window"
    refused = planned(LLAMA, options, "0.31.0")
    assert refused.error is not None
    assert (refused.error.type, refused.error.code) == ("ValueError", "skip_token_not_a_number")
    assert "invalid literal for int()" in refused.error.message
    assert planned(LLAMA, options, "0.32.0").ok


def test_hybrid_models_have_no_boundary() -> None:
    options = "-tp 4 --kv-cache-dtype turboquant_k8v4"
    refused = planned(HYBRID, options, "0.20.2")
    assert refused.error is not None
    assert (refused.error.type, refused.error.code) == ("NotImplementedError", "turboquant_hybrid")
    found = planned(HYBRID, options, "0.33.0")
    assert found.ok
    attention = [layer for layer in found.layers if layer.head_size == 256]
    assert {layer.backend for layer in attention} == {"TURBOQUANT"}
    assert {layer.page_bytes / layer.block_size for layer in attention} == {388}


def test_a_hybrid_model_must_name_its_attention_layers() -> None:
    release = resolve("0.33.0")
    named = _hybrid({"layer_types": ["mamba", "attention"]})
    assert boundary_layers.skip_tokens((), "turboquant_k8v4", named, is_hybrid=True, release=release) == ()
    nameless = _hybrid({"attn_type_list": [0, 0]})
    with pytest.raises(StartupStops, match="requires identifiable full-attention layers"):
        boundary_layers.skip_tokens((), "turboquant_k8v4", nameless, is_hybrid=True, release=release)


def _hybrid(config: dict[str, Any]) -> Checkpoint:
    return replace(_loaded(LLAMA), config=config, text_config=config)


@pytest.mark.parametrize(("release", "stage"), [("0.20.2", Stage.BACKEND), ("0.21.0", Stage.CACHE_DTYPE)])
def test_nvfp4_with_latent_attention(release: str, stage: Stage) -> None:
    found = planned("deepseek-ai/DeepSeek-V2-Lite", "--kv-cache-dtype nvfp4", release, "b200")
    assert found.error is not None
    assert found.error.stage is stage


@pytest.mark.parametrize("release", ["0.20.2", "0.21.0"])
def test_flash_attn_claims_per_token_head_caches_on_hopper(release: str) -> None:
    found = planned(LLAMA, "--kv-cache-dtype int8_per_token_head", release)
    assert found.error is not None
    assert (found.error.code, found.error.type) == ("view_mismatch", "RuntimeError")
    assert {layer.backend for layer in found.layers} == {"FLASH_ATTN"}
    forced = planned(LLAMA, "--kv-cache-dtype int8_per_token_head --attention-backend TRITON_ATTN", release)
    assert forced.ok
    assert pages(forced) == {33792}


@pytest.mark.parametrize("release", ["0.25.1", "0.26.0"])
def test_the_v1_runner_does_not_tell_turboquant_its_dtype(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["vllm", "serve", LLAMA, "--kv-cache-dtype", "turboquant_k8v4"]
    for runner, code in (("0", "view_refused"), ("1", None)):
        found = asking.planned([f"VLLM_USE_V2_MODEL_RUNNER={runner}", *options], release=release)
        assert (None if found.error is None else found.error.code) == code


@pytest.mark.parametrize(
    ("release", "code"), [("0.24.0", "pages_not_unifiable"), ("0.25.1", "assertion"), ("0.26.0", "no_backend")]
)
def test_turboquant_has_no_sliding_window(release: str, code: str) -> None:
    found = planned(GEMMA, "--kv-cache-dtype turboquant_4bit_nc", release, "b200")
    assert code in {error.code for error in (found.error, *found.later_errors) if error is not None}


@pytest.mark.parametrize(("release", "ok"), [("0.25.1", False), ("0.27.1", False), ("0.28.0", True)])
def test_int4_sliding_windows(release: str, ok: bool) -> None:
    assert planned(GEMMA, "--kv-cache-dtype int4_per_token_head", release, "b200").ok is ok


@pytest.mark.parametrize(("release", "dtype"), [("0.32.0", "ultraquant_4bit"), ("0.33.0", "octave_k3v4")])
def test_layouts_of_rocm(release: str, dtype: str) -> None:
    found = planned(LLAMA, f"--kv-cache-dtype {dtype}", release)
    assert found.error is not None
    assert found.error.code == "layout_outside_cuda"
    assert "No valid attention backend found" in found.error.message


@pytest.mark.parametrize("release", ["0.21.0", "0.27.1", "0.28.0", "0.33.0"])
def test_nvfp4_pages(release: str) -> None:
    found = planned(LLAMA, "--kv-cache-dtype nvfp4", release, "b200")
    assert found.ok
    assert pages(found) == {18432}
    assert {(layer.backend, layer.quant_mode) for layer in found.layers} == {("FLASHINFER", "NVFP4")}


@pytest.mark.parametrize(
    ("release", "gpu", "backend", "dtype"),
    [
        ("0.19.1", "h200", "FLASH_ATTN", "auto"),
        ("0.20.2", "b200", "FLASH_ATTN_DIFFKV", "auto"),
        ("0.24.0", "a100", "TRITON_ATTN_DIFFKV", "auto"),
        ("0.32.0", "h200", "FLASH_ATTN_DIFFKV", "fp8"),
    ],
)
def test_a_cache_dtype_reaches_mimo_v2_late(release: str, gpu: str, backend: str, dtype: str) -> None:
    found = planned("XiaomiMiMo/MiMo-V2-Flash", "-tp 4 --kv-cache-dtype fp8", release, gpu)
    assert found.ok
    assert {(layer.backend, layer.cache_dtype) for layer in found.layers} == {(backend, dtype)}


def test_nvfp4_beside_skipped_layers() -> None:
    options = "--kv-cache-dtype nvfp4 --kv-cache-dtype-skip-layers 0"
    early = planned(LLAMA, options, "0.24.0", "b200")
    assert early.error is not None
    assert early.error.code == "view_mismatch"
    later = planned(LLAMA, options, "0.25.1", "b200")
    assert later.ok
    assert {layer.block_size for layer in later.layers} == {64}


@pytest.mark.parametrize("release", ["0.20.2", "0.26.0", "0.33.0"])
def test_chunked_boundary_layers_are_built_with_turboquant(release: str) -> None:
    """Llama 4's chunked layers choose a backend for the launch's dtype; at the boundary it is given another."""
    found = planned("meta-llama/Llama-4-Scout-17B-16E-Instruct", "--kv-cache-dtype turboquant_k8v4 -tp 8", release)
    assert found.error is not None
    assert (found.error.stage, found.error.type) == (Stage.BACKEND, "ValueError")
    assert found.error.message.startswith("Unknown TurboQuant cache dtype: 'auto'.")
