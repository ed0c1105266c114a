"""Chunked, cross, sink and R-SWA caches, encoders without a cache, and context parallelism: worked numbers."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.checkpoint.values import Checkpoint, Source
from kvplan.engine.failures import ContextParallelRefused
from kvplan.engine.parallelism import context as context_parallel
from kvplan.engine.specs.base import FullAttentionSpec, RequestLimits, SlidingWindowSpec, can_merge, recast, same_type
from kvplan.engine.specs.partial import ChunkedLocalAttentionSpec, CrossAttentionSpec, RSWASpec
from kvplan.engine.stop import StartupStops
from kvplan.engine.values import Plan
from kvplan.releases import resolve
from tests import asking

PAGE = 16 * 8 * (128 + 128) * 2
"""16 tokens of 8 KV heads of 128 in bfloat16: 65,536 bytes."""
GIB = 1 << 30


def checkpoint(**config: Any) -> Checkpoint:
    """A checkpoint with nothing but a config."""
    return Checkpoint(
        reference="test",
        name="test",
        source=Source.DIRECTORY,
        path="test/config.json",
        config_sha256="",
        config=config,
        text_config=config,
        architectures=tuple(config["architectures"]),
        model_type=config["model_type"],
    )


def planned(model: Checkpoint, *flags: str, release: str = "0.33.0", environment: tuple[str, ...] = ()) -> Plan:
    """The plan of `vllm serve model FLAGS` on an H200 with 20 GiB for the cache."""
    named = dict(word.split("=", 1) for word in environment)
    return asking.planned_with(model, flags, release=release, memory=20 * GIB, environment=named)


def llama4(layers: int = 8, **fields: Any) -> Checkpoint:
    """A small Llama 4: 8 KV heads of 128, chunks of 8,192 tokens."""
    return checkpoint(
        **{
            "architectures": ["Llama4ForCausalLM"],
            "model_type": "llama4_text",
            "dtype": "bfloat16",
            "num_hidden_layers": layers,
            "num_attention_heads": 40,
            "num_key_value_heads": 8,
            "hidden_size": 5120,
            "head_dim": 128,
            "max_position_embeddings": 131072,
            "attention_chunk_size": 8192,
            **fields,
        }
    )


def full(**fields: Any) -> FullAttentionSpec:
    """The plain spec that a layer of 8 KV heads of 128 in bfloat16 has."""
    base: dict[str, Any] = {
        "block_size": 16,
        "num_kv_heads": 8,
        "head_size": 128,
        "head_size_v": 128,
        "dtype": "bfloat16",
        "quant_mode": "NONE",
        "token_bytes": 4096,
    }
    return FullAttentionSpec(**{**base, **fields})


def test_a_chunk_and_the_tokens_in_flight_bound_a_request() -> None:
    spec = recast(full(), ChunkedLocalAttentionSpec, chunk_size=8192)
    assert spec.page_bytes == PAGE
    # 8,192 + 16,384 = 24,576 tokens: 1,536 blocks; a short request needs what it has.
    assert spec.request_blocks(RequestLimits(131072, 16384)) == 1536
    assert spec.request_blocks(RequestLimits(1000, 16384)) == 63
    assert not same_type([spec, full()])
    assert same_type([spec, spec])
    assert not same_type([spec, recast(full(), ChunkedLocalAttentionSpec, chunk_size=4096)])


def test_cross_attention_needs_the_encoder_tokens_whatever_the_text() -> None:
    spec = recast(full(), CrossAttentionSpec)
    assert spec.request_blocks(RequestLimits(448, 16384, encoder_tokens=8192)) == 512
    assert same_type([spec, recast(full(head_size=64), CrossAttentionSpec)])


def test_rswa_counts_as_full_attention() -> None:
    spec = recast(full(), RSWASpec, rswa_window=128)
    assert spec.request_blocks(RequestLimits(32768, 16384)) == 2048
    assert not can_merge([spec, full()])
    assert same_type([spec, full()])


def test_llama4_chunks_the_layers_with_rotary_positions() -> None:
    for listed in (None, [], [1, 1, 1, 0] * 2):
        layers = planned(llama4(no_rope_layers=listed)).layers
        assert [layer.index for layer in layers if layer.spec == "FullAttentionSpec"] == [3, 7]
        assert {layer.page_bytes for layer in layers} == {PAGE}
    whole = planned(llama4(attention_chunk_size=None)).layers
    assert {layer.spec for layer in whole} == {"FullAttentionSpec"}


def test_llama4_groups_of_two_layers() -> None:
    found = planned(llama4())
    # 6 chunked and 2 full layers: 3 + 1 groups of two. 20 GiB / (2 * 65,536) blocks; a request of 131,072 tokens needs
    # 3 * 1,536 + 8,192 blocks.
    assert [len(group.layers) for group in found.groups] == [2, 2, 2, 2]
    assert found.capacity is not None
    assert found.capacity.num_blocks == 20 * GIB // (2 * PAGE) == 163840
    assert found.capacity.max_concurrency == pytest.approx(163840 / (3 * 1536 + 8192))


def test_without_the_hybrid_manager_chunks_cost_as_much_as_full_attention() -> None:
    off = planned(llama4(), environment=("VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE=0",))
    flag = planned(llama4(), "--disable-hybrid-kv-cache-manager")
    for found in (off, flag):
        assert found.settings is not None
        assert found.settings.hybrid_manager_disabled
        assert [len(group.layers) for group in found.groups] == [8]
        assert found.capacity is not None
        assert found.capacity.num_blocks == 20 * GIB // (8 * PAGE)


def test_promoted_chunks_lost_their_quant_mode_before_0_28() -> None:
    flags = ("--disable-hybrid-kv-cache-manager", "--kv-cache-dtype", "fp8")
    for release, kind in (("0.23.0", "UniformTypeKVCacheSpecs"), ("0.29.0", "FullAttentionSpec")):
        assert planned(llama4(), *flags, release=release).groups[0].spec == kind


def whisper(**fields: Any) -> Checkpoint:
    """whisper-tiny: 4 decoder layers of 6 heads of 64."""
    return checkpoint(
        **{
            "architectures": ["WhisperForConditionalGeneration"],
            "model_type": "whisper",
            "dtype": "bfloat16",
            "is_encoder_decoder": True,
            "d_model": 384,
            "hidden_size": 384,
            "num_hidden_layers": 4,
            "num_attention_heads": 6,
            "decoder_layers": 4,
            "decoder_attention_heads": 6,
            "encoder_layers": 4,
            "max_target_positions": 448,
            **fields,
        }
    )


def test_whisper_caches_text_and_encoder_output() -> None:
    found = planned(whisper())
    assert [layer.name for layer in found.layers[:2]] == [
        ".decoder.layers.0.layers.self_attn.attn",
        ".decoder.layers.0.layers.encoder_attn.attn",
    ]
    # 16 tokens * 6 heads * (64 + 64) * 2 bytes.
    assert {layer.page_bytes for layer in found.layers} == {24576}
    assert [len(group.layers) for group in found.groups] == [4, 4]
    assert found.capacity is not None
    assert found.capacity.num_blocks == 20 * GIB // (4 * 24576)
    # 448 tokens of text are 28 blocks, 8,192 of encoder input 512.
    assert found.capacity.max_concurrency == pytest.approx(found.capacity.num_blocks / (28 + 512))
    assert found.settings is not None
    assert not found.settings.prefix_caching


def test_cross_attention_has_a_value_head_size_since_0_28() -> None:
    for release, value in (("0.27.1", None), ("0.28.0", 64)):
        crossing = planned(whisper(), release=release).layers[1]
        assert (crossing.spec, crossing.head_size, crossing.head_size_v) == ("CrossAttentionSpec", 64, value)


def bert(**fields: Any) -> Checkpoint:
    """A small BERT."""
    return checkpoint(
        **{
            "architectures": ["BertModel"],
            "model_type": "bert",
            "num_hidden_layers": 2,
            "num_attention_heads": 12,
            "hidden_size": 768,
            "max_position_embeddings": 512,
            **fields,
        }
    )


def test_an_encoder_keeps_no_cache_and_logs_none() -> None:
    found = planned(bert())
    assert found.ok
    assert not found.layers
    assert not found.groups
    assert found.capacity is not None
    assert (found.capacity.num_blocks, found.capacity.tokens, found.capacity.log_lines) == (1, None, ())
    assert found.settings is not None
    assert (found.settings.prefix_caching, found.settings.async_scheduling) == (False, False)


def test_a_prompt_that_is_not_prefilled_in_parts_must_fit_a_batch() -> None:
    found = planned(bert(max_position_embeddings=10000))
    assert found.settings is not None
    assert found.settings.max_num_batched_tokens == 10000


def decoder(**fields: Any) -> Checkpoint:
    """A small grouped-query decoder of 32 heads over 4 KV heads of 128."""
    return checkpoint(
        **{
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "dtype": "bfloat16",
            "num_hidden_layers": 4,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "hidden_size": 4096,
            "head_dim": 128,
            "max_position_embeddings": 32768,
            **fields,
        }
    )


def test_decoders_made_bidirectional_keep_nothing() -> None:
    assert planned(decoder()).layers
    assert not planned(decoder(is_causal=False)).layers


@pytest.mark.parametrize(
    ("architecture", "prefixes"),
    [("Qwen3ForSequenceClassification", True), ("Qwen2ForProcessRewardModel", False)],
)
def test_pooling_decides_prefix_caching(architecture: str, prefixes: bool) -> None:
    found = planned(decoder(architectures=[architecture]))
    assert found.settings is not None
    assert (found.settings.prefix_caching, found.settings.async_scheduling) == (prefixes, False)


def test_dcp_divides_the_need_of_a_request_not_the_pool() -> None:
    alone, shared = planned(decoder(), "-tp", "8"), planned(decoder(), "-tp", "8", "-dcp", "2")
    assert alone.capacity is not None
    assert shared.capacity is not None
    # One KV head a rank: 16 * 1 * 256 * 2 = 8,192 bytes a page, four layers.
    assert alone.capacity.num_blocks == shared.capacity.num_blocks == 20 * GIB // (4 * 8192)
    assert (alone.capacity.needed_bytes, shared.capacity.needed_bytes) == (2048 * 4 * 8192, 1024 * 4 * 8192)
    assert shared.capacity.max_concurrency == pytest.approx(2 * (alone.capacity.max_concurrency or 0))


def test_tokens_were_multiplied_by_the_ranks_through_0_19() -> None:
    for release in ("0.19.1", "0.20.2"):
        alone = planned(decoder(), "-tp", "8", release=release)
        shared = planned(decoder(), "-tp", "8", "-dcp", "2", release=release)
        assert alone.capacity is not None
        assert shared.capacity is not None
        assert shared.capacity.tokens == 2 * (alone.capacity.tokens or 0)


@pytest.mark.parametrize(
    ("release", "said"),
    [("0.26.0", "tensor parallel size 4"), ("0.27.1", "Decode context"), ("0.33.0", "Decode context")],
)
def test_dcp_must_find_replicated_heads(release: str, said: str) -> None:
    none = planned(decoder(), "-tp", "4", "-dcp", "2", release=release)
    many = planned(decoder(), "-tp", "8", "-dcp", "8", release=release)
    odd = planned(decoder(num_attention_heads=24, num_key_value_heads=2), "-tp", "8", "-dcp", "4", release=release)
    for found, largest in ((none, 1), (many, 2)):
        ((error, refused),) = found.failures(ContextParallelRefused)
        assert (error.type, refused.max_dcp) == ("ValidationError", largest)
    assert none.error is not None
    assert none.error.message.startswith(said)
    assert odd.ok
    uneven = planned(decoder(num_key_value_heads=2, num_attention_heads=40), "-tp", "8", "-dcp", "8", release=release)
    assert uneven.error is not None
    assert uneven.error.code == "context_parallel"


@pytest.mark.parametrize("release", ["0.16.0", "0.33.0"])
def test_dcp_divides_no_sliding_window(release: str) -> None:
    model = decoder(architectures=["MistralForCausalLM"], model_type="mistral", sliding_window=4096)
    found = planned(model, "-tp", "8", "-dcp", "2", release=release)
    assert found.error is not None
    assert (found.error.code, found.error.type) == ("dcp_sliding_window", "AssertionError")


def test_interleave_must_divide_the_block() -> None:
    fine = planned(decoder(), "-tp", "8", "-dcp", "2", "--cp-kv-cache-interleave-size", "8")
    bad = planned(decoder(), "-tp", "8", "-dcp", "2", "--cp-kv-cache-interleave-size", "24")
    assert fine.ok
    assert bad.error is not None
    assert bad.error.type == "AssertionError"
    assert "24" in bad.error.message


@pytest.mark.parametrize(
    ("release", "flags", "message"),
    [
        ("0.16.0", ("-tp", "8", "-dcp", "3"), "tp_size=8 must be divisible bydcp_size=3."),
        ("0.33.0", ("-tp", "8", "-dcp", "3"), "tp_size=8 must be divisible by dcp_size=3."),
        ("0.33.0", ("-tp", "4", "-pcp", "2", "-dcp", "4"), "valid DCP sizes are [1, 2, 8]"),
        ("0.28.0", ("-pcp", "2", "-dp", "2"), "PCP does not support data parallelism yet."),
        ("0.30.0", ("-pcp", "2", "-dp", "2"), "PCP does not support data parallelism on CUDA yet."),
        ("0.25.1", ("--dcp-comm-backend", "a2a"), "requires decode_context_parallel_size > 1"),
    ],
)
def test_ranks_that_cannot_be_arranged(release: str, flags: tuple[str, ...], message: str) -> None:
    found = planned(decoder(), *flags, release=release)
    assert found.error is not None
    assert message in found.error.message


def test_pcp_divided_the_cache_through_0_25() -> None:
    for release, shards in (("0.25.1", 6), ("0.26.0", 2)):
        assert context_parallel.shards(2, 3, resolve(release)) == shards


def test_sparse_flashmla_shares_decoding_over_packed_rows_only() -> None:
    for release, dtype, refused in (
        ("0.28.0", "auto", False),
        ("0.29.0", "auto", True),
        ("0.29.0", "fp8_ds_mla", False),
    ):
        check = (("FLASHMLA_SPARSE", dtype, 8, "model.layers.0.self_attn.attn"), resolve(release))
        if refused:
            with pytest.raises(StartupStops, match="requires an fp8_ds_mla"):
                context_parallel.check_layer(*check[0], check[1])
        else:
            context_parallel.check_layer(*check[0], check[1])


def test_a_window_is_asked_for_only_under_dcp() -> None:
    window = recast(full(), SlidingWindowSpec, sliding_window=4096)
    context_parallel.check_specs([window], 1)
    with pytest.raises(StartupStops, match="sliding window"):
        context_parallel.check_specs([full(), window], 2)


def test_data_and_expert_parallelism_change_no_page() -> None:
    model = decoder(num_local_experts=8)
    alone, spread = planned(model), planned(model, "-dp", "2", "--enable-expert-parallel")
    assert [layer.page_bytes for layer in alone.layers] == [layer.page_bytes for layer in spread.layers]
    assert alone.capacity == spread.capacity


def test_batched_experts_take_small_batches() -> None:
    flags = ("-dp", "2", "--enable-expert-parallel", "--all2all-backend", "deepep_low_latency")
    for release, tokens in (("0.19.1", 8192), ("0.20.2", 256)):
        settings = planned(decoder(), *flags, release=release).settings
        assert settings is not None
        assert settings.max_num_batched_tokens == tokens


def mimo() -> Checkpoint:
    """A small MiMo-V2: keys of 192, values of 128; every other layer slides with 8 KV heads instead of 4."""
    return decoder(
        architectures=["MiMoV2FlashForCausalLM"],
        model_type="mimo_v2_flash",
        head_dim=192,
        v_head_dim=128,
        swa_num_attention_heads=32,
        swa_num_key_value_heads=8,
        swa_head_dim=192,
        swa_v_head_dim=128,
        hybrid_layer_pattern=[0, 1, 0, 1],
        sliding_window_size=128,
    )


def test_values_narrower_than_keys() -> None:
    # 16 tokens * 1 head a rank * (192 + 128) * 2 bytes; through 0.19 values were widened to 192, and the specs of
    # sliding windows had no value head size.
    for release, value, backend, page in (
        ("0.18.1", None, "FLASH_ATTN", 12288),
        ("0.25.1", 128, "FLASH_ATTN_DIFFKV", 10240),
        ("0.33.0", 128, "FLASH_ATTN_DIFFKV", 10240),
    ):
        layers = [each for each in planned(mimo(), "-tp", "8", release=release).layers if each.sliding_window]
        assert {(layer.head_size_v, layer.backend, layer.page_bytes) for layer in layers} == {(value, backend, page)}


def test_sink_tokens_stand_before_full_attention() -> None:
    model = decoder(
        architectures=["PanguEmbeddedForCausalLM"],
        model_type="PanguEmbedded",
        param_sink_number=128,
        qk_nope_dim=128,
        qk_rope_dim=64,
        v_channels=128,
    )
    layer = planned(model).layers[0]
    assert (layer.spec, layer.backend) == ("SinkFullAttentionSpec", "FLASH_ATTN_DIFFKV")
    assert layer.page_bytes == 16 * 4 * (192 + 128) * 2


def test_loopcoder_keeps_a_window_for_its_second_pass() -> None:
    model = decoder(architectures=["IQuestLoopCoderForCausalLM"], model_type="iquestloopcoder", loop_num=2)
    layers = planned(model).layers
    assert [(layer.name, layer.index, layer.sliding_window) for layer in layers[:4]] == [
        ("model.layers.0.self_attn.attn", 0, None),
        ("model.layers.4.self_attn.attn", 0, 64),
        ("model.layers.1.self_attn.attn", 1, None),
        ("model.layers.5.self_attn.attn", 1, 64),
    ]


def test_ouro_keeps_a_cache_for_each_step() -> None:
    model = decoder(architectures=["OuroForCausalLM"], model_type="ouro", total_ut_steps=3)
    names = [layer.name for layer in planned(model, release="0.25.1").layers]
    assert len(names) == 12
    assert names[:3] == [f"model.layers.{i}.self_attn.attn" for i in (0, 4, 8)]


@pytest.mark.parametrize(("mode", "count"), [("per_loop", 6), ("last_loop", 2)])
def test_dory_recurs_over_the_layers_in_the_middle(mode: str, count: int) -> None:
    model = decoder(
        architectures=["DoryForCausalLM"],
        model_type="dory",
        layer_types=["full_attention", "mlp", "sliding_attention", "mlp"],
        sliding_window=1024,
        n_input_layers=0,
        n_recurrent_layers=4,
        n_recurrent_loops=3,
        recurrent_kv_cache_mode=mode,
    )
    layers = planned(model).layers
    assert len(layers) == count
    assert {layer.sliding_window for layer in layers if layer.index == 2} == {1024}


def test_a_prefix_lm_shares_no_prefixes() -> None:
    model = decoder(
        architectures=["HrmTextForCausalLM"], model_type="hrm_text", H_cycles=2, L_cycles=3, num_layers_per_stack=2
    )
    found = planned(model, "--enable-prefix-caching")
    # Two layers, six fast steps and two slow ones; 32 heads of their own.
    assert len(found.layers) == 2 * 6 + 2 * 2
    assert found.layers[0].page_bytes == 16 * 32 * 256 * 2
    assert found.settings is not None
    assert not found.settings.prefix_caching


def test_mimo_ignored_the_cache_dtype_through_0_31() -> None:
    for release, dtype in (("0.31.0", "auto"), ("0.32.0", "fp8")):
        found = planned(mimo(), "--kv-cache-dtype", "fp8", release=release)
        assert {layer.cache_dtype for layer in found.layers} == {dtype}


def test_backends_that_return_softmax_sums() -> None:
    for backend, release, returns in (
        ("FLASH_ATTN", "0.16.0", True),
        ("TRITON_ATTN", "0.29.0", False),
        ("FLASHMLA_SPARSE", "0.28.0", False),
        ("FLASHMLA_SPARSE", "0.29.0", True),
        ("FLASHINFER_MLA", "0.24.0", False),
    ):
        assert context_parallel.returns_softmax_sums(backend, resolve(release)) is returns
