"""Drafts whose layers are built by a family of their own, and the rings that grow with speculative tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine import Plan
from kvplan.engine.failures import BlockSizeRefused
from kvplan.engine.models.geometry import CustomCache, Role, Slots
from kvplan.engine.models.shapes import Form
from tests import asking
from tests.engine.checkpoints import dots3_note, inkling, model, qwen4_exp, step5

GIB = 1 << 30


def _step5(**fields: Any) -> Checkpoint:
    kinds = ["sliding_attention" if index % 4 else "full_attention" for index in range(6)]
    drafts = {"layer_types_with_mtp": kinds, "num_nextn_predict_layers": 2}
    return step5(**{"num_hidden_layers": 4, "layer_types": kinds[:4], **drafts, **fields})


def _dots3(**fields: Any) -> Checkpoint:
    kinds = ["full_attention"] + ["sliding_attention"] * 3
    return dots3_note(**{"num_hidden_layers": 4, "layer_types": kinds, **fields})


def _inkling(**fields: Any) -> Checkpoint:
    return inkling(**{"mtp_config": {"num_nextn_predict_layers": 3, "local_layer_ids": [0]}, **fields})


def _planned(
    target: Checkpoint,
    *flags: str,
    release: str = "0.33.0",
    gpu: str = "h200",
    draft: Checkpoint | None = None,
    **spec: Any,
) -> Plan:
    asked = (*flags, "--speculative-config", json.dumps(spec))
    return asking.planned_with(target, asked, draft, release=release, gpu=gpu, memory=40 * GIB)


def _drafted(found: Plan) -> dict[str, tuple[str, int]]:
    """Names of the draft's layers, their specs and the pages that they ask for."""
    return {layer.name: (layer.spec, layer.spec_page_bytes) for layer in found.layers if layer.role is Role.DRAFT}


def _error(found: Plan) -> str:
    assert found.error is not None
    return found.error.message


@pytest.mark.parametrize(
    ("slots", "size", "tokens", "grown"),
    [
        (None, 16, 20, 16),
        (Slots.GROUPS, 4, 0, 4),
        (Slots.GROUPS, 4, 4, 8),
        (Slots.GROUPS, 4, 5, 12),
        (Slots.POWER_OF_GROUPS, 16, 0, 16),
        (Slots.POWER_OF_GROUPS, 16, 16, 32),
        (Slots.POWER_OF_GROUPS, 16, 17, 64),
        (Slots.POWER, 8, 6, 8),
        (Slots.POWER, 8, 7, 16),
    ],
)
def test_rings_hold_drafts(slots: Slots | None, size: int, tokens: int, grown: int) -> None:
    own = CustomCache(form=Form.RING, block_size=size, slots=slots)
    assert own.for_drafts(tokens).block_size == grown


def test_ring_in_a_page_needs_a_row_a_draft() -> None:
    own = CustomCache(form=Form.RING, fills_page_of="attn", ring_rows=7)
    assert own.for_drafts(3).ring_rows == 10
    assert CustomCache(form=Form.FULL).for_drafts(3).ring_rows == 0


