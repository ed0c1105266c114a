"""Pages, groups and refusals of models with compressed and auxiliary caches, on worked numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kvplan.checkpoint import load
from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.failures import InvalidValue
from kvplan.engine.groups.compressed import bytes_per_block, cheapest_divisor, latent_groups
from kvplan.engine.groups.pooled import StateTooLarge, pooled_groups
from kvplan.engine.models.geometry import Role
from kvplan.engine.options import manager
from kvplan.engine.specs.base import BareAssertion, LayerSpec, MambaSpec, MLAAttentionSpec, RequestLimits
from kvplan.engine.specs.compressed import CircularBufferSpec, SlidingWindowMLASpec, promote_latent
from kvplan.engine.values import LayerPlan, Plan
from kvplan.releases import resolve
from tests import asking
from tests.engine.checkpoints import dots3_note, inkling, model, qwen4_exp, step5

NEWEST = "0.33.0"
GIB = 1 << 30


def planned(checkpoint: Checkpoint, *flags: str, release: str = NEWEST, gpu: str = "h200") -> Plan:
    """The plan of `vllm serve model FLAGS` with 40 GiB for the cache."""
    return asking.planned_with(checkpoint, flags, release=release, gpu=gpu, memory=40 * GIB)


def layer(found: Plan, name: str) -> LayerPlan:
    return next(each for each in found.layers if each.name == name)


def deepseek_v4(**fields: Any) -> Checkpoint:
    """Four layers of DeepSeek-V4: two sliding only, one of ratio 4, one of ratio 128."""
    base = {
        "num_hidden_layers": 4,
        "num_attention_heads": 64,
        "num_key_value_heads": 1,
        "head_dim": 512,
        "hidden_size": 4096,
        "qk_rope_head_dim": 64,
        "index_head_dim": 128,
        "index_topk": 512,
        "sliding_window": 128,
        "max_position_embeddings": 65536,
        "compress_ratios": [0, 0, 4, 128],
    }
    return model("DeepseekV4ForCausalLM", "deepseek_v4", **{**base, **fields})


@pytest.mark.parametrize("release", ["0.20.2", "0.24.0", "0.27.1", "0.30.0", NEWEST])
def test_deepseek_v4_packed_pages(release: str) -> None:
    """Blocks of 256 tokens hold 64 rows (ratio 4) or 2 (ratio 128) of 584 bytes, padded to whole 576 bytes."""
    found = planned(deepseek_v4(), "--kv-cache-dtype", "fp8", release=release)
    assert found.ok
    pages = {
        name: (layer(found, name).spec_block_size, layer(found, name).spec_page_bytes)
        for name in (
            "model.layers.0.attn.swa_cache",
            "model.layers.2.attn",
            "model.layers.3.attn",
            "model.layers.2.attn.indexer.k_cache",
            "model.layers.2.attn.compressor.state_cache",
            "model.layers.3.attn.compressor.state_cache",
            "model.layers.2.attn.indexer.compressor.state_cache",
        )
    }
    assert pages == {
        "model.layers.0.attn.swa_cache": (64, 37_440),  # 64 * 584 = 37,376
        "model.layers.2.attn": (256, 37_440),  # 256 / 4 * 584 = 37,376
        "model.layers.3.attn": (256, 1_728),  # 256 / 128 * 584 = 1,168
        "model.layers.2.attn.indexer.k_cache": (256, 8_640),  # 64 * 132 = 8,448
        "model.layers.2.attn.compressor.state_cache": (4, 32_832),  # 4 * 2 * 2 * 512 * 4 = 32,768
        "model.layers.3.attn.compressor.state_cache": (8, 32_832),  # 8 * 2 * 512 * 4 = 32,768
        "model.layers.2.attn.indexer.compressor.state_cache": (4, 8_640),  # 4 * 2 * 2 * 128 * 4 = 8,192
    }


@pytest.mark.parametrize(("release", "page", "indexer"), [("0.23.0", 1_024, 8_640), (NEWEST, 1_024, 8_704)])
def test_deepseek_v4_plain_pages_on_flashinfer(release: str, page: int, indexer: int) -> None:
    """FlashInfer stores rows of 512 one-byte values: 2 rows of ratio 128 are 1,024 bytes, no padding needed."""
    flags = ("--kv-cache-dtype", "fp8", "--attention-backend", "FLASHINFER_MLA_SPARSE_DSV4")
    found = planned(deepseek_v4(), *flags, release=release, gpu="b200")
    assert layer(found, "model.layers.3.attn").spec_page_bytes == page
    assert layer(found, "model.layers.3.attn").storage_dtype == "float8_e4m3fn"
    assert layer(found, "model.layers.2.attn.indexer.k_cache").spec_page_bytes == indexer


def test_deepseek_v4_refuses_auto_until_it_means_fp8() -> None:
    refused = planned(deepseek_v4(), release="0.29.0")
    error, facts = next(refused.failures(InvalidValue))
    assert (error.type, facts.option) == ("AssertionError", "--kv-cache-dtype")
    taken = planned(deepseek_v4(), release="0.30.0")
    assert taken.ok
    assert taken.settings is not None
    assert taken.settings.cache_dtype_after_load == "fp8_ds_mla"


def test_deepseek_v4_needs_ratios_before_it_reads_layer_types() -> None:
    typed = deepseek_v4(
        compress_ratios=None,
        layer_types=["sliding_attention", "sliding_attention", "compressed_sparse_attention", "sliding_attention"],
        compress_rates={"compressed_sparse_attention": 4},
    )
    assert len(planned(typed).layers) == 4 + 4
    refused = planned(typed, "--kv-cache-dtype", "fp8", release="0.32.0")
    assert refused.error is not None
    assert "compress_ratios" in refused.error.message


def latent(page_rows: int, *, block_size: int = 256) -> MLAAttentionSpec:
    return MLAAttentionSpec(
        block_size=block_size,
        num_kv_heads=1,
        head_size=512,
        head_size_v=0,
        dtype="uint8",
        quant_mode=None,
        token_bytes=page_rows,
        tokens_per_state=block_size,
    )


def sliding(page_rows: int, *, block_size: int = 64, window: int = 128) -> SlidingWindowMLASpec:
    return SlidingWindowMLASpec(
        block_size=block_size,
        num_kv_heads=1,
        head_size=512,
        head_size_v=0,
        dtype="uint8",
        quant_mode=None,
        token_bytes=page_rows,
        sliding_window=window,
    )


def specs() -> dict[str, LayerSpec]:
    """Two full caches of 1,000 bytes and one of 6,400, beside five sliding ones of 6,400 (64 * 100)."""
    full: dict[str, LayerSpec] = {"a": latent(1_000), "b": latent(6_400), "c": latent(1_000)}
    return full | {f"s{i}": sliding(100) for i in range(5)}


def test_bytes_per_block_in_its_eras() -> None:
    """The full group has 2 layers of one page, so sliding layers go 2 or 3 to a group: 5 fit 3 groups of 2."""
    expected = {
        "0.20.2": 2 * (1_000 + 6_400),  # two tuples of both page sizes
        "0.23.0": 2 * 1_000 + 2 * 6_400,  # slots by page: two small ones, two large ones
        "0.27.1": 2 * 6_400,  # the widest group: two sliding layers
    }
    for release, size in expected.items():
        groups = latent_groups(specs(), resolve(release))
        assert groups is not None
        assert [len(group) for group in groups] == [3, 2, 2, 1]
        assert bytes_per_block([list(group.values()) for group in groups], resolve(release)) == size
    assert latent_groups(specs(), resolve("0.29.0")) is None


def test_sliding_pages_grow_to_a_full_page() -> None:
    mixed = {**specs(), "t": sliding(10, block_size=4, window=8)}
    before = latent_groups(mixed, resolve("0.26.0"))
    after = latent_groups(mixed, resolve("0.27.1"))
    assert before is not None
    assert after is not None
    assert before[-1]["t"].page_bytes == 1_000
    assert after[-1]["t"].page_bytes == 40
    with pytest.raises(BareAssertion, match="no larger"):
        latent_groups({"a": latent(10), "s": sliding(100)}, resolve("0.22.1"))


def test_cheapest_divisor() -> None:
    """41, 43 and 20 from 21 up: 21 wastes 1 + 20 + 1, 43 wastes 2 + 0 + 23, 22 wastes 3 + 1 + 2."""
    assert cheapest_divisor([41, 43, 20], 21) == 22
    assert cheapest_divisor([3], 5) == 5


def test_promotion_keeps_what_the_release_keeps() -> None:
    spec = sliding(584)
    assert promote_latent(spec, 256, resolve("0.33.0")).sliding_window == 128
    assert promote_latent(spec, 256, resolve("0.25.1")).sliding_window is None
    assert promote_latent(spec, 256, resolve("0.33.0")).page_bytes == 256 * 584


def test_a_ring_is_one_block_a_request() -> None:
    ring = CircularBufferSpec(
        block_size=32, num_kv_heads=2, head_size=128, head_size_v=0, dtype="bfloat16", quant_mode=None, token_bytes=512
    )
    assert ring.page_bytes == 16_384
    assert ring.request_blocks(RequestLimits(1 << 20, 8_192)) == 1


def test_alignment_survives_a_larger_block_as_in_vllm() -> None:
    """A copy whose own page needs no padding keeps the old padded page, and fails where that is too small."""
    packed = MLAAttentionSpec(
        block_size=64,
        num_kv_heads=1,
        head_size=512,
        head_size_v=0,
        dtype="uint8",
        quant_mode=None,
        token_bytes=584,
        alignment=576,
    )
    assert packed.page_bytes == 37_440
    assert replace(packed, block_size=128).page_bytes == 74_880  # 128 * 584 = 74,752
    with pytest.raises(BareAssertion):
        _ = replace(packed, block_size=576).page_bytes  # 576 * 584 is whole already


def test_hybrid_manager_off_stops_sliding_latent_models() -> None:
    flags = ("--kv-cache-dtype", "fp8", "--disable-hybrid-kv-cache-manager")
    broken = planned(deepseek_v4(), *flags)
    assert broken.error is not None
    assert broken.error.type == "TypeError"
    whole = planned(deepseek_v4(), *flags, release="0.30.0")
    assert whole.ok
    assert len(whole.groups) == 1
    assert layer(whole, "model.layers.0.attn.swa_cache").page_bytes == 149_760  # 256 * 584 = 149,504


def test_inkling_convolution_pages() -> None:
    """2 * 128 + 2 * 576 = 1,408 elements a head, stored as 2,048; 4 tokens of 2 heads are 32,768 bytes."""
    found = planned(inkling(), "-tp", "4")
    state = layer(found, "model.layers.0.conv_state")
    assert (state.spec, state.spec_block_size, state.spec_page_bytes) == ("SlidingWindowSpec", 4, 32_768)
    assert (state.sliding_window, state.head_size, state.storage_dtype) == (4, 2_048, "bfloat16")
    attention = layer(found, "model.layers.5.attn")
    assert (attention.spec, attention.block_size, attention.page_bytes) == ("FullAttentionSpec", 32, 32_768)


def test_inkling_states_are_neither_replicated_nor_halved() -> None:
    many = planned(inkling(), "-tp", "16")
    assert many.error is not None
    assert many.error.type == "AssertionError"
    half = planned(inkling(), "--dtype", "float16")
    assert half.error is not None
    assert "bfloat16 only" in half.error.message


def test_longcat_asserts_its_zero_experts() -> None:
    fields = {
        "num_layers": 2,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "hidden_size": 6144,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "max_position_embeddings": 131072,
    }
    bare = planned(model("LongcatFlashForCausalLM", "longcat_flash", **fields))
    assert bare.error is not None
    assert (bare.error.type, bare.error.stage.value) == ("AssertionError", "layers")
    named = ("--attention-backend", "TORCH_SDPA")
    first = planned(model("LongcatFlashForCausalLM", "longcat_flash", **fields), *named).error
    assert first is not None
    assert first.message.startswith("Backend TORCH_SDPA must be registered before use.")
    full = planned(model("LongcatFlashForCausalLM", "longcat_flash", zero_expert_type="identity", **fields))
    assert [each.name for each in full.layers][:2] == [f"model.layers.0.self_attn.{half}.attn" for half in (0, 1)]
    skipping = ("--kv-cache-dtype", "fp8", "--kv-cache-dtype-skip-layers", "0")
    listed = planned(
        model("LongcatFlashForCausalLM", "longcat_flash", zero_expert_type="identity", **fields), *skipping
    )
    assert listed.error is not None
    assert "should only contain one integer" in listed.error.message


def test_step5_summaries_and_rings() -> None:
    """One KV head of 192 in bfloat16: 16 * 384 * 2 = 12,288 bytes a page, the ring's too; a summary row for 8 tokens
    makes 2 * 256 = 512 bytes. Two full layers hold 2 * 12,800 bytes a block, but six sliding ones in groups of two
    no more; blocks lie a multiple of lcm(8 rows of 768, 1,024) = 6,144 bytes apart: 25,600 become 30,720."""
    found = planned(step5(), "-tp", "8")
    assert found.ok
    attention = "model.layers.0.self_attn.attn"
    assert layer(found, attention).page_bytes == 12_288
    assert layer(found, f"{attention}.sparse_summary_cache").page_bytes == 512
    assert layer(found, f"{attention}.csa_tail_ring").page_bytes == 12_288
    assert layer(found, f"{attention}.csa_tail_ring").spec == "CircularBufferSpec"
    assert found.capacity is not None
    assert found.capacity.bytes_per_block == 30_720


def test_step5_ring_must_fit_a_page() -> None:
    """An fp8 page of 16 tokens holds 6 rows of 1,024 bytes, and the ring needs 7; 32 tokens hold 12."""
    small = planned(step5(), "-tp", "8", "--kv-cache-dtype", "fp8")
    assert small.error is not None
    assert "6144-byte KV page" in small.error.message
    assert planned(step5(), "-tp", "8", "--kv-cache-dtype", "fp8", "--block-size", "32").ok


def test_step5_needs_its_sparse_section() -> None:
    dense = planned(step5(sparse_config=None))
    assert dense.error is not None
    assert dense.error.type == "NotImplementedError"


def glm5_next(**fields: Any) -> Checkpoint:
    """Eight layers of GLM-5.3 Flash: six KDA states, two indexed latent attentions."""
    base = {
        "num_hidden_layers": 8,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "hidden_size": 4096,
        "head_dim": 0,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 0,
        "qk_nope_head_dim": 256,
        "v_head_dim": 256,
        "index_topk": 2048,
        "index_head_dim": 128,
        "index_kpool": 16,
        "mhc": True,
        "mla_use_nope": True,
        "linear_num_heads": 64,
        "linear_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "layer_types": (["linear_attention"] * 3 + ["indexed_attention"]) * 2,
        "max_position_embeddings": 131072,
    }
    return model("Glm5NextForCausalLM", "glm5_next_text", **{**base, **fields})


@pytest.mark.parametrize(("release", "tail"), [("0.31.0", "KpoolTailSpec"), (NEWEST, "CircularBufferSpec")])
def test_glm5_next_pools_its_index_keys(release: str, tail: str) -> None:
    """A state of 8 heads: 8 * 128 * 128 * 4 + 3 * 3,072 * 2 = 542,720 bytes; latent rows of 1,024 bytes cover it with
    530 tokens, rounded up to 1,024; 1,024 / 16 pooled keys of 132 bytes are 8,448; a tail is 16 * 2 * 128 * 2."""
    found = planned(glm5_next(), "-tp", "8", release=release)
    assert found.ok
    place = "model.layers.3.self_attn"
    keys = layer(found, f"{place}.indexer.k_cache")
    assert (keys.spec_block_size, keys.spec_page_bytes) == (1_024, 8_448)
    ring = layer(found, f"{place}.indexer.tail_cache")
    assert (ring.spec, ring.spec_block_size, ring.spec_page_bytes) == (tail, 16, 8_192)
    assert layer(found, f"{place}.attn").page_bytes == 1_048_576
    assert layer(found, "model.layers.0.self_attn").page_bytes == 1_048_576
    assert found.capacity is not None
    rows = 2 * 1_048_576 + 2 * 8_448
    assert found.capacity.bytes_per_block == (rows if release == "0.31.0" else -(-rows // 1_024) * 1_024)


def test_glm5_next_stores_fp8_on_blackwell() -> None:
    found = planned(glm5_next(), "-tp", "8", gpu="b200")
    assert layer(found, "model.layers.3.self_attn.attn").cache_dtype == "fp8"
    before = planned(glm5_next(), "-tp", "8", gpu="b200", release="0.32.0")
    assert layer(before, "model.layers.3.self_attn.attn").cache_dtype == "auto"


def test_states_take_the_slots_of_latent_pages_before_032() -> None:
    """Six states and two latent layers: three groups of two states, dealt out in turn."""
    found = planned(glm5_next(), "-tp", "8", release="0.31.0")
    assert [(group.spec, len(group.layers)) for group in found.groups] == [
        ("UniformTypeKVCacheSpecs", 4),
        ("UniformTypeKVCacheSpecs", 2),
        ("MambaSpec", 2),
        ("MambaSpec", 2),
        ("MambaSpec", 2),
    ]
    assert found.groups[2].layers == ("model.layers.0.self_attn", "model.layers.4.self_attn")


def test_a_state_must_fit_a_latent_page_before_032() -> None:
    state = MambaSpec(
        block_size=64, shapes=((100,),), dtypes=("float32",), cache_mode="none", kind="KDA", state_bytes=20_000
    )
    specs: dict[str, LayerSpec] = {"state": state, "rows": replace(latent(40), tokens_per_state=1), "keys": latent(500)}
    with pytest.raises(StateTooLarge, match="20000 bytes"):
        pooled_groups(specs, resolve("0.31.0"))
    assert pooled_groups(specs, resolve("0.32.0")) is None


def test_qwen4_exp_keeps_three_caches_an_indexed_layer() -> None:
    """On two GPUs: one KV head of 256, 1,024 bytes a token; a state of 16 * 128 * 128 * 2 + 3 * 4,096 * 2 = 548,864
    bytes is covered by 536 tokens, rounded up to 576 (states every 64); 576 / 4 compressed keys of 256 bytes; a ring
    of 4 raw keys."""
    found = planned(qwen4_exp(), "-tp", "2")
    assert found.ok
    place = "model.layers.3.self_attn"
    attention = layer(found, f"{place}.attn")
    assert (attention.block_size, attention.page_bytes) == (576, 589_824)
    compressed = layer(found, f"{place}.indexer.compressed_key_cache")
    assert (compressed.spec, compressed.page_bytes) == ("MLAAttentionSpec", 36_864)
    ring = layer(found, f"{place}.indexer.raw_key_cache")
    assert (ring.spec, ring.spec_block_size, ring.spec_page_bytes) == ("CircularBufferSpec", 4, 1_024)


def test_qwen4_exp_embeddings_keep_a_state_that_every_rank_holds_whole() -> None:
    """Layers 1 and 3, counted from 1: (4 - 1) * 3 columns of 4 * 2,048 channels, 147,456 bytes on each of two GPUs,
    padded like the delta nets' states to the attention's page."""
    found = planned(qwen4_exp(ple_layer_ids=[1, 3]), "-tp", "2")
    assert found.ok
    assert [each.name for each in found.layers if each.layer_class == "Qwen4ExpPLELayer"] == [
        "model.layers.0.ple",
        "model.layers.2.ple",
    ]
    embedding = layer(found, "model.layers.0.ple")
    assert (embedding.state_shapes, embedding.backend) == (((9, 8_192),), "PLE_SHORT_CONV_ATTN")
    assert (embedding.unpadded_page_bytes, embedding.page_bytes) == (147_456, 589_824)
    assert not [group for group in found.groups if len({name.endswith(".ple") for name in group.layers}) > 1]
    refused = planned(qwen4_exp(ple_layer_ids=[1, 3]), "-pp", "2")
    assert refused.error is not None
    assert (refused.error.type, refused.error.code) == ("NotImplementedError", "pipeline_unsupported")


def test_qwen4_exp_aligns_to_the_embeddings_state_even_without_embeddings() -> None:
    """On eight GPUs a delta net's state is 137,216 bytes. Until 0.32 blocks are multiples of 16 tokens of 1,024 bytes:
    144 tokens are just the 147,456 bytes of an embedding's state, so that nothing is padded. 0.33.0 has multiples of
    64: 192 tokens, and states padded to their 196,608 bytes."""
    name = "model.layers.0.linear_attn"
    older, newer = (layer(planned(qwen4_exp(), "-tp", "8", release=release), name) for release in ("0.31.0", "0.33.0"))
    assert (older.block_size, older.spec_page_bytes) == (144, 137_216)
    assert (newer.block_size, newer.spec_page_bytes) == (192, 196_608)


def test_qwen4_exp_cache_dtypes() -> None:
    refused = planned(qwen4_exp(), "--kv-cache-dtype", "fp8", release="0.30.0")
    assert refused.error is not None
    assert refused.error.type == "NotImplementedError"
    skipping = planned(qwen4_exp(), "--kv-cache-dtype", "fp8", "--kv-cache-dtype-skip-layers", "3")
    assert layer(skipping, "model.layers.3.self_attn.attn").cache_dtype == "auto"
    ignoring = planned(qwen4_exp(), "--kv-cache-dtype", "fp8", "--kv-cache-dtype-skip-layers", "3", release="0.31.0")
    assert layer(ignoring, "model.layers.3.self_attn.attn").cache_dtype == "fp8"
    assert ignoring.skip.ignored_layers == (3,)


@pytest.mark.parametrize(
    ("word", "release", "ok"),
    [
        ("indexed_attention", "0.30.0", False),
        ("indexed_attention", "0.31.0", False),
        ("indexed_attention", "0.32.0", True),
        ("qwen_sparse_attention", "0.31.0", True),
        ("full_attention", "0.32.0", True),
    ],
)
def test_qwen4_exp_layer_type_words_differ_by_release(word: str, release: str, ok: bool) -> None:
    found = planned(qwen4_exp(layer_types=["linear_attention"] * 3 + [word]), "-tp", "2", release=release)
    assert found.ok is ok


def deepseek_v41(**fields: Any) -> Checkpoint:
    """Four layers of DeepSeek-V4.1: two sliding, one source of ratio 2 and one that reads from it."""
    base = {
        "num_hidden_layers": 4,
        "num_attention_heads": 64,
        "num_key_value_heads": 1,
        "head_dim": 512,
        "hidden_size": 5120,
        "qk_rope_head_dim": 64,
        "o_groups": 8,
        "index_head_dim": 128,
        "index_topk": 512,
        "sliding_window": 128,
        "compress_ratios": [0, 0, 2, 2],
        "kv_source_layer_ids": [2],
        "index_source_layer_ids": [2],
        "max_position_embeddings": 65536,
    }
    return model("DeepseekV41ForCausalLM", "deepseek_v41", **{**base, **fields})


def test_deepseek_v41_rows_by_gpu() -> None:
    """Hopper: 584 bytes a row, pages of whole 576 bytes. Server Blackwell: 528 a sliding row, 288 an NVFP4 one."""
    hopper = planned(deepseek_v41(), "-tp", "4")
    assert layer(hopper, "language_model.model.layers.0.attn.swa_cache").spec_page_bytes == 19_008  # 32 * 584 = 18,688
    assert layer(hopper, "language_model.model.layers.2.attn").cache_dtype == "fp8_ds_mla"
    assert layer(hopper, "language_model.model.layers.2.attn").backend == "FLASHMLA_SPARSE_DSV41"
    blackwell = planned(deepseek_v41(), "-tp", "4", gpu="b200")
    assert layer(blackwell, "language_model.model.layers.0.attn.swa_cache").spec_page_bytes == 16_896  # 32 * 528
    rows = layer(blackwell, "language_model.model.layers.2.attn")
    assert (rows.cache_dtype, rows.backend) == ("nvfp4_ds_mla", "FLASHMLA_MEGA_ATTN_DSV41")
    assert rows.unpadded_page_bytes == rows.spec_block_size // 2 * 288
    assert {each.name for each in blackwell.layers if each.index == 3} == {
        "language_model.model.layers.3.attn.swa_cache"
    }
    state = layer(blackwell, "language_model.model.layers.2.attn.compressor.state_cache")
    assert (state.spec, state.spec_page_bytes) == ("CircularBufferSpec", 32_768)  # 8 * 1,024 * 4


@pytest.mark.parametrize(
    ("flags", "unit", "refused"),
    [
        ((), 64, None),
        ((), 256, "prefix-cacheable=[128]."),
        (("--no-swa-bounded-replay",), 64, "prefix-cacheable=[32, 32, 32, 32, 128]."),
        (("--no-swa-bounded-replay",), 32, None),
    ],
)
def test_windows_that_are_replayed_share_no_prefixes(flags: tuple[str, ...], unit: int, refused: str | None) -> None:
    found = planned(deepseek_v41(), "-tp", "8", "--prefix-match-unit", str(unit), *flags, gpu="b200")
    if refused is None:
        assert found.error is None
        return
    assert found.error is not None
    assert found.error.message.endswith(refused)


@pytest.mark.parametrize(
    ("release", "flags", "version", "prefix_caching", "replays"),
    [
        ("0.30.0", (), "V2", True, False),
        ("0.31.0", (), "V2", True, True),
        ("0.31.0", (), "V1", True, False),
        ("0.31.0", ("--no-swa-bounded-replay",), "V2", True, False),
        ("0.32.0", ("-pcp", "2"), "V2", True, False),
        ("0.33.0", ("-pcp", "2"), "V2", True, True),
        ("0.33.0", ("-pcp", "2"), "V2", False, False),
    ],
)
def test_windows_are_replayed_where_the_launch_lets_them(
    release: str, flags: tuple[str, ...], version: str, prefix_caching: bool, replays: bool
) -> None:
    launch = asking.launched(["vllm", "serve", "m", *flags], release=release, gpu="b200")
    assert manager.replays_windows(launch, version, prefix_caching=prefix_caching) is replays


def test_deepseek_v41_refusals() -> None:
    short = planned(deepseek_v41(max_position_embeddings=None))
    assert short.error is not None
    assert short.error.type == "AttributeError"
    narrow = planned(deepseek_v41(), "--kv-cache-dtype", "nvfp4_ds_mla")
    assert narrow.error is not None
    assert "SM100" in narrow.error.message


@pytest.mark.parametrize("release", ["0.28.0", NEWEST])
def test_dots3_note_rows_have_one_width(release: str) -> None:
    """64 tokens of 1,024 + 64 bfloat16 elements are 139,264 bytes, in indexed and sliding layers alike."""
    found = planned(dots3_note(), "-tp", "4", release=release)
    assert found.ok
    place = "language_model.model.layers"
    indexed = layer(found, f"{place}.0.self_attn.attn")
    sliding_one = layer(found, f"{place}.1.self_attn.attn")
    assert (indexed.spec, indexed.block_size, indexed.page_bytes) == ("MLAAttentionSpec", 64, 139_264)
    assert (sliding_one.spec, sliding_one.block_size, sliding_one.page_bytes) == ("SlidingWindowMLASpec", 64, 139_264)
    assert layer(found, f"{place}.0.self_attn.indexer.k_cache").page_bytes == 8_448


@pytest.mark.parametrize("size", ["16", "48", "72"])
def test_blocks_smaller_than_a_state_divide_by_zero(size: str) -> None:
    """One state stands for 128 tokens: a smaller block has none, and vLLM divides by its page."""
    found = planned(load("deepseek-ai/DeepSeek-V4-Flash", offline=True), "-tp", "8", "--block-size", size)
    assert found.error is not None
    assert (found.error.type, found.error.code) == ("ZeroDivisionError", "empty_page")


@pytest.mark.parametrize("release", ["0.21.0", "0.28.0", NEWEST])
def test_mtp_of_deepseek_v4_keeps_a_window_only(release: str) -> None:
    """64 rows of 584 bytes, padded to a multiple of 576: 37,440 bytes, after the 43 layers of the target."""
    speculative = '{"method":"mtp","num_speculative_tokens":2}'
    checkpoint = load("deepseek-ai/DeepSeek-V4-Flash", offline=True)
    flags = ("-tp", "8", "--kv-cache-dtype", "fp8", "--speculative-config", speculative)
    found = planned(checkpoint, *flags, release=release)
    assert found.ok
    drafts = [each for each in found.layers if each.role is Role.DRAFT]
    assert [(each.name, each.page_bytes) for each in drafts] == [("model.layers.43.attn.swa_cache", 37_440)]


def _indexers(plan: Plan) -> list[LayerPlan]:
    return [layer for layer in plan.layers if layer.name.endswith("indexer.k_cache")]


@pytest.mark.parametrize(
    ("version", "dtype", "head_size", "page"),
    [
        # 64 rows of 132 bytes, 8,448, padded to a multiple of 576; as mxfp4 64 of 68, 4,352, padded likewise.
        ("0.33.0", "fp8", 132, 8_640),
        ("0.33.0", "mxfp4", 68, 4_608),
        ("0.28.0", "mxfp4", 68, 4_608),
        ("0.27.1", "mxfp4", 132, 8_640),
    ],
)
def test_indexers_keep_keys_as_asked(version: str, dtype: str, head_size: int, page: int) -> None:
    asked: dict[str, object] = {"indexer_kv_dtype": dtype}
    found = planned_as_asked("deepseek-ai/DeepSeek-V4-Flash", version, asked, "--kv-cache-dtype", "fp8")
    assert {(layer.head_size, layer.spec_page_bytes) for layer in _indexers(found)} == {(head_size, page)}


@pytest.mark.parametrize(("version", "head_size"), [("0.26.0", 132), ("0.27.1", 68), ("0.29.0", 68)])
def test_indexers_keep_keys_by_the_older_option(version: str, head_size: int) -> None:
    """`use_fp4_indexer_cache` saves no bytes before 0.27.1, and is gone in 0.30.0."""
    asked: dict[str, object] = {"use_fp4_indexer_cache": True}
    found = planned_as_asked("deepseek-ai/DeepSeek-V4-Flash", version, asked, "--kv-cache-dtype", "fp8")
    assert {layer.head_size for layer in _indexers(found)} == {head_size}


@pytest.mark.parametrize("version", ["0.28.0", "0.33.0"])
def test_indexers_refuse_other_dtypes(version: str) -> None:
    asked: dict[str, object] = {"indexer_kv_dtype": "bf16"}
    error = planned_as_asked("deepseek-ai/DeepSeek-V4-Flash", version, asked, "--kv-cache-dtype", "fp8").error
    assert error is not None
    assert (error.stage, error.type) == ("layers", "ValueError")
    assert "indexer_kv_dtype='bf16' is not supported" in error.message


@pytest.mark.parametrize("version", ["0.29.0", "0.33.0"])
def test_indexers_refuse_mxfp4_without_blackwell(version: str) -> None:
    asked: dict[str, object] = {"indexer_kv_dtype": "mxfp4"}
    model = "deepseek-ai/DeepSeek-V4-Flash"
    error = planned_as_asked(model, version, asked, "--kv-cache-dtype", "fp8", gpu="h100").error
    assert error is not None
    assert (error.stage, error.type) == ("layers", "ValueError")
    assert "indexer_kv_dtype='mxfp4' requires Blackwell datacenter GPUs" in error.message


def test_older_option_takes_any_gpu_at_first() -> None:
    asked: dict[str, object] = {"use_fp4_indexer_cache": True}
    model = "deepseek-ai/DeepSeek-V4-Flash"
    found = planned_as_asked(model, "0.27.1", asked, "--kv-cache-dtype", "fp8", gpu="h100")
    assert {layer.head_size for layer in _indexers(found)} == {68}


@pytest.mark.parametrize(
    ("model", "flags", "stage", "text"),
    [
        ("meta-llama/Llama-3.1-8B", (), "options", "only supported for DSA models with index_topk"),
        ("deepseek-ai/DeepSeek-V3.2", ("-pp", "2"), "options", "does not support pipeline parallelism"),
        ("deepseek-ai/DeepSeek-V3.2", ("-tp", "8", "-dcp", "8"), "options", "does not support decode context"),
        ("deepseek-ai/DeepSeek-V3.2", ("--no-scheduler-reserve-full-isl",), "options", "requires --scheduler-reserve"),
        ("deepseek-ai/DeepSeek-V3.2", (), "layers", "host memory, which kvplan does not plan"),
    ],
)
def test_rows_in_host_memory_are_refused_or_not_planned(
    model: str, flags: tuple[str, ...], stage: str, text: str
) -> None:
    error = planned_as_asked(model, "0.33.0", {"hisparse_config": {}}, *flags).error
    assert error is not None
    assert error.stage == stage
    assert text in error.message


def planned_as_asked(model: str, version: str, attention: dict[str, object], *flags: str, gpu: str = "b200") -> Plan:
    asked = ("--max-model-len", "8192", "--attention-config", json.dumps(attention))
    return asking.planned(["vllm", "serve", model, *asked, *flags], release=version, gpu=gpu)
