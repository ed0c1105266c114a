"""Bytes of packed cache layouts, release by release: worked numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.engine.cache_dtypes import packing
from kvplan.engine.cache_dtypes.packing import TURBOQUANT_BITS, octave_slot, turboquant_slot, ultraquant_slot
from kvplan.engine.specs.base import attention_token_bytes
from kvplan.releases import KNOWN, resolve


@pytest.mark.parametrize(
    ("preset", "slots"),
    [
        ("turboquant_k8v4", (100, 196, 388)),
        ("turboquant_4bit_nc", (70, 134, 262)),
        ("turboquant_k3v4_nc", (62, 118, 230)),
        ("turboquant_3bit_nc", (54, 102, 198)),
    ],
)
def test_turboquant_slots(preset: str, slots: tuple[int, ...]) -> None:
    assert tuple(turboquant_slot(preset, size) for size in (64, 128, 256)) == slots


@given(st.sampled_from(sorted(TURBOQUANT_BITS)), st.integers(1, 1024))
def test_turboquant_slots_are_even_and_hold_the_codes(preset: str, head_size: int) -> None:
    slot = turboquant_slot(preset, head_size)
    assert slot % 2 == 0
    assert slot * 8 >= head_size * sum(TURBOQUANT_BITS[preset])


@pytest.mark.parametrize(("head_size", "slot"), [(64, 68), (96, 102), (128, 136), (192, 204), (256, 272), (512, 544)])
def test_ultraquant_slots(head_size: int, slot: int) -> None:
    assert ultraquant_slot(head_size) == slot


@pytest.mark.parametrize(("preset", "slot"), [("octave_k3v4", 248), ("octave_k3v3", 216), ("octave_k3v3_compact", 196)])
def test_octave_slots(preset: str, slot: int) -> None:
    assert octave_slot(preset, 256, 64) == slot
    assert packing.rocm_slot(preset, 256, 64) == slot
    assert packing.rocm_slot(preset, 128, 128) is None


@pytest.mark.parametrize(
    ("preset", "slots"),
    [
        ("octave_k3v4", (240, 248, 256, 264, 272)),
        ("octave_k3v3", (208, 216, 224, 232, 240)),
        ("octave_k3v3_compact", (196, 196, 196, 196, 196)),
    ],
)
def test_octave_slots_grow_with_the_rotary_elements(preset: str, slots: tuple[int, ...]) -> None:
    """0, 64, 128, 192 and 256 rotary elements of 256: each 64 of them take 8 bytes more than at 3 bits."""
    assert tuple(octave_slot(preset, 256, rotary) for rotary in (0, 64, 128, 192, 256)) == slots


def test_pages_on_rocm() -> None:
    assert packing.rocm_page(ultraquant_slot(128), 8, packing.rocm_block_size("ultraquant_4bit", None)) == 69_632
    assert packing.rocm_page(ultraquant_slot(128), 8, packing.rocm_block_size("ultraquant_4bit", 16)) == 17_408
    assert packing.rocm_block_size("octave_k3v3", None) == 16
    assert packing.rocm_page(octave_slot("octave_k3v4", 256, 64), 2, 64) == 31_744
    assert packing.rocm_page(octave_slot("octave_k3v3_compact", 256, 64), 4, 16) == 12_544


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"partial_rotary_factor": 0.25}, 64),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, 128),
        ({"rope_parameters": None}, 256),
        ({}, 256),
    ],
)
def test_rotary_dim(config: dict[str, object], expected: int) -> None:
    assert packing.rotary_dim(config, 256) == expected


def _page(release: str, mode: str, *, sliding: bool = False, backend: str = "TRITON_ATTN", **sizes: int) -> int:
    """Bytes of 16 tokens with Llama-3-8B's 8 heads of 128 elements."""
    return 16 * attention_token_bytes(
        resolve(release),
        num_kv_heads=sizes.get("heads", 8),
        head_size=sizes.get("head_size", 128),
        head_size_v=sizes.get("head_size_v"),
        dtype="uint8",
        sliding=sliding,
        quant_mode=mode,
        backend=backend,
    )


@pytest.mark.parametrize("release", KNOWN[KNOWN.index("0.20.2") :])
@pytest.mark.parametrize("sliding", [False, True])
def test_per_token_head_pages(release: str, sliding: bool) -> None:
    assert _page(release, "INT8_PER_TOKEN_HEAD", sliding=sliding) == 32768 + 1024
    assert _page(release, "FP8_PER_TOKEN_HEAD", sliding=sliding) == 32768 + 1024


def test_int4_pages_of_sliding_layers_are_counted_at_a_byte_a_value_until_0_27() -> None:
    assert _page("0.27.1", "INT4_PER_TOKEN_HEAD") == 17408
    assert _page("0.27.1", "INT4_PER_TOKEN_HEAD", sliding=True) == 33792
    assert _page("0.28.0", "INT4_PER_TOKEN_HEAD") == 17408
    assert _page("0.28.0", "INT4_PER_TOKEN_HEAD", sliding=True) == 17408


def test_nvfp4_pages() -> None:
    assert _page("0.20.2", "NVFP4") == 18432
    assert _page("0.20.2", "NVFP4", sliding=True) == 32768
    assert _page("0.21.0", "NVFP4", sliding=True) == 18432
    assert _page("0.28.0", "NVFP4", backend="FLASHINFER", sliding=True) == 18432


def test_since_0_28_a_backend_without_the_layout_leaves_the_layer_dense() -> None:
    assert _page("0.28.0", "INT8_PER_TOKEN_HEAD", backend="FLASH_ATTN") == 32768
    assert _page("0.27.1", "INT8_PER_TOKEN_HEAD", backend="FLASH_ATTN") == 33792
    assert _page("0.28.0", "TURBOQUANT_4BIT_NC", backend="TURBOQUANT") == 16 * 8 * 134
    assert _page("0.28.0", "TURBOQUANT_4BIT_NC", backend="FLASH_ATTN") == 32768


def test_different_value_heads() -> None:
    assert _page("0.25.1", "INT8_PER_TOKEN_HEAD", head_size=192, head_size_v=128) == 16 * 8 * (192 + 128 + 8)
    assert _page("0.25.1", "INT4_PER_TOKEN_HEAD", head_size=192, head_size_v=128) == 16 * 8 * (96 + 64 + 8)


def test_scales_counted_apart_can_be_left_out() -> None:
    token = attention_token_bytes(
        resolve("0.26.0"),
        num_kv_heads=8,
        head_size=128,
        head_size_v=None,
        dtype="int8",
        sliding=True,
        quant_mode="INT8_PER_TOKEN_HEAD",
        with_scales=False,
    )
    assert token == 2048
