"""The emulated start-up of models with state layers: block sizes, modes and refusals, on catalog models."""

from __future__ import annotations

import pytest

from kvplan.engine import Plan
from kvplan.engine.values import Stage
from tests import asking

GIB = 1 << 30
QWEN3_NEXT = "Qwen/Qwen3-Next-80B-A3B-Thinking"
QWEN3_5 = "Qwen/Qwen3.5-35B-A3B"
KIMI_LINEAR = "moonshotai/Kimi-Linear-48B-A3B-Instruct"
NEMOTRON = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"


def planned(command: str, release: str, gpu: str = "h200", memory: int | None = 60 * GIB) -> Plan:
    return asking.planned(f"vllm serve {command}", release=release, gpu=gpu, memory=memory)


def blocks(result: Plan) -> tuple[set[int], set[int]]:
    """Block sizes of attention and of state layers, as they asked for them."""
    attention = {layer.spec_block_size for layer in result.layers if layer.role == "attention"}
    return attention, {layer.spec_block_size for layer in result.layers if layer.role == "state"}


@pytest.mark.parametrize(
    ("release", "command", "gpu", "attention", "state"),
    [
        # 1,097,728 bytes of state over 2,048 bytes a token: 536 tokens, rounded up to the kernel's 16.
        ("0.17.1", QWEN3_NEXT, "h200", 544, 262_144),
        # 0.18 and 0.19 ask the backend afterwards, which puts 16 back; unification scales it up again.
        ("0.18.1", QWEN3_NEXT, "h200", 16, 262_144),
        ("0.27.1", QWEN3_NEXT, "h200", 544, 262_144),
        ("0.28.0", QWEN3_NEXT, "h200", 544, 544),
        # 0.33: multiples of 64 where FlashInfer can store a state inside a prompt.
        ("0.33.0", QWEN3_NEXT, "h200", 576, 576),
        ("0.33.0", QWEN3_NEXT, "a100", 544, 544),
        ("0.33.0", f"{QWEN3_NEXT} --no-enable-prefix-caching", "h200", 544, 262_144),
        ("0.33.0", f"{QWEN3_NEXT} --block-size 128", "a100", 640, 640),
    ],
)
def test_block_sizes_of_qwen3_next(release: str, command: str, gpu: str, attention: int, state: int) -> None:
    result = planned(command, release, gpu)
    assert result.ok
    assert blocks(result) == ({attention}, {state})
    assert len({layer.page_bytes for layer in result.layers}) == 1


def test_mode_all_rounds_to_the_chunk() -> None:
    # 2,134,016 bytes of float32 state (64 x 64 x 128 x 4 + 3 x 6144 x 2) over 1,024 bytes a token: 2,084 tokens,
    # rounded up to the chunk of 128.
    result = planned(f"{NEMOTRON} --enable-prefix-caching", "0.27.1")
    assert blocks(result) == ({2176}, {2176})
    align = planned(f"{NEMOTRON} --enable-prefix-caching --mamba-cache-mode align", "0.27.1")
    assert blocks(align) == ({2096}, {2096})


def test_qwen3_5_keeps_its_recurrent_state_in_float32() -> None:
    states = [layer for layer in planned(QWEN3_5, "0.33.0").layers if layer.role == "state"]
    assert {layer.state_dtypes for layer in states} == {("bfloat16", "float32")}
    asked = planned(f"{QWEN3_5} --mamba-ssm-cache-dtype bfloat16", "0.33.0").layers
    assert {layer.state_dtypes for layer in asked if layer.role == "state"} == {("bfloat16", "bfloat16")}


def test_kimi_linear_latent_layers_change_their_name() -> None:
    before = {layer.name for layer in planned(KIMI_LINEAR, "0.26.0").layers}
    after = {layer.name for layer in planned(KIMI_LINEAR, "0.27.1").layers}
    assert "model.layers.3.self_attn.attn" in before
    assert "model.layers.3.self_attn" in after


def test_states_neither_cost_tokens_nor_have_heads() -> None:
    state = next(layer for layer in planned(QWEN3_NEXT, "0.33.0").layers if layer.role == "state")
    assert state.bytes_per_token == 0
    assert state.states_per_request == 3
    assert state.num_kv_heads is None
    assert state.state_shapes == ((3, 8192), (32, 128, 128))


@pytest.mark.parametrize(
    ("command", "release", "stage", "gist"),
    [
        (f"{QWEN3_NEXT} --mamba-block-size 64 --no-enable-prefix-caching", "0.33.0", Stage.OPTIONS, "can only be set"),
        (f"{QWEN3_NEXT} --no-enable-chunked-prefill", "0.33.0", Stage.OPTIONS, "Chunked prefill is required"),
        (f"{QWEN3_NEXT} --disable-hybrid-kv-cache-manager", "0.33.0", Stage.SPECS, "Failed to promote"),
        (f"{QWEN3_NEXT} --use-replayssm", "0.33.0", Stage.OPTIONS, "--use-replayssm is not supported"),
    ],
)
def test_refusals(command: str, release: str, stage: Stage, gist: str) -> None:
    error = planned(command, release).error
    assert error is not None
    assert error.stage is stage
    assert gist in error.message


def test_a_block_must_fit_a_batch_until_0_26() -> None:
    command = f"{QWEN3_5} --enable-prefix-caching --max-num-batched-tokens 1024"
    error = planned(command, "0.19.1").error
    assert error is not None
    assert error.type == "AssertionError"
    assert error.message == "In Mamba cache align mode, block_size (1056) must be <= max_num_batched_tokens (1024)."
    assert planned(command, "0.27.1").ok
