"""Hand-made plans: GLM-5.2-FP8 on eight H200 with the skip list `0 1`, as vLLM 0.33.0 and 0.25.1 answer it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import pytest

from kvplan.checkpoint.values import Checkpoint, Source
from kvplan.engine.failures import RefusedOption, ViewMismatch
from kvplan.engine.models.geometry import ModelGeometry, Role
from kvplan.engine.values import (
    BackendChoice,
    BlockSizeStep,
    Capacity,
    Group,
    LayerPlan,
    Plan,
    Settings,
    Skip,
    Stage,
    StartupError,
    Step,
)
from kvplan.launch.locations import OriginKind
from kvplan.launch.values import Hardware, Launch, Setting
from kvplan.releases import Behaviour, resolve
from kvplan.rules.values import Finding, Severity

AVAILABLE = 60 * 1024**3

HONOURS_SKIP = Behaviour(
    "MLA_HONOURS_SKIP_LIST",
    "MLA layers look at the skip list",
    since="0.26.0",
    reference="vllm#1",
    where="layers.py",
)

INDEXED = (0, 1, 2, *range(6, 78, 4))
"""The 21 layers of GLM-5.2 that have an indexer of their own."""


def checkpoint() -> Checkpoint:
    """GLM-5.2-FP8 from the catalog."""
    return Checkpoint(
        reference="GLM-5.2-FP8",
        name="zai-org/GLM-5.2-FP8",
        source=Source.CATALOG,
        path=None,
        config_sha256="22e49334abf8562fecf70ca3292ba3f5b33f5602fb2bf10b52dd64a66cfe65ff",
        config={},
        text_config={},
        architectures=("GlmMoeDsaForCausalLM",),
        model_type="glm_moe_dsa",
        quantization={"quant_method": "fp8"},
        weight_bytes=756_000_000_000,
    )


def launch(release: str = "0.33.0", **changes: Any) -> Launch:
    """`-tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1` on H200, with 60 GiB for the cache."""
    given = {
        "tensor_parallel_size": Setting("tensor_parallel_size", 8, OriginKind.FLAG, "-tp"),
        "kv_cache_dtype": Setting("kv_cache_dtype", "fp8", OriginKind.FLAG, "--kv-cache-dtype"),
        "kv_cache_dtype_skip_layers": Setting(
            "kv_cache_dtype_skip_layers", ["0", "1"], OriginKind.FLAG, "--kv-cache-dtype-skip-layers"
        ),
    }
    values: dict[str, Any] = {
        "model": "GLM-5.2-FP8",
        "release": resolve(release),
        "hardware": Hardware("h200", (9, 0), 150_754_820_096, "NVIDIA H200", assumed=True),
        "settings": given,
        "environment": {"VLLM_USE_V2_MODEL_RUNNER": "1", "VLLM_API_KEY": "sesame"},
        "accepted": ("--api-key=sesame", "--port"),
        "available_kv_memory": AVAILABLE,
        "literal": True,
    }
    return Launch(**{**values, **changes})


def settings(**changes: Any) -> Settings:
    """What the engine made of `launch()` in 0.33.0."""
    values: dict[str, Any] = {
        "model_dtype": "bfloat16",
        "requested_cache_dtype": "fp8",
        "cache_dtype": "fp8_e4m3",
        "cache_dtype_after_load": "fp8_ds_mla",
        "skip_tokens": ("0", "1"),
        "user_block_size": None,
        "block_size": 128,
        "max_model_len": 1_048_576,
        "max_num_batched_tokens": 8192,
        "max_num_seqs": 1024,
        "prefix_caching": True,
        "async_scheduling": True,
        "model_runner": "V2",
        "max_concurrent_batches": 2,
        "hybrid_manager_disabled": False,
        "sliding_window": None,
        "tensor_parallel": 8,
        "gpu_memory_utilization": 0.92,
        "quantization": "fp8",
    }
    return Settings(**{**values, **changes})


def layer(index: int, **changes: Any) -> LayerPlan:
    """A sparse MLA layer that keeps the packed dtype."""
    values: dict[str, Any] = {
        "name": f"model.layers.{index}.self_attn.attn",
        "index": index,
        "role": Role.ATTENTION,
        "rank": 0,
        "layer_class": "DeepseekV32Attention",
        "spec": "MLAAttentionSpec",
        "backend": "FLASHMLA_SPARSE",
        "cache_dtype": "fp8_ds_mla",
        "storage_dtype": "uint8",
        "quant_mode": "FP8_PER_TENSOR",
        "block_size": 128,
        "num_kv_heads": 1,
        "head_size": 576,
        "head_size_v": 0,
        "sliding_window": None,
        "page_bytes": 83_968,
        "unpadded_page_bytes": 83_968,
        "spec_block_size": 128,
        "spec_page_bytes": 83_968,
    }
    return LayerPlan(**{**values, **changes})


def skipped_layer(index: int) -> LayerPlan:
    """A layer that the skip list leaves in bfloat16."""
    return layer(
        index,
        backend="FLASH_ATTN_MLA_SPARSE",
        cache_dtype="auto",
        storage_dtype="bfloat16",
        quant_mode="NONE",
        page_bytes=147_456,
        unpadded_page_bytes=147_456,
        spec_page_bytes=147_456,
        skipped=True,
    )


def indexer(index: int) -> LayerPlan:
    """The indexer's key cache of one layer."""
    return layer(
        index,
        name=f"model.layers.{index}.self_attn.indexer.k_cache",
        role=Role.INDEXER,
        layer_class="DeepseekV32IndexerCache",
        backend="DEEPSEEK_V32_INDEXER",
        cache_dtype=None,
        quant_mode="NONE",
        head_size=132,
        page_bytes=16_896,
        unpadded_page_bytes=16_896,
        spec_page_bytes=16_896,
    )


