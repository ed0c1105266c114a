"""The ten most telling public cases once more, with the arithmetic in words: figures that users saw, by hand."""

from __future__ import annotations

from pathlib import Path

from kvplan.engine import Plan
from kvplan.engine.failures import PoolTooSmall
from tests.golden.test_public_cases import CASES, planned

GIB = 1 << 30
BY_ID = {case["id"]: case for case in CASES}


def pool(plan: Plan) -> tuple[int | None, int | None]:
    """(blocks, tokens) that start-up logs."""
    assert plan.capacity is not None
    return plan.capacity.num_blocks, plan.capacity.tokens


def refused(plan: Plan) -> tuple[object, object]:
    """(bytes that one request needs, longest request in tokens) of a pool that is too small."""
    ((_, facts),) = plan.failures(PoolTooSmall)
    return facts.needed_bytes, facts.longest_request_tokens


def blocks_of_attention(plan: Plan) -> set[int]:
    """Tokens a block of the layers that keep keys and values."""
    return {layer.block_size for layer in plan.layers if layer.num_kv_heads}


def test_plain_attention(configs: Path) -> None:
    """Qwen3-0.6B: 8 KV heads of 128, a key and a value, 2 bytes each: 4,096 bytes a token and layer. 28 layers and 16
    tokens make a block, and the pool holds as many as divide into it; 2,048 tokens a request: 997.08 at once."""
    case = BY_ID["vllm-13596"]
    block = 28 * 16 * (8 * 128 * 2 * 2)
    assert block == 1_835_008
    blocks = case["available_bytes"] // block
    plan = planned(case, configs)
    assert pool(plan) == (blocks, blocks * 16) == (127_626, 2_042_016)
    assert plan.capacity is not None
    assert plan.capacity.max_concurrency == blocks / (2_048 / 16)


def test_request_that_does_not_fit(configs: Path) -> None:
    """Qwen3-Coder-480B with data parallelism 8, so that each GPU keeps all 8 KV heads of 62 layers: 253,952 bytes a
    token, and 262,144 tokens are 62.0 GiB. The pool of 48.66 GiB holds 12,858 whole blocks of 16."""
    case = BY_ID["recipes-12#48.66"]
    token = 62 * (8 * 128 * 2 * 2)
    assert token * 262_144 == 62 * GIB
    blocks = case["available_bytes"] // (16 * token)
    assert refused(planned(case, configs)) == (62 * GIB, blocks * 16) == (62 * GIB, 205_728)


