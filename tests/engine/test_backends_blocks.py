"""Block sizes, cache views, layouts and forced choices by backend: worked numbers."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.engine.backends import blocks, forced
from kvplan.engine.backends.layouts import is_block_compact, is_block_outermost, kv_cache_layout
from kvplan.engine.backends.selection import BY_NAME
from kvplan.engine.backends.software import fa_version
from kvplan.engine.backends.values import BackendQuery, MultipleOf
from kvplan.engine.backends.views import ViewError, view_shape
from kvplan.engine.cache_dtypes.packing import turboquant_slot
from kvplan.engine.models.shapes import Latent
from kvplan.releases import KNOWN, resolve

HOPPER = BackendQuery(capability=(9, 0), head_size=128, dtype="bfloat16", num_heads=32, num_kv_heads=8)
BLACKWELL = replace(HOPPER, capability=(10, 0))
DEEPSEEK = replace(HOPPER, head_size=576, use_mla=True, num_kv_heads=1, latent=Latent(512, 64, 128, 128), num_heads=16)


@pytest.mark.parametrize(
    ("backend", "release", "query", "expected"),
    [
        ("FLASH_ATTN", "0.33.0", HOPPER, 16),
        ("FLASHINFER", "0.33.0", BLACKWELL, 16),
        ("FLASHINFER_MLA", "0.33.0", DEEPSEEK, 32),
        ("CUTLASS_MLA", "0.33.0", DEEPSEEK, 128),
        ("FLASHMLA", "0.33.0", DEEPSEEK, 64),
        ("TRITON_MLA", "0.33.0", DEEPSEEK, 16),
        ("FLASHMLA_SPARSE", "0.33.0", DEEPSEEK, 64),
        ("FLASHINFER_MLA_SPARSE", "0.33.0", DEEPSEEK, 32),
        ("DEEPSEEK_V32_INDEXER", "0.33.0", DEEPSEEK, 64),
        ("DEEPSEEK_SPARSE_SWA", "0.33.0", DEEPSEEK, 256),
        ("MINIMAX_M3_SPARSE", "0.33.0", HOPPER, 128),
        ("TRITON_FLASHINFER", "0.33.0", replace(BLACKWELL, head_size=256), 64),
        ("B12X", "0.33.0", HOPPER, 128),
        ("FLASH_ATTN", "0.33.0", replace(BLACKWELL, head_size=256), 128),
        ("FLASH_ATTN", "0.28.0", replace(BLACKWELL, head_size=256), 16),
        ("FLASH_ATTN", "0.33.0", replace(BLACKWELL, head_size=256, logits_soft_cap=True), 16),
        ("FLASH_ATTN", "0.31.0", replace(HOPPER, head_size=512, kv_cache_dtype="fp8"), 64),
        ("FLASH_ATTN", "0.30.0", replace(HOPPER, head_size=512, kv_cache_dtype="fp8"), 16),
    ],
)
def test_preferred_block_size(backend: str, release: str, query: BackendQuery, expected: int) -> None:
    assert blocks.preferred_block_size(backend, resolve(release), query) == expected


def test_b12x_keeps_a_default_that_is_one_of_its_pages() -> None:
    assert blocks.preferred_block_size("B12X", resolve("0.33.0"), HOPPER, default=64) == 64


def test_flashinfer_takes_large_pages_for_grouped_queries_on_blackwell() -> None:
    small = (16, 32, 64)
    large = (16, 32, 64, 128, 256, 512, 1024)
    assert blocks.kernel_block_sizes("FLASHINFER", resolve("0.23.0"), BLACKWELL) == small
    assert blocks.kernel_block_sizes("FLASHINFER", resolve("0.24.0"), BLACKWELL) == large
    assert blocks.kernel_block_sizes("FLASHINFER", resolve("0.33.0"), HOPPER) == small
    one_to_one = replace(BLACKWELL, num_kv_heads=32)
    assert blocks.kernel_block_sizes("FLASHINFER", resolve("0.33.0"), one_to_one) == small
    assert (
        blocks.kernel_block_sizes("FLASHINFER", resolve("0.33.0"), replace(BLACKWELL, use_trtllm_attention=False))
        == small
    )


def test_flash_attn_small_blocks_for_float32_states() -> None:
    hybrid = replace(HOPPER, is_hybrid=True, state_cache_float32=True)
    assert blocks.kernel_block_sizes("FLASH_ATTN", resolve("0.24.0"), hybrid) == (16, 32, 64)
    assert blocks.kernel_block_sizes("FLASH_ATTN", resolve("0.25.1"), hybrid) == (MultipleOf(16),)


def test_sizes_of_a_layer_look_at_the_layer_from_0_31() -> None:
    mixed = replace(HOPPER, head_size=256, model_head_size=512, kv_cache_dtype="fp8")
    assert blocks.kernel_block_sizes("FLASH_ATTN", resolve("0.33.0"), mixed) == (64,)
    assert blocks.kernel_block_sizes("FLASH_ATTN", resolve("0.33.0"), mixed, of_layer=True) == (MultipleOf(16),)


def test_sparse_mla_rows_from_0_32() -> None:
    quantised = replace(DEEPSEEK, capability=(10, 0), kv_cache_dtype="fp8_ds_mla")
    assert blocks.kernel_block_sizes("FLASHMLA_SPARSE", resolve("0.31.0"), quantised) == (64,)
    assert blocks.kernel_block_sizes("FLASHMLA_SPARSE", resolve("0.32.0"), quantised) == (MultipleOf(64),)
    assert blocks.kernel_block_sizes("FLASHMLA_SPARSE", resolve("0.32.0"), quantised, of_layer=True) == (64,)


@given(st.sampled_from(KNOWN), st.sampled_from(sorted(BY_NAME)), st.sampled_from([16, 32, 64, 128]))
def test_preferred_size_is_supported(release: str, backend: str, default: int) -> None:
    known = resolve(release)
    preferred = blocks.preferred_block_size(backend, known, HOPPER, default)
    assert blocks.supports_block_size(backend, known, HOPPER, preferred)


def test_pages_are_padded_by_block_stride_in_0_24_to_0_28_only() -> None:
    assert [
        blocks.indexes_kv_by_block_stride("FLASH_ATTN", resolve(release))
        for release in ("0.23.0", "0.24.0", "0.28.0", "0.29.0")
    ] == [False, True, True, False]
    assert not blocks.indexes_kv_by_block_stride("FLASHMLA_SPARSE", resolve("0.26.0"))
    assert not blocks.indexes_kv_by_block_stride("TURBOQUANT", resolve("0.26.0"))
    assert blocks.indexes_kv_by_block_stride("FLASHMLA", resolve("0.26.0"))


def test_state_backends_are_marked() -> None:
    assert blocks.is_ssm("MAMBA2_ATTN")
    assert not blocks.is_ssm("FLASH_ATTN")
    assert blocks.is_mla("FLASHMLA_SPARSE")


@pytest.mark.parametrize(
    ("backend", "release", "dtype", "expected"),
    [
        ("FLASH_ATTN", "0.22.1", "auto", (2, 10, 16, 8, 128)),
        ("FLASH_ATTN", "0.25.1", "auto", (10, 2, 16, 8, 128)),
        ("FLASH_ATTN", "0.28.0", "auto", (10, 8, 16, 256)),
        ("FLASHINFER", "0.16.0", "fp8", (10, 2, 16, 8, 128)),
        ("FLASHINFER", "0.25.1", "nvfp4", (10, 2, 16, 8, 72)),
        ("FLASHINFER", "0.28.0", "nvfp4", (10, 16, 16, 72)),
        ("TRITON_ATTN", "0.20.2", "int8_per_token_head", (10, 2, 16, 8, 132)),
        ("TRITON_ATTN", "0.28.0", "int4_per_token_head", (10, 8, 16, 136)),
        ("TURBOQUANT", "0.25.1", "turboquant_4bit_nc", (10, 16, 8, 134)),
        ("FLASH_ATTN_DIFFKV", "0.25.1", "auto", (10, 16, 8, 256)),
        ("HPC_ATTN", "0.28.0", "auto", (10, 2, 16, 8, 128)),
        ("FLASH_ATTN", "0.29.0", "auto", None),
    ],
)
def test_view_shape(backend: str, release: str, dtype: str, expected: tuple[int, ...] | None) -> None:
    shape = view_shape(
        backend,
        resolve(release),
        num_blocks=10,
        block_size=16,
        num_kv_heads=8,
        head_size=128,
        cache_dtype=dtype,
    )
    assert shape == expected


def test_packed_latent_rows_follow_the_dtype_string() -> None:
    # The crash of 0.25: 64 tokens of 656 bytes are allocated, `auto` views 64 rows of 576.
    def elements(backend: str, dtype: str) -> int | None:
        shape = view_shape(
            backend,
            resolve("0.25.1"),
            num_blocks=1,
            block_size=64,
            num_kv_heads=1,
            head_size=576,
            cache_dtype=dtype,
        )
        return None if shape is None else prod(shape)

    assert elements("FLASHMLA_SPARSE", "fp8_ds_mla") == 41984
    assert elements("FLASHMLA_SPARSE", "auto") == 36864
    assert elements("FLASHINFER_MLA_SPARSE_SM120", "auto") == 41984
    assert elements("FLASHMLA", "fp8") == 36864


@pytest.mark.parametrize(
    ("preset", "slot"),
    [
        ("turboquant_k8v4", 128 + 64 + 4),
        ("turboquant_4bit_nc", 64 + 2 + 64 + 4),
        ("turboquant_k3v4_nc", 48 + 2 + 64 + 4),
        ("turboquant_3bit_nc", 48 + 2 + 48 + 4),
    ],
)
def test_turboquant_slot(preset: str, slot: int) -> None:
    assert turboquant_slot(preset, 128) == slot


def test_turboquant_view_of_another_dtype_is_refused() -> None:
    with pytest.raises(ViewError, match="Unknown TurboQuant cache dtype: 'auto'"):
        view_shape(
            "TURBOQUANT",
            resolve("0.25.1"),
            num_blocks=1,
            block_size=16,
            num_kv_heads=8,
            head_size=128,
            cache_dtype="auto",
        )


@pytest.mark.parametrize(
    ("capability", "release", "kwargs", "expected"),
    [
        ((9, 0), "0.33.0", {}, 3),
        ((9, 0), "0.21.0", {"head_size": 512}, 4),
        ((9, 0), "0.20.2", {"head_size": 512}, 3),
        ((9, 0), "0.20.2", {"head_size": 192, "head_size_v": 128, "has_sinks": True}, 4),
        ((10, 0), "0.16.0", {}, 2),
        ((10, 0), "0.17.1", {}, 4),
        ((10, 0), "0.17.1", {"head_size": 192}, 2),
        ((10, 0), "0.18.1", {"head_size": 192}, 4),
        ((10, 0), "0.27.1", {"head_size": 192}, 2),
        ((10, 0), "0.27.1", {"head_size": 192, "head_size_v": 128}, 4),
        ((10, 0), "0.27.1", {"head_size": 256}, 4),
        ((10, 0), "0.28.0", {"head_size": 256}, 2),
        ((10, 0), "0.29.0", {"head_size": 256}, 2),
        ((10, 0), "0.29.0", {"head_size": 256, "head_256_kernel": True}, 4),
        ((10, 0), "0.29.0", {"head_size": 256, "head_256_kernel": True, "block_size": 64}, 2),
        ((12, 0), "0.33.0", {}, 2),
        ((7, 5), "0.33.0", {}, None),
    ],
)
def test_flash_attention_version(
    capability: tuple[int, int], release: str, kwargs: dict[str, int], expected: int | None
) -> None:
    assert fa_version(replace(HOPPER, capability=capability), resolve(release), **kwargs) == expected  # type: ignore[arg-type]


def test_flash_attention_version_of_the_operator() -> None:
    release = resolve("0.33.0")
    assert fa_version(replace(HOPPER, flash_attn_version=2), release) == 2
    assert fa_version(replace(BLACKWELL, flash_attn_version=3), release) == 4
    assert fa_version(replace(HOPPER, capability=(12, 0), flash_attn_version=4), release) is None
    assert fa_version(replace(HOPPER, kv_cache_dtype="turboquant_k8v4"), release) == 2


def test_layout_follows_the_backends() -> None:
    release = resolve("0.33.0")

    def layout(*backends: tuple[str, BackendQuery], **kwargs: object) -> str | None:
        decision = kv_cache_layout(backends, release, **kwargs)  # type: ignore[arg-type]
        assert decision is not None
        return decision.layout

    assert layout(("FLASH_ATTN", HOPPER)) == "LBNHC"
    assert layout(("FLASHINFER", HOPPER)) == "LBNHC"
    assert layout(("FLASHINFER", BLACKWELL)) == "LBHNC"
    assert layout(("DEEPSEEK_V4_INDEXER", HOPPER), ("FLASHMLA_SPARSE_DSV4", HOPPER)) == "BLHNC"
    assert layout(("FLASHINFER", BLACKWELL), ("FLEX_ATTENTION", BLACKWELL)) is None
    assert layout(("FLASH_ATTN", HOPPER), requested="HND") == "LBHNC"
    assert layout(("FLEX_ATTENTION", HOPPER), requested="HND") is None
    assert layout(("FLASH_ATTN", HOPPER), connector="HND") == "LBHNC"
    assert layout(("FLEX_ATTENTION", HOPPER), connector="HND") == "LBNHC"
    mixed = {"shapes": [(8, 16, 65536), (4, 16, 32768)]}
    assert layout(("FLASH_ATTN", HOPPER), **mixed) == "LBNHC"
    assert layout(("FLASH_ATTN", HOPPER), requested="LHBNC") == "LHBNC"
    assert layout(("FLASH_ATTN", HOPPER), requested="LHBNC", **mixed) is None
    assert layout(("FLASH_ATTN", HOPPER), dcp_sharding=[True, False], **mixed) == "BLNHC"


def test_layout_is_nobodys_question_before_0_29() -> None:
    assert kv_cache_layout([("FLASH_ATTN", HOPPER)], resolve("0.28.0")) is None


def test_layout_names_tell_the_order() -> None:
    assert is_block_outermost("BLHNC")
    assert not is_block_outermost("LBNHC")
    assert is_block_compact("LBHNC")
    assert not is_block_compact("LHBNC")


@pytest.mark.parametrize(
    ("release", "query", "backend", "version"),
    [
        ("0.18.1", HOPPER, None, None),
        ("0.19.1", HOPPER, "TRITON_ATTN", None),
        ("0.24.0", HOPPER, None, 4),
        ("0.24.0", replace(HOPPER, capability=(8, 0)), "TRITON_ATTN", None),
        ("0.24.0", replace(HOPPER, requested="flashinfer"), "FLASHINFER", None),
        ("0.30.0", replace(HOPPER, kv_cache_dtype="fp8"), None, 4),
        ("0.31.0", replace(HOPPER, kv_cache_dtype="fp8"), None, None),
    ],
)
def test_layers_of_different_head_sizes(
    release: str, query: BackendQuery, backend: str | None, version: int | None
) -> None:
    choice = forced.heterogeneous_heads((256, 512), query, resolve(release))
    assert (choice.backend, choice.flash_attn_version) == (backend, version)


def test_layers_of_one_head_size_force_nothing() -> None:
    assert forced.heterogeneous_heads((256, 256), HOPPER, resolve("0.19.1")).backend is None


def test_values_unlike_keys() -> None:
    query = replace(HOPPER, head_size=192, head_size_v=128)
    ampere = replace(query, capability=(8, 0))
    assert forced.different_values(query, resolve("0.33.0")) == "FLASH_ATTN_DIFFKV"
    assert forced.different_values(ampere, resolve("0.33.0")) == "TRITON_ATTN_DIFFKV"
    assert forced.different_values(ampere, resolve("0.23.0")) == "FLASH_ATTN_DIFFKV"
    wanted = replace(query, requested="triton_attn_diffkv")
    assert forced.different_values(wanted, resolve("0.33.0")) == "TRITON_ATTN_DIFFKV"


def test_sparse_layers_with_sinks_take_flashmla() -> None:
    query = replace(DEEPSEEK, use_sparse=True, latent=Latent(512, 64, 128, 128, True, 2048), has_sink=True)
    release = resolve("0.33.0")
    assert forced.sparse_with_sinks(query, release).backend == "FLASHMLA_SPARSE"
    e4m3 = replace(query, kv_cache_dtype="fp8_e4m3")
    assert forced.sparse_with_sinks(e4m3, release).backend == "FLASHINFER_MLA_SPARSE_SM90"


@pytest.mark.parametrize(
    ("release", "query", "expected"),
    [
        ("0.17.1", DEEPSEEK, (None, 64)),
        ("0.17.1", replace(DEEPSEEK, block_size=128), (None, 128)),
        ("0.17.1", replace(DEEPSEEK, capability=(10, 0)), ("FLASHINFER_MLA", 64)),
        ("0.17.1", replace(DEEPSEEK, capability=(10, 0), block_size=32), ("FLASHINFER_MLA", 32)),
        ("0.17.1", replace(DEEPSEEK, capability=(10, 0), latent=Latent(512, 64, 192, 128)), (None, 128)),
        ("0.17.1", replace(DEEPSEEK, capability=(8, 0)), (None, 16)),
        ("0.17.1", replace(DEEPSEEK, latent=Latent(512, 64, 128, 128, True, 2048), block_size=128), (None, 64)),
        ("0.16.0", HOPPER, (None, 16)),
    ],
)
def test_latent_models_at_config_time(release: str, query: BackendQuery, expected: tuple[str | None, int]) -> None:
    settled = forced.mla_config_time(query, resolve(release))
    assert settled is not None
    assert (settled.backend, settled.block_size) == expected


def test_config_time_choice_ends_with_0_17() -> None:
    assert forced.mla_config_time(DEEPSEEK, resolve("0.18.1")) is None