def layers(skipped: tuple[int, ...] = (0, 1)) -> tuple[LayerPlan, ...]:
    """All 99 caches in the order in which vLLM registers them."""
    found: list[LayerPlan] = []
    for index in range(78):
        if index in INDEXED:
            found.append(indexer(index))
        found.append(skipped_layer(index) if index in skipped else layer(index))
    return tuple(found)


def plan(**changes: Any) -> Plan:
    """The plan of `launch()` in 0.33.0: it starts, and the skip list works."""
    cached = layers()
    block_bytes = 2 * 147_456 + 76 * 83_968 + 21 * 16_896
    values: dict[str, Any] = {
        "checkpoint": checkpoint(),
        "launch": launch(),
        "release": resolve("0.33.0"),
        "geometry": ModelGeometry(
            architecture="GlmMoeDsaForCausalLM",
            num_layers=78,
            total_heads=64,
            total_kv_heads=64,
            head_size=576,
            use_mla=True,
            family="deepseek",
        ),
        "settings": settings(),
        "skip": Skip(tokens=("0", "1"), matched_layers=(0, 1)),
        "layers": cached,
        "shared": (),
        "groups": (
            Group(
                layers=tuple(one.name for one in cached),
                spec="UniformTypeKVCacheSpecs",
                block_size=128,
                page_bytes=block_bytes,
                kernel_block_size=64,
            ),
        ),
        "block_size_steps": (
            BlockSizeStep(block_size=16, cause="default", text="vLLM's default"),
            BlockSizeStep(block_size=64, cause="backend", text="FLASHMLA_SPARSE takes blocks of 64 tokens only"),
            BlockSizeStep(
                block_size=128,
                cause="skip_alignment",
                text="the least multiple at which a skipped page holds a whole number of packed rows",
                behaviour=HONOURS_SKIP,
            ),
        ),
        "backends": (
            BackendChoice(
                "FLASHMLA_SPARSE",
                tuple(range(2, 78)),
                "fp8_ds_mla",
                rejected=(("FLASHINFER_MLA_SPARSE", ("compute capability 9.0 is not supported",)),),
            ),
            BackendChoice("FLASH_ATTN_MLA_SPARSE", (0, 1), "auto"),
        ),
        "capacity": Capacity(
            available_bytes=AVAILABLE,
            bytes_per_block=block_bytes,
            num_blocks=9162,
            tokens=1_172_736,
            max_concurrency=1.12,
            max_model_len=1_048_576,
            longest_request_tokens=1_172_736,
            needed_bytes=8192 * block_bytes,
            fixed_bytes=0,
            bytes_per_token=block_bytes / 128,
            log_lines=(
                "GPU KV cache size: 1,172,736 tokens, Maximum concurrency for 1,048,576 tokens per request: 1.12x",
            ),
        ),
        "error": None,
        "trace": (
            Step(Stage.CACHE_DTYPE, "cache.dtype", "fp8_e4m3", "asked for", option="--kv-cache-dtype"),
            Step(
                Stage.SKIP_LIST,
                "layer.cache_dtype",
                "auto",
                "token names the layer",
                layers=(0, 1),
                option="--kv-cache-dtype-skip-layers",
                behaviour=HONOURS_SKIP,
            ),
            Step(Stage.BACKEND, "layer.backend", "FLASHMLA_SPARSE", "first that fits", layers=tuple(range(2, 78))),
        ),
    }
    return Plan(**{**values, **changes})


