"""State layers: shapes, pages, cache modes, aligned blocks and refusals, with worked numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.engine.models.geometry import State, StateDtype, StateKind
from kvplan.engine.specs.base import BareAssertion, MambaSpec, RequestLimits, can_merge, same_type
from kvplan.engine.states.options import StateOptions
from kvplan.engine.states.tensors import BuiltState, build_state, state_bytes
from kvplan.engine.stop import StartupStops
from kvplan.launch.hardware import parse_gpu
from kvplan.releases import resolve

QWEN3_NEXT = State(
    kind=StateKind.DELTA,
    kernel=4,
    heads=32,
    head_dim=128,
    key_heads=16,
    key_dim=128,
    counts_drafts=True,
    checkpoints=True,
)
NEMOTRON_NANO = State(
    kind=StateKind.MAMBA2,
    kernel=4,
    width=4096,
    groups=8,
    heads=64,
    head_dim=64,
    state_size=128,
    counts_drafts=True,
    checkpoints=True,
)
KIMI_LINEAR = State(kind=StateKind.KDA, kernel=4, heads=32, head_dim=128, recurrent=StateDtype.FLOAT32)


def built(
    state: State,
    options: StateOptions = StateOptions(),  # noqa: B008 (frozen)
    *,
    release: str = "0.33.0",
    tensor: int = 1,
    gpu: str = "h200",
) -> BuiltState:
    return build_state(state, options, resolve(release), tensor=tensor, model_dtype="bfloat16", hardware=parse_gpu(gpu))


def test_gated_delta_net() -> None:
    # 3 x (2 x 16 x 128 + 32 x 128) + 32 x 128 x 128 elements of 2 bytes.
    found = built(QWEN3_NEXT)
    assert found.shapes == ((3, 8192), (32, 128, 128))
    assert found.bytes == (3 * 8192 + 32 * 128 * 128) * 2 == 1_097_728
    assert built(QWEN3_NEXT, tensor=8).shapes == ((3, 1024), (4, 128, 128))


def test_recurrent_state_in_float32() -> None:
    found = built(QWEN3_NEXT, StateOptions(recurrent_dtype="float32"))
    assert found.dtypes == ("bfloat16", "float32")
    assert found.bytes == 3 * 8192 * 2 + 32 * 128 * 128 * 4 == 2_146_304
    as_convolution = replace(QWEN3_NEXT, recurrent=StateDtype.AS_CONVOLUTION)
    assert built(as_convolution, StateOptions(recurrent_dtype="float32")).dtypes == ("bfloat16", "bfloat16")


def test_drafts_widen_the_convolution_only() -> None:
    options = StateOptions(speculative_tokens=2)
    assert built(QWEN3_NEXT, options).shapes == ((5, 8192), (32, 128, 128))
    assert built(KIMI_LINEAR, options).shapes[0] == (3, 12_288)


def test_mamba_2() -> None:
    # 4096 + 2 x 8 x 128 = 6144 channels.
    assert built(NEMOTRON_NANO).shapes == ((3, 6144), (64, 64, 128))
    assert built(NEMOTRON_NANO, tensor=4).shapes == ((3, 1536), (16, 64, 128))


def test_one_group_becomes_one_for_every_rank() -> None:
    # 4096 + 2 x 1 x 128 = 4352 channels; 4 ranks need 4 groups: (4096 + 2 x 4 x 128) / 4 = 1280.
    single = replace(NEMOTRON_NANO, groups=1)
    assert built(single).shapes[0] == (3, 4352)
    assert built(single, tensor=4).shapes[0] == (3, 1280)


def test_mamba_1() -> None:
    state = State(kind=StateKind.MAMBA1, kernel=4, width=8192, state_size=16)
    assert built(state).shapes == ((3, 8192), (8192, 16))
    assert built(state).bytes == (3 + 16) * 8192 * 2 == 311_296


def test_kda_convolutions_apart_and_merged() -> None:
    apart = built(replace(KIMI_LINEAR, split_convolution=True))
    assert apart.shapes == ((3, 4096), (3, 4096), (3, 4096), (32, 128, 128))
    merged = built(KIMI_LINEAR)
    assert merged.shapes == ((3, 12_288), (32, 128, 128))
    assert apart.bytes == merged.bytes == 3 * 12_288 * 2 + 32 * 128 * 128 * 4 == 2_170_880


def test_short_convolution_and_linear_attention() -> None:
    assert built(State(kind=StateKind.CONVOLUTION, kernel=3, width=2048)).bytes == 2 * 2048 * 2
    linear = State(kind=StateKind.LINEAR, heads=64, head_dim=128)
    assert built(linear, tensor=8).shapes == ((8, 128, 128),)


@pytest.mark.parametrize(
    ("state", "gpu", "release", "kept"),
    [
        (QWEN3_NEXT, "h200", "0.32.0", 2),
        (QWEN3_NEXT, "h200", "0.33.0", 3),
        (QWEN3_NEXT, "a100", "0.33.0", 2),
        (QWEN3_NEXT, "b200", "0.33.0", 3),
        (replace(QWEN3_NEXT, key_dim=64), "b200", "0.33.0", 2),
        (NEMOTRON_NANO, "a100", "0.31.0", 2),
        (NEMOTRON_NANO, "a100", "0.32.0", 3),
        (replace(KIMI_LINEAR, checkpoints=True), "h200", "0.28.0", 2),
        (replace(KIMI_LINEAR, checkpoints=True), "h200", "0.29.0", 3),
        (replace(KIMI_LINEAR, checkpoints=True), "a100", "0.29.0", 2),
        (KIMI_LINEAR, "h200", "0.33.0", 2),
    ],
)
def test_states_that_mode_align_keeps(state: State, gpu: str, release: str, kept: int) -> None:
    assert built(state, StateOptions(cache_mode="align"), release=release, gpu=gpu).per_request == kept
    assert built(state, release=release, gpu=gpu).per_request == 1


def test_speculative_states() -> None:
    options = StateOptions(cache_mode="align", speculative_tokens=3)
    assert built(KIMI_LINEAR, options).per_request == 2 + 3
    every = replace(options, cache_mode="all")
    assert built(NEMOTRON_NANO, every, release="0.21.0").extra_states == 0
    assert built(NEMOTRON_NANO, every, release="0.22.1").extra_states == 3


def test_replayed_states_keep_a_ring() -> None:
    # Inputs (heads, 16, head_dim), time steps (heads, 16), projections (groups, 16, state_size).
    found = built(NEMOTRON_NANO, StateOptions(replay_window=16, recurrent_dtype="float32"))
    assert found.shapes[2:] == ((64, 16, 64), (64, 16), (8, 16, 128))
    assert found.dtypes == ("bfloat16", "float32", "bfloat16", "float32", "bfloat16")
    flashinfer = built(NEMOTRON_NANO, StateOptions(replay_window=16, flashinfer=True))
    assert flashinfer.shapes[2] == (64, 17, 64)


@pytest.mark.parametrize(
    ("state", "options", "release", "tensor", "message"),
    [
        (QWEN3_NEXT, StateOptions(), "0.33.0", 3, "8192 is not divisible by 3"),
        (NEMOTRON_NANO, StateOptions(), "0.33.0", 3, "Tensor parallel world size must divide num heads."),
        (
            NEMOTRON_NANO,
            StateOptions(),
            "0.33.0",
            16,
            "If tensor parallel world size does not divide num_groups, then num_groups must equal 1.",
        ),
        (
            replace(KIMI_LINEAR, recurrent=StateDtype.FLOAT32_OR_OPTION),
            StateOptions(recurrent_dtype="float16"),
            "0.33.0",
            1,
            "KDA recurrent state supports only auto, float32, and bfloat16; got float16",
        ),
        (
            State(kind=StateKind.LINEAR, heads=64, head_dim=128),
            StateOptions(cache_dtype="float32"),
            "0.19.1",
            1,
            "fp32 state for minimax is not yet supported",
        ),
    ],
)
def test_impossible_states(state: State, options: StateOptions, release: str, tensor: int, message: str) -> None:
    with pytest.raises(StartupStops) as stopped:
        built(state, options, release=release, tensor=tensor)
    assert stopped.value.error.message == message


@given(st.sampled_from([1, 2, 4, 8]), st.integers(0, 8))
def test_ranks_hold_the_whole_state_between_them(tensor: int, drafts: int) -> None:
    options = StateOptions(speculative_tokens=drafts)
    for state in (QWEN3_NEXT, NEMOTRON_NANO, KIMI_LINEAR):
        assert built(state, options, tensor=tensor).bytes * tensor == built(state, options).bytes


def spec(page: int = 1000, *, padded: int | None = None, extra: int = 0, mode: str = "none") -> MambaSpec:
    return MambaSpec(
        block_size=512,
        shapes=((page // 2,),),
        dtypes=("bfloat16",),
        cache_mode=mode,
        kind="GDN_ATTN",
        state_bytes=page,
        page_size_padded=padded,
        extra_states=extra,
    )


def test_pages_of_states() -> None:
    assert spec().page_bytes == 1000
    assert spec(padded=1024).page_bytes == 1024
    assert replace(spec(), block_size=1024).page_bytes == 1000
    with pytest.raises(BareAssertion):
        _ = spec(padded=900).page_bytes
    assert state_bytes(((3, 4), (5,)), ("bfloat16", "float32")) == 3 * 4 * 2 + 5 * 4


def test_states_of_one_request() -> None:
    long = RequestLimits(max_model_len=5000, in_flight_tokens=0)
    assert spec().request_blocks(long) == 1
    assert spec(extra=2).request_blocks(long) == 3
    assert spec(extra=2, mode="all").request_blocks(long) == 10 + 2


def test_states_share_tables_by_number_and_later_by_page() -> None:
    other = spec(2000)
    assert not can_merge([spec(), other])
    assert same_type([spec(), other])
    knowing = [replace(each, type_knows_page=True) for each in (spec(), other)]
    assert not same_type(knowing)
