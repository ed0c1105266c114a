"""What model code builds, family by family, on worked examples."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.checkpoint.values import Checkpoint, Source
from kvplan.engine.models import ModelGeometry, Refused, Unplaceable, build
from kvplan.engine.models.geometry import Kind, LayerGeometry, Role
from kvplan.errors import InputError
from kvplan.releases import resolve

NEWEST = "0.33.0"


def checkpoint(architecture: str, model_type: str, text: dict[str, Any] | None = None, **fields: Any) -> Checkpoint:
    """A checkpoint of the fields given; with `text`, a multimodal one around that language model."""
    config = {"architectures": [architecture], "model_type": model_type, **fields}
    if text is not None:
        config["text_config"] = text
    return Checkpoint(
        reference="model",
        name="model",
        source=Source.DIRECTORY,
        path="model/config.json",
        config_sha256="",
        config=config,
        text_config=config if text is None else text,
        architectures=(architecture,),
        model_type=model_type,
    )


def decoder(architecture: str, model_type: str, layers: int = 4, **fields: Any) -> Checkpoint:
    """A small grouped-query decoder: 32 heads of 128 over 8 KV heads."""
    base = {
        "num_hidden_layers": layers,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "hidden_size": 4096,
    }
    return checkpoint(architecture, model_type, **{**base, **fields})


def built(model: Checkpoint, release: str = NEWEST, **options: Any) -> ModelGeometry:
    return build(model, resolve(release), **options)


def names(found: ModelGeometry) -> list[str]:
    return [layer.name for layer in found.layers]


def windows(found: ModelGeometry) -> list[int | None]:
    return [layer.sliding_window for layer in found.layers]


def by_name(found: ModelGeometry) -> dict[str, LayerGeometry]:
    return {layer.name: layer for layer in found.layers}


def test_llama() -> None:
    found = built(decoder("LlamaForCausalLM", "llama"))
    assert names(found) == [f"model.layers.{i}.self_attn.attn" for i in range(4)]
    assert {(layer.total_heads, layer.total_kv_heads, layer.head_size) for layer in found.layers} == {(32, 8, 128)}
    assert (found.num_layers, found.total_heads, found.total_kv_heads, found.head_size) == (4, 32, 8, 128)
    assert found.supports_pipeline
    assert not found.is_moe
    assert found.family == "general"


@pytest.mark.parametrize(
    ("architecture", "release", "expected"),
    [
        ("GPT2LMHeadModel", NEWEST, "transformer.h.3.attn.attn"),
        ("BloomForCausalLM", NEWEST, "transformer.h.3.self_attention.attn"),
        ("FalconForCausalLM", NEWEST, "transformer.h.3.self_attention.attn"),
        ("ChatGLMModel", NEWEST, "transformer.encoder.layers.3.self_attention.attn"),
        ("OPTForCausalLM", NEWEST, "model.decoder.layers.3.self_attn.attn"),
        ("GptOssForCausalLM", NEWEST, "model.layers.3.attn.attn"),
        ("InternLM2ForCausalLM", NEWEST, "model.layers.3.attention.attn"),
        ("ExaoneForCausalLM", NEWEST, "model.h.3.attn.attention.attn"),
        ("MptForCausalLM", "0.25.1", "transformer.blocks.3.attn.attn"),
        ("GPTNeoXForCausalLM", "0.29.0", "gpt_neox.layers.3.attention.attn"),
        ("GPTNeoXForCausalLM", NEWEST, "model.layers.3.attention.attn"),
        ("GPTBigCodeForCausalLM", "0.24.0", "transformer.h.3.attn.attn"),
        ("GPTBigCodeForCausalLM", "0.25.1", "3.attn"),
        ("GPTBigCodeForCausalLM", "0.32.0", "model.h.3.attn.attn"),
        ("Olmo2ForCausalLM", "0.25.1", "model.layers.3.self_attn.attn"),
        ("Olmo2ForCausalLM", "0.29.0", "3.attn"),
        ("Olmo2ForCausalLM", NEWEST, "model.layers.3.self_attn.attn"),
        ("ArceeForCausalLM", "0.21.0", ".model.layers.3.self_attn.attn"),
        ("ArceeForCausalLM", "0.22.1", "model.layers.3.self_attn.attn"),
        ("SmolLM3ForCausalLM", "0.25.1", "3.attn"),
    ],
)
def test_names_follow_the_class_of_the_release(architecture: str, release: str, expected: str) -> None:
    assert names(built(decoder(architecture, "llama"), release))[3] == expected


def test_falcon_multi_query_has_one_kv_head() -> None:
    old = decoder("FalconForCausalLM", "falcon", num_key_value_heads=None, multi_query=True)
    assert built(old).layers[0].total_kv_heads == 1
    new = decoder("FalconForCausalLM", "falcon", num_kv_heads=8, multi_query=True, new_decoder_architecture=True)
    assert built(new).layers[0].total_kv_heads == 8


def test_gpt_oss_slides_on_even_layers_and_has_sinks() -> None:
    model = decoder("GptOssForCausalLM", "gpt_oss", sliding_window=128, layer_types=["full_attention"] * 4)
    found = built(model)
    assert windows(found) == [128, None, 128, None]
    assert all(layer.has_sinks for layer in found.layers)


def test_gemma3_multimodal_windows_and_prefix() -> None:
    kinds = ["sliding_attention"] * 3 + ["full_attention"]
    text = {
        "model_type": "gemma3_text",
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 1024,
        "layer_types": kinds,
    }
    found = built(checkpoint("Gemma3ForConditionalGeneration", "gemma3", text))
    assert names(found)[0] == "language_model.model.layers.0.self_attn.attn"
    assert windows(found) == [1024, 1024, 1024, None]
    assert found.model_sliding_window is None
    assert found.uses_mm_prefix


@pytest.mark.parametrize(("release", "window"), [("0.28.0", 4096), ("0.29.0", 4097)])
def test_cohere2_window_is_one_more_from_0_29(release: str, window: int) -> None:
    kinds = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]
    model = decoder("Cohere2ForCausalLM", "cohere2", sliding_window=4096, layer_types=kinds)
    assert windows(built(model, release)) == [window] * 3 + [None]


def test_granite_reads_layer_types_from_0_29() -> None:
    kinds = ["sliding_attention", "full_attention"] * 2
    model = decoder("GraniteForCausalLM", "granite", sliding_window=512, layer_types=kinds)
    assert windows(built(model, "0.28.0")) == [None] * 4
    found = built(model, "0.29.0")
    assert windows(found) == [512, None, 512, None]
    assert all(layer.has_sinks for layer in found.layers)


GEMMA4 = {
    "model_type": "gemma4_text",
    "num_hidden_layers": 6,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 256,
    "sliding_window": 1024,
    "num_kv_shared_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
}


@pytest.mark.parametrize(
    "shapes",
    [
        {"global_head_dim": 512, "attention_k_eq_v": True, "num_global_key_value_heads": 2},
        {"per_layer_config": {str(i): {"head_dim": 512, "num_key_value_heads": 2} for i in (1, 3, 5)}},
    ],
)
def test_gemma4_two_shapes_and_sharing(shapes: dict[str, Any]) -> None:
    found = built(checkpoint("Gemma4ForConditionalGeneration", "gemma4", {**GEMMA4, **shapes}))
    at = "language_model.model.layers.{}.self_attn.attn"
    layers = by_name(found)
    assert (layers[at.format(0)].total_kv_heads, layers[at.format(0)].head_size) == (8, 256)
    assert (layers[at.format(1)].total_kv_heads, layers[at.format(1)].head_size) == (2, 512)
    assert layers[at.format(4)].shares_cache_of == at.format(2)
    assert layers[at.format(5)].shares_cache_of == at.format(3)
    assert [layer.shares_cache_of for layer in found.layers[:4]] == [None] * 4
    assert (found.total_kv_heads, found.head_size) == (8, 512)


def test_gemma3n_shares_with_the_last_owner_of_its_kind() -> None:
    kinds = ["sliding_attention"] * 4 + ["full_attention"]
    model = decoder(
        "Gemma3nForCausalLM",
        "gemma3n_text",
        layers=10,
        head_dim=256,
        sliding_window=512,
        layer_types=kinds * 2,
        num_kv_shared_layers=5,
    )
    shared = [layer.shares_cache_of for layer in built(model).layers]
    assert shared[:5] == [None] * 5
    assert shared[5] == "model.layers.3.self_attn.attn"
    assert shared[9] == "model.layers.4.self_attn.attn"


DEEPSEEK = {
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "num_key_value_heads": 128,
    "num_attention_heads": 128,
    "n_routed_experts": 256,
}


def test_dense_latent_rows() -> None:
    found = built(decoder("DeepseekV3ForCausalLM", "deepseek_v3", **DEEPSEEK))
    layer = found.layers[0]
    assert (layer.kind, layer.head_size, layer.total_kv_heads, layer.layer_class) == (Kind.MLA, 576, 1, "MLAAttention")
    assert layer.latent is not None
    assert not layer.latent.sparse
    assert (found.use_mla, found.head_size, found.total_kv_heads, found.is_moe) == (True, 576, 128, True)


def test_latent_rows_switched_off_become_heads_of_full_width() -> None:
    found = built(decoder("DeepseekV3ForCausalLM", "deepseek_v3", **DEEPSEEK), mla_disabled=True)
    layer = found.layers[0]
    assert not found.use_mla
    assert (layer.kind, layer.total_kv_heads, layer.head_size) == (Kind.ATTENTION, 128, 192)


@pytest.mark.parametrize(
    ("release", "indexers", "layer_class"),
    [("0.23.0", range(10), "MLAAttention"), ("0.24.0", (0, 1, 5, 9), "MLAAttention"), ("0.29.0", (0, 1, 5, 9), None)],
)
def test_sparse_latent_indexers(release: str, indexers: Any, layer_class: str | None) -> None:
    fields = {"index_topk": 2048, "index_head_dim": 128, "index_topk_freq": 4}
    model = decoder("GlmMoeDsaForCausalLM", "glm_moe_dsa", layers=10, **DEEPSEEK, **fields)
    found = built(model, release)
    caches = [layer for layer in found.layers if layer.role is Role.INDEXER]
    assert [layer.index for layer in caches] == list(indexers)
    assert {layer.head_size for layer in caches} == {132}
    assert names(found)[:2] == ["model.layers.0.self_attn.indexer.k_cache", "model.layers.0.self_attn.attn"]
    assert found.layers[1].layer_class == (layer_class or "DeepseekV32Attention")
    assert found.layers[1].latent is not None
    assert found.layers[1].latent.index_topk == 2048


def test_index_pattern_comes_before_frequency() -> None:
    fields = {"index_topk": 2048, "index_head_dim": 128, "index_topk_pattern": "FSSF", "index_topk_freq": 1}
    model = decoder("DeepseekV32ForCausalLM", "deepseek_v32", layers=6, **DEEPSEEK, **fields)
    caches = [layer.index for layer in built(model).layers if layer.role is Role.INDEXER]
    assert caches == [0, 3, 4, 5]


@pytest.mark.parametrize(("release", "expected"), [("0.31.0", []), ("0.32.0", [0, 2])])
def test_hy_v4_word_for_sparse_layers(release: str, expected: list[int]) -> None:
    model = decoder(
        "HYV4ForCausalLM",
        "hy_v4",
        index_topk=2048,
        index_head_dim=128,
        layer_types=["indexed_attention"] * 4,
        indexer_types=["full", "shared", "full", "shared"],
        **DEEPSEEK,
    )
    assert [layer.index for layer in built(model, release).layers if layer.kind is Kind.INDEXER] == expected


def test_kimi_k25_wraps_deepseek() -> None:
    text = {"model_type": "kimi_k2", "num_hidden_layers": 2, "hidden_size": 7168, **DEEPSEEK}
    found = built(checkpoint("KimiK25ForConditionalGeneration", "kimi_k25", text))
    assert names(found)[0] == "language_model.model.layers.0.self_attn.attn"
    assert found.layers[0].kind is Kind.MLA


def test_longcat_has_two_rows_a_layer() -> None:
    counts = {"num_layers": 2, "num_hidden_layers": 4}
    model = decoder("LongcatFlashForCausalLM", "longcat_flash", zero_expert_type="identity", **counts, **DEEPSEEK)
    assert names(built(model)) == [f"model.layers.{i}.self_attn.{j}.attn" for i in (0, 1) for j in (0, 1)]


def test_longcat_asks_for_a_kind_of_zero_expert() -> None:
    model = decoder("LongcatFlashForCausalLM", "longcat_flash", num_layers=2, num_hidden_layers=4, **DEEPSEEK)
    asserts = [layer.then_asserts for layer in built(model).layers]
    assert asserts == [None, "the config has a zero_expert_type"] * 2


def test_minicpm3_caches_heads_of_full_width() -> None:
    fields = {"kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "num_key_value_heads": 32}
    layer = built(decoder("MiniCPM3ForCausalLM", "minicpm3", **fields)).layers[0]
    assert (layer.kind, layer.total_kv_heads, layer.head_size) == (Kind.ATTENTION, 32, 96)


def test_minimax_m3_indexer_precedes_its_attention() -> None:
    text = {
        "architectures": ["MiniMaxM3SparseForCausalLM"],
        "model_type": "minimax_m3",
        "num_hidden_layers": 2,
        "num_attention_heads": 64,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "sparse_attention_config": {"sparse_attention_freq": [0, 1], "sparse_index_dim": 128},
    }
    found = built(checkpoint("MiniMaxM3SparseForConditionalGeneration", "minimax_m3_vl", text))
    at = "language_model.model.layers.{}.self_attn.attn"
    assert names(found) == [at.format(0), at.format(1) + ".index_cache", at.format(1)]
    assert found.layers[1].kind is Kind.INDEXER
    assert found.layers[2].layer_class == "MiniMaxM3SparseAttention"


def test_mimo_v2_layers_of_two_kinds() -> None:
    model = decoder(
        "MiMoV2FlashForCausalLM",
        "mimo_v2_flash",
        layers=2,
        num_key_value_heads=4,
        head_dim=192,
        v_head_dim=128,
        swa_num_attention_heads=64,
        swa_num_key_value_heads=8,
        swa_head_dim=192,
        swa_v_head_dim=128,
        sliding_window=128,
        sliding_window_size=128,
        hybrid_layer_pattern=[0, 1],
    )
    found = built(model)
    assert [(x.total_kv_heads, x.head_size, x.head_size_v, x.sliding_window) for x in found.layers] == [
        (4, 192, 128, None),
        (8, 192, 128, 128),
    ]
    assert found.model_sliding_window is None
    assert all(layer.brings_value_backend and layer.reads_cache_config for layer in found.layers)
    earlier = built(model, "0.20.2")
    assert not any(layer.reads_cache_config for layer in earlier.layers)
    padded = built(model, "0.19.1")
    assert [(layer.head_size_v, layer.brings_value_backend) for layer in padded.layers] == [(None, False)] * 2


def test_nemotron_nas_skips_blocks_without_attention() -> None:
    blocks = [
        {"attention": {"no_op": False, "n_heads_in_group": 8}},
        {"attention": {"no_op": True, "n_heads_in_group": None}},
        {"attention": {"no_op": False, "n_heads_in_group": 4}},
    ]
    found = built(decoder("DeciLMForCausalLM", "nemotron-nas", layers=3, block_configs=blocks))
    assert [(layer.index, layer.total_kv_heads) for layer in found.layers] == [(0, 4), (2, 8)]
    assert found.total_kv_heads == 4


def test_granite_hybrid_of_attention_only() -> None:
    mixer = {
        "mamba_expand": 2,
        "mamba_n_groups": 1,
        "mamba_n_heads": 128,
        "mamba_d_head": 64,
        "mamba_d_state": 256,
        "mamba_d_conv": 4,
    }
    model = decoder("GraniteMoeHybridForCausalLM", "granitemoehybrid", layer_types=["full_attention"] * 4, **mixer)
    assert len(built(model).layers) == 4
    assert not built(model).is_hybrid
    assert built(model, "0.28.0").is_hybrid


@pytest.mark.parametrize(
    ("architecture", "why"),
    [
        ("DeepSeekMTPModel", "draft"),
    ],
)
def test_other_kinds_fail_closed(architecture: str, why: str) -> None:
    with pytest.raises(Unplaceable, match=why):
        built(decoder(architecture, "any"))


def test_encoders_keep_nothing() -> None:
    found = built(decoder("BertModel", "bert"))
    assert found.layers == ()
    assert found.runner_type == "pooling"


def test_transformers_backend_window_and_mla() -> None:
    kinds = ["sliding_attention", "full_attention"] * 2
    model = decoder("DiffLlamaForCausalLM", "diffllama", sliding_window=64, layer_types=kinds)
    assert windows(built(model, "0.25.1")) == [64, None, 64, None]
    model = decoder("Olmo2ForCausalLM", "olmo2", **DEEPSEEK)
    assert built(model, "0.27.1").layers[0].kind is Kind.ATTENTION
    assert built(model, "0.28.0").layers[0].kind is Kind.MLA


def test_transformers_backend_refuses_layers_without_the_interface() -> None:

    model = decoder("RecurrentGemmaForCausalLM", "recurrent_gemma")
    assert names(built(model, "0.31.0"))[0] == "0.attn"
    with pytest.raises(Refused, match="does not dispatch") as refusal:
        built(model, "0.32.0")
    assert refusal.value.stage == "layers"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"num_hidden_layers": "many"}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"num_key_value_heads": -1}, "num_key_value_heads"),
        ({"layer_types": "sliding_attention"}, "layer_types"),
        ({"layer_types": ["sliding_attention"], "sliding_window": 5}, "layer_types"),
    ],
)
def test_unusable_fields_are_named(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=f"^model/config.json: the field '{text}'"):
        built(decoder("LlamaForCausalLM", "llama", **fields))