def test_qwen4_exp_mtp_is_an_indexed_layer_after_the_targets() -> None:
    """A ring of 4 + 2 raw keys rounds up to 8 of 128 bfloat16 elements; each of two ranks has one KV head of 256."""
    found = _planned(qwen4_exp(mtp_num_hidden_layers=1), "-tp", "2", method="mtp", num_speculative_tokens=2)
    assert found.ok
    size = found.groups[0].block_size
    place = "mtp.layers.4.self_attn"
    assert _drafted(found) == {
        f"{place}.indexer.raw_key_cache": ("CircularBufferSpec", 8 * 128 * 2),
        f"{place}.indexer.compressed_key_cache": ("MLAAttentionSpec", size // 4 * 128 * 2),
        f"{place}.attn": ("FullAttentionSpec", size * 2 * 256 * 2),
    }


def test_qwen4_exp_ring_must_divide_the_block() -> None:
    """The state counts drafts, so that blocks grow with them: 12 tokens take 16 slots, which divide 640 tokens; 8 take
    12, which do not."""
    ngram: dict[str, Any] = {"method": "ngram", "prompt_lookup_max": 4}
    assert _planned(qwen4_exp(mtp_num_hidden_layers=1), "-tp", "2", num_speculative_tokens=12, **ngram).ok
    refused = _planned(qwen4_exp(mtp_num_hidden_layers=1), "-tp", "2", num_speculative_tokens=8, **ngram)
    error, facts = next(refused.failures(BlockSizeRefused))
    assert (error.type, facts.block_size, facts.multiple) == ("AssertionError", 640, 12)


def test_step5_mtp_goes_on_with_the_layer_types() -> None:
    """Layer 4 selects regions: 16 tokens of 2 * 192 bfloat16 elements, the same in its ring, and 2 summaries of 256."""
    found = _planned(_step5(), "-tp", "8", method="mtp", num_speculative_tokens=2)
    assert found.ok
    place = "model.layers.{}.mtp_block.self_attn.attn"
    assert _drafted(found) == {
        place.format(4): ("FullAttentionSpec", 12_288),
        f"{place.format(4)}.sparse_summary_cache": ("FullAttentionSpec", 512),
        f"{place.format(4)}.csa_tail_ring": ("CircularBufferSpec", 12_288),
        place.format(5): ("SlidingWindowSpec", 12_288),
    }
    assert "expected at least 7 entries, got 6" in _error(
        _planned(_step5(num_nextn_predict_layers=3), "-tp", "8", method="mtp", num_speculative_tokens=3)
    )


def test_step5_ring_needs_rows_for_drafts() -> None:
    """7 + 6 rows of 1,024 bytes are more than the 12 that a page of 12,288 bytes holds."""
    refused = _planned(_step5(), "-tp", "8", method="mtp", num_speculative_tokens=6)
    assert "needs 13 rows" in _error(refused)


def test_dots3_note_mtp_slides() -> None:
    """64 tokens of 1,024 + 64 bfloat16 elements."""
    found = _planned(_dots3(), "-tp", "4", release="0.28.0", method="mtp", num_speculative_tokens=1)
    assert _drafted(found) == {"model.layers.4.self_attn.attn": ("SlidingWindowMLASpec", 64 * 1088 * 2)}
    two = {"num_nextn_predict_layers": 2, "mtp_layer_types": ["sliding_attention"]}
    refused = _planned(_dots3(**two), "-tp", "4", method="mtp", num_speculative_tokens=2)
    assert "got 1 for 2 layers" in _error(refused)
    indexed = _planned(_dots3(mtp_layer_types=["full_attention"]), "-tp", "4", method="mtp", num_speculative_tokens=1)
    assert "topk_indices_buffer" in _error(indexed)


def test_inkling_builds_as_many_depths_as_it_speculates() -> None:
    """Four ranks: 2 KV heads of 128, 16 tokens; a convolution state of 4 tokens takes 4 * 2 * 2,048 elements."""
    found = _planned(_inkling(), "-tp", "4", method="mtp", num_speculative_tokens=2)
    place = "model.layers.{}.transformer_block"
    state = ("SlidingWindowSpec", 4 * 2 * 2048 * 2)
    assert _drafted(found) == {
        f"{place.format(0)}.conv_state": state,
        f"{place.format(0)}.attn": ("SlidingWindowSpec", 16 * 2 * 256 * 2),
        f"{place.format(1)}.conv_state": state,
        f"{place.format(1)}.attn": ("FullAttentionSpec", 16 * 2 * 256 * 2),
    }
    assert len(_drafted(_planned(_inkling(), "-tp", "4", method="mtp", num_speculative_tokens=6))) == 6
    oldest = _planned(_inkling(), "-tp", "4", release="0.26.0", method="mtp", num_speculative_tokens=2)
    assert "exactly one" in _error(oldest)
    without = _planned(_inkling(mtp_config=None), "-tp", "4", method="mtp", num_speculative_tokens=1)
    assert "does not contain MTP weights" in _error(without)


def _deepseek(*, newer: bool = False, **fields: Any) -> Checkpoint:
    base = {
        "num_hidden_layers": 4,
        "num_attention_heads": 64,
        "num_key_value_heads": 1,
        "head_dim": 512,
        "hidden_size": 4096,
        "qk_rope_head_dim": 64,
        "o_groups": 8,
        "index_head_dim": 128,
        "index_topk": 512,
        "sliding_window": 128,
        "compress_ratios": [0, 0, 2, 2] if newer else [0, 0, 4, 128],
        "kv_source_layer_ids": [2],
        "index_source_layer_ids": [2],
        "max_position_embeddings": 65536,
        "dspark_block_size": 5,
        "dspark_markov_rank": 256,
        "dspark_target_layer_ids": [1, 2, 3],
    }
    names = ("DeepseekV41ForCausalLM", "deepseek_v41") if newer else ("DeepseekV4ForCausalLM", "deepseek_v4")
    return model(*names, **{**base, **fields})


def test_dspark_stages_slide() -> None:
    """64 rows of 584 bytes in whole 576 bytes; V4.1 on Hopper 32 of them, and on server Blackwell 32 of 528 in 512."""
    fp8 = ("-tp", "8", "--kv-cache-dtype", "fp8")
    found = _planned(_deepseek(), *fp8, method="dspark", num_speculative_tokens=5)
    assert _drafted(found) == {
        f"model.layers.{index}.attn.swa_cache": ("SlidingWindowMLASpec", 37_440) for index in (4, 5, 6)
    }
    assert len(_drafted(_planned(_deepseek(n_mtp_layers=1), *fp8, method="dspark", num_speculative_tokens=5))) == 1
    assert "dspark_markov_rank" in _error(
        _planned(_deepseek(dspark_markov_rank=None), *fp8, method="dspark", num_speculative_tokens=5)
    )
    newer = _deepseek(newer=True, num_nextn_predict_layers=2)
    for gpu, page in (("h200", 19_008), ("b200", 16_896)):
        drafted = _drafted(_planned(newer, "-tp", "8", gpu=gpu, method="dspark", num_speculative_tokens=5))
        assert drafted == {f"model.layers.{index}.attn.swa_cache": ("SlidingWindowMLASpec", page) for index in (4, 5)}


@pytest.mark.parametrize(("tokens", "slots"), [(6, 8), (7, 16), (15, 32)])
def test_deepseek_v41_compressor_ring_holds_drafts(tokens: int, slots: int) -> None:
    """Slots of 2 * 512 float32 elements for the drafts, the token before them and the row before that."""
    found = _planned(_deepseek(newer=True), "-tp", "8", method="dspark", num_speculative_tokens=tokens)
    ring = next(layer for layer in found.layers if layer.spec == "CircularBufferSpec")
    assert (ring.spec_block_size, ring.spec_page_bytes) == (slots, slots * 1024 * 4)


def test_deepseek_v41_has_no_mtp() -> None:
    assert "'dspark' instead of 'mtp'" in _error(
        _planned(_deepseek(newer=True), "-tp", "8", method="mtp", num_speculative_tokens=1)
    )


@pytest.mark.parametrize(
    ("release", "tokens", "refused"),
    [
        ("0.25.1", 5, "must be divisible by n_predict=3"),
        ("0.25.1", 6, None),
        ("0.26.0", 3, "dspark_block_size (5)"),
        ("0.33.0", 4, None),
    ],
)
def test_dspark_widths(release: str, tokens: int, refused: str | None) -> None:
    target = _deepseek(num_nextn_predict_layers=3)
    fp8 = ("-tp", "8", "--kv-cache-dtype", "fp8")
    found = _planned(target, *fp8, release=release, method="dspark", num_speculative_tokens=tokens)
    assert found.ok if refused is None else refused in _error(found)


def test_dspark_width_must_be_given_where_no_model_is() -> None:
    """Without a model vLLM never comes to the config that knows the block."""
    assert "num_speculative_tokens must be provided" in _error(_planned(_deepseek(), "-tp", "8", method="dspark"))


def test_mtp_without_layers_divides_by_nothing() -> None:
    target = model(
        "DeepseekV3ForCausalLM",
        "deepseek_v3",
        num_hidden_layers=4,
        num_attention_heads=128,
        num_key_value_heads=128,
        hidden_size=7168,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
        max_position_embeddings=65536,
        num_nextn_predict_layers=0,
    )
    found = _planned(target, "-tp", "8", method="mtp", num_speculative_tokens=1)
    assert found.error is not None
    assert found.error.type == "ZeroDivisionError"


def _llama4_head(**fields: Any) -> Checkpoint:
    base = {
        "num_hidden_layers": 2,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "hidden_size": 5120,
        "no_rope_layers": [1, 0],
        "moe_layers": [],
        "attention_chunk_size": 8192,
        "yoco_global_kv_layer": None,
        "yoco_local_kv_layer": None,
        "max_position_embeddings": 131072,
    }
    return model("Llama4ForCausalLM", "llama4_text", **{**base, **fields})


def test_llama4_eagle_heads_chunk_and_switch_the_hybrid_manager_off() -> None:
    target = model(
        "Llama4ForCausalLM",
        "llama4_text",
        num_hidden_layers=4,
        num_attention_heads=40,
        num_key_value_heads=8,
        head_dim=128,
        hidden_size=5120,
        no_rope_layers=[1, 1, 1, 0],
        attention_chunk_size=8192,
        max_position_embeddings=131072,
    )
    eagle: dict[str, Any] = {"method": "eagle", "num_speculative_tokens": 3, "model": "eagle-head"}
    found = _planned(target, "-tp", "8", draft=_llama4_head(), **eagle)
    page = 16 * 2 * 128 * 2
    assert _drafted(found) == {
        "model.layers.4.self_attn.attn": ("ChunkedLocalAttentionSpec", page),
        "model.layers.5.self_attn.attn": ("FullAttentionSpec", page),
    }
    assert found.settings is not None
    assert found.settings.hybrid_manager_disabled
    assert len(found.groups) == 1
    refused = _planned(target, "-tp", "8", draft=_llama4_head(moe_layers=[1]), **eagle)
    assert refused.error is not None
    assert refused.error.type == "AssertionError"
    forced = _planned(target, "-tp", "8", "--no-disable-hybrid-kv-cache-manager", draft=_llama4_head(), **eagle)
    assert "explicitly enabled but is not supported" in _error(forced)


_BASE = {
    "num_hidden_layers": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 4096,
    "max_position_embeddings": 131072,
}


def _llama(**fields: Any) -> Checkpoint:
    return model("LlamaForCausalLM", "llama", **{**_BASE, **fields})


def _extracting(*layers: int, tokens: int = 1) -> dict[str, Any]:
    return {
        "method": "extract_hidden_states",
        "num_speculative_tokens": tokens,
        "draft_model_config": {"hf_config": {"eagle_aux_hidden_state_layer_ids": list(layers)}},
    }


@pytest.mark.parametrize(("release", "spec"), [("0.21.0", "MLAAttentionSpec"), ("0.22.1", "HiddenStateCacheSpec")])
def test_hidden_states_are_a_row_a_token(release: str, spec: str) -> None:
    """Three states of 4,096 bfloat16 elements, 16 tokens, whole on each of 8 ranks and whatever the cache dtype."""
    found = _planned(_llama(), "-tp", "8", "--kv-cache-dtype", "fp8", release=release, **_extracting(0, 1, 2))
    assert found.ok
    assert _drafted(found) == {"cache_only_layers.4": (spec, 16 * 3 * 4096 * 2)}
    assert len(found.groups) == 1


def test_hidden_states_beside_groups_take_their_page() -> None:
    """Pages of 16 * 2 * 128 * 2 = 8,192 bytes on 8 ranks grow threefold for 24,576 bytes of states a token: blocks of
    48 tokens, and one token of states. Before, a page held no token at all, and was taken for one that holds one."""
    windows = {"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 512}
    target = model("GptOssForCausalLM", "gpt_oss", **{**_BASE, **windows})
    grown = _planned(target, "-tp", "8", **_extracting(0, 1, 2))
    assert grown.ok
    assert {layer.page_bytes for layer in grown.layers} == {24_576}
    assert [group.block_size for group in grown.groups] == [48, 48, 1]
    small = _planned(target, "-tp", "8", release="0.29.0", **_extracting(0, 1, 2))
    assert small.error is not None
    assert small.error.type == "AssertionError"


def test_hidden_states_refusals() -> None:
    two = _planned(_llama(), release="0.28.0", **_extracting(0, tokens=2))
    assert "must be 1" in _error(two)
    assert "Pipeline parallelism is not supported" in _error(_planned(_llama(), "-pp", "2", **_extracting(0)))
    none = _planned(_llama(), method="extract_hidden_states", num_speculative_tokens=1)
    assert none.error is not None
    assert none.error.type == "ZeroDivisionError"
    phi = model("PhiMoEForCausalLM", "phimoe", **_BASE)
    assert "does not support EAGLE3 interface" in _error(_planned(phi, **_extracting(0)))


@pytest.mark.parametrize(
    ("release", "flags", "refused"),
    [
        ("0.29.0", (), "only supported with DSpark"),
        ("0.30.0", (), None),
        ("0.33.0", ("--enforce-eager",), "requires full CUDA graphs"),
        ("0.33.0", ("--enable-lora",), "not currently compatible with LoRA"),
        ("0.33.0", ("-pp", "2"), "not currently compatible with pipeline parallelism"),
        ("0.33.0", ("--attention-backend", "FLASHINFER"), "device-cpu query lens mismatch"),
    ],
)
def test_adaptive_verification(release: str, flags: tuple[str, ...], refused: str | None) -> None:
    head = model("LlamaForCausalLMEagle3", "llama", **{**_BASE, "num_hidden_layers": 1})
    asked: dict[str, Any] = {
        "method": "eagle3",
        "model": "head",
        "num_speculative_tokens": 3,
        "enable_adaptive_verification": True,
    }
    found = _planned(_llama(), *flags, release=release, draft=head, **asked)
    assert found.ok if refused is None else refused in _error(found)