def test_fp8_halves_a_token(configs: Path) -> None:
    """Qwen3-30B-A3B at fp8: 48 layers of 4 KV heads, one byte a value: 49,152 bytes a token. 221,000 tokens begin
    13,813 blocks: 10.12 GiB; the pool holds 7,630."""
    case = BY_ID["vllm-25350#221000-s"]
    block = 16 * 48 * (4 * 128 * 2 * 1)
    assert -(-221_000 // 16) == 13_813
    assert round(13_813 * block / GIB, 2) == 10.12
    assert refused(planned(case, configs)) == (13_813 * block, case["available_bytes"] // block * 16)


def test_admission_counted_all_pipeline_stages(configs: Path) -> None:
    """Qwen3-Coder-30B on two stages of 16 and 32 layers: a token takes 2,048 bytes a layer. 0.16 asks every GPU to hold
    all 48 layers of 262,144 tokens, 24 GiB, so that 34,736 tokens are the longest request; from 0.17 on the first
    stage needs 8 GiB for its own 16, and 104,192 tokens fit."""
    layer = 4 * 128 * 2 * 2
    old, new = BY_ID["vllm-34076#0.16.0-s"], BY_ID["vllm-34076#0.17.1"]
    longest = [case["available_bytes"] // (16 * layers * layer) * 16 for case, layers in ((old, 48), (new, 16))]
    assert longest == [34_736, 104_192]
    assert refused(planned(old, configs)) == (48 * layer * 262_144, longest[0])
    assert refused(planned(new, configs)) == (16 * layer * 262_144, longest[1])


def test_latent_rows(configs: Path) -> None:
    """GLM-4.7-Flash keeps one latent row of 512 + 64 elements a token, no value: 576 bytes at fp8 and 1,152 at
    bfloat16, in 47 layers. The same GPU has 733 blocks of 16 for the one and, with slightly more memory, 380 for the
    other."""
    for name, width, blocks in (("vllm-35695#fp8-0.23.0", 1, 733), ("vllm-35695#bf16", 2, 380)):
        case = BY_ID[name]
        assert case["available_bytes"] // (47 * 16 * 576 * width) == blocks
        assert pool(planned(case, configs)) == (blocks, blocks * 16)


def test_indexer_beside_latent_rows(configs: Path) -> None:
    """DeepSeek-V3.2 keeps 1,152 bytes of latent row, and for its indexer a key of 128 bytes with a scale of 4: 1,284
    bytes a token in each of 61 layers. Blocks of 64 tokens: 8,568 of them in 40 GiB."""
    case = BY_ID["vllm-25988#bfloat16"]
    block = 61 * 64 * (2 * 576 + 128 + 4)
    assert block == 5_012_736
    assert pool(planned(case, configs)) == (40 * GIB // block, 40 * GIB // block * 64) == (8_568, 548_352)


def test_latent_rows_of_another_rank(configs: Path) -> None:
    """A DeepSeek of 36 layers with a latent rank of 256: (256 + 64) x 2 bytes x 36 layers, 23,040 bytes a token; 2**20
    tokens are 22.5 GiB. Tensor parallelism splits no latent row. FlashMLA's blocks hold 64 tokens, FlashInfer's 32: the
    longest request is a whole number of the launch's blocks."""
    case = BY_ID["kaito-2132#mla-s"]
    token = 36 * (256 + 64) * 2
    assert token * 2**20 == int(22.5 * GIB)
    plan = planned(case, configs)
    assert plan.settings is not None
    size = plan.settings.block_size
    longest = case["available_bytes"] // (token * size) * size
    assert refused(plan) == (int(22.5 * GIB), longest) == (int(22.5 * GIB), 810_208)


def test_state_decides_the_block(configs: Path) -> None:
    """Qwen3.5-4B keeps 32 matrices of 128 x 128 in float32 and 3 columns of 8,192 channels in bfloat16: 2,146,304
    bytes. An attention token takes 4 KV heads x 256 x 2 x 2 = 4,096 bytes, so that 524 tokens cover a state, and 528
    are the next multiple of 16."""
    state = 32 * 128 * 128 * 4 + 3 * (2 * 16 * 128 + 32 * 128) * 2
    assert state == 2_146_304
    assert -(-state // (4 * 256 * 2 * 2)) == 524
    assert blocks_of_attention(planned(BY_ID["vllm-40696#f32"], configs)) == {-(-524 // 16) * 16} == {528}


def test_fewer_heads_make_longer_blocks(configs: Path) -> None:
    """Qwen3.5-35B-A3B has the same state, but 2 KV heads: 2,048 bytes a token, so that it takes 1,048 tokens to cover a
    state: a block of 1,056. Quantising only the cache to fp8 would double it again."""
    state = 32 * 128 * 128 * 4 + 3 * (2 * 16 * 128 + 32 * 128) * 2
    tokens = -(-state // (2 * 256 * 2 * 2))
    assert tokens == 1_048
    assert blocks_of_attention(planned(BY_ID["field-014"], configs)) == {-(-tokens // 16) * 16} == {1_056}


def test_same_pool_told_differently(configs: Path) -> None:
    """Gemma 4 31B, 19,783 blocks in both releases. 0.19 divides them among the groups of layers and logs 52,752
    tokens; 0.21 logs the concurrency times the longest request, 566,342, although nothing else changed."""
    old = planned(BY_ID["vllm-43308#p-0.19.1"], configs)
    new = planned(BY_ID["vllm-43308#p-0.21.0"], configs)
    assert pool(old) == (19_783, 19_783 // len(old.groups) * 16) == (19_783, 52_752)
    assert new.capacity is not None
    assert new.capacity.max_concurrency is not None
    assert pool(new) == (19_783, int(new.capacity.max_concurrency * 262_144)) == (19_783, 566_342)