def failing_plan() -> Plan:
    """The same launch in 0.25.1: the list is ignored, the block raised, and the view fails."""
    good = plan()
    cached = tuple(replace(one, quant_mode="NONE") for one in layers(skipped=()))
    return plan(
        launch=launch("0.25.1"),
        release=resolve("0.25.1"),
        layers=cached,
        groups=(replace(good.groups[0], page_bytes=78 * 83_968 + 21 * 16_896),),
        skip=Skip(tokens=("0", "1"), ignored_layers=(0, 1)),
        error=StartupError(
            Stage.KV_CACHE_VIEW,
            "RuntimeError",
            "shape '[18662, 64, 576]' is invalid for input of size 783505408",
            ViewMismatch(
                layer="model.layers.0.self_attn.attn",
                allocated_bytes_per_token=656,
                viewed_bytes_per_token=576,
                quant_mode="NONE",
                backend="FLASHMLA_SPARSE",
                cache_dtype="fp8_ds_mla",
            ),
        ),
    )


def refused_plan() -> Plan:
    """A launch whose options vLLM refuses: nothing was computed."""
    return plan(
        settings=None,
        geometry=None,
        skip=Skip(),
        layers=(),
        groups=(),
        block_size_steps=(),
        backends=(),
        capacity=None,
        error=StartupError(
            Stage.OPTIONS,
            "ArgError",
            "argument --kv-cache-dtype: invalid choice: 'fp9'",
            RefusedOption(option="--kv-cache-dtype"),
        ),
        trace=(),
    )


def finding(severity: Severity = Severity.WARNING, rule: str = "KV205", **changes: Any) -> Finding:
    """A finding with every field filled."""
    values: dict[str, Any] = {
        "rule": rule,
        "severity": severity,
        "message": "The skip list does not reach the 21 indexer caches: they keep their own packed layout "
        "whatever --kv-cache-dtype-skip-layers names, which costs 16,896 bytes a page each.",
        "layers": (0, 1),
        "options": ("--kv-cache-dtype-skip-layers",),
        "fix": "leave --kv-cache-dtype-skip-layers out, or pass --kv-cache-dtype bfloat16 to keep all in bfloat16",
        "references": ("vllm#48379",),
    }
    return Finding(**{**values, **changes})


class MakeFinding(Protocol):
    """Makes a finding with every field filled, or with `changes`."""

    def __call__(self, severity: Severity = ..., rule: str = ..., **changes: Any) -> Finding: ...


class MakePlan(Protocol):
    """Makes the plan that starts, with `changes`."""

    def __call__(self, **changes: Any) -> Plan: ...


@pytest.fixture
def make_plan() -> MakePlan:
    """The 0.33.0 plan with any part changed."""
    return plan


@pytest.fixture
def good() -> Plan:
    """The 0.33.0 plan: it starts, and the skip list works."""
    return plan()


@pytest.fixture
def failing() -> Plan:
    """The 0.25.1 plan: the view fails."""
    return failing_plan()


@pytest.fixture
def refused() -> Plan:
    """A plan that stops at the options."""
    return refused_plan()


@pytest.fixture
def make_finding() -> MakeFinding:
    """A maker of findings."""
    return finding


@pytest.fixture
def make_layer() -> Any:
    """A maker of layers: `make_layer(index, **changes)`."""
    return layer
