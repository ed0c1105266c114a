"""Which class an architecture name means to a release, and the model-level numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.checkpoint.values import Checkpoint, Source
from kvplan.engine.models import ModelGeometry, Refused, Unplaceable, build, registered
from kvplan.engine.models.resolve import resolve as resolve_class
from kvplan.engine.models.unplaceable import REASONS
from kvplan.errors import InputError
from kvplan.releases import KNOWN, resolve

NEWEST = resolve("0.33.0")


def model(*architectures: str, **fields: Any) -> Checkpoint:
    config = {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "hidden_size": 2048,
        "architectures": list(architectures),
        **fields,
    }
    return Checkpoint(
        reference="m",
        name="m",
        source=Source.FILE,
        path="config.json",
        config_sha256="",
        config=config,
        text_config=config,
        architectures=architectures,
        model_type=config["model_type"],
    )


def made(*architectures: str, release: str = "0.33.0", **fields: Any) -> ModelGeometry:
    return build(model(*architectures, **fields), resolve(release))


def test_registered_counts() -> None:
    counts = {release: len(registered.architectures(resolve(release))) for release in ("0.16.0", "0.25.1", "0.33.0")}
    assert counts == {"0.16.0": 284, "0.25.1": 356, "0.33.0": 415}


def test_every_entry_is_well_formed() -> None:
    for release in map(resolve, KNOWN):
        for name in registered.architectures(release):
            entry = registered.lookup(name, release)
            assert entry is not None
            assert set(entry.interfaces) <= set("gpmPhfnext")
            assert entry.kind in {*REASONS, "chunked", "cross", "decoder", "encoder", "loop", "prefix"}


def test_first_registered_name_wins() -> None:
    found = made("NoSuchForCausalLM", "LlamaForCausalLM")
    assert found.architecture == "LlamaForCausalLM"


@pytest.mark.parametrize(
    ("name", "base", "runner"),
    [
        ("Qwen3ForSequenceClassification", "Qwen3ForCausalLM", "pooling"),
        ("Qwen3Model", "Qwen3ForCausalLM", "pooling"),
        ("Qwen2Model", "Qwen2ForCausalLM", "generate"),
        ("LlamaModel", "LlamaForCausalLM", "generate"),
        ("GemmaForSequenceClassification", "GemmaForCausalLM", "pooling"),
        ("Qwen3ForCausalLM", "Qwen3ForCausalLM", "generate"),
    ],
)
def test_conversions(name: str, base: str, runner: str) -> None:
    found = resolve_class([name], NEWEST)
    assert (found.architecture, found.entry.class_name, found.runner_type) == (name, base, runner)


def test_runner_option_comes_before_the_name() -> None:
    assert resolve_class(["Qwen3ForCausalLM"], NEWEST, runner="pooling").convert_type == "embed"


@pytest.mark.parametrize(
    ("moe", "nested", "expected"),
    [
        (False, False, "TransformersForCausalLM"),
        (True, False, "TransformersMoEForCausalLM"),
        (False, True, "TransformersMultiModalForCausalLM"),
        (True, True, "TransformersMultiModalMoEForCausalLM"),
    ],
)
def test_transformers_backend_classes(moe: bool, nested: bool, expected: str) -> None:
    assert resolve_class(["BitNetForCausalLM"], NEWEST, moe=moe, nested=nested).architecture == expected
    forced = resolve_class(["LlamaForCausalLM"], NEWEST, moe=moe, nested=nested, model_impl="transformers")
    assert forced.architecture == expected


def test_transformers_backend_takes_settable_classes_from_0_30() -> None:
    with pytest.raises(Refused):
        resolve_class(["XGLMForCausalLM", "T5ForNothing"], resolve("0.16.0"), model_impl="vllm")
    settable = next(
        name
        for name in ("GPTJForQuestionAnswering", "MusicgenForCausalLM", "GitForCausalLM")
        if (found := registered.transformers_class(name)) is not None and found.support == "settable"
    )
    with pytest.raises(Refused):
        resolve_class([settable], resolve("0.29.0"))
    assert resolve_class([settable], resolve("0.30.0")).entry.wraps_transformers


def test_unknown_names_are_refused_with_the_reason() -> None:
    with pytest.raises(Refused, match="are not supported for now") as refusal:
        made("NoSuchForCausalLM")
    assert (refusal.value.exception, refusal.value.stage) == ("ValidationError", "options")
    with pytest.raises(Refused, match=r"was supported in vLLM until v0\.23\.0"):
        made("QWenLMHeadModel")
    with pytest.raises(Refused, match=r"\['MedusaModel'\] are not supported for now"):
        made("MedusaModel")
    with pytest.raises(Refused, match=r"install the plugin at https://github\.com/Sohaib-Ahmed21/"):
        made("Nemotron3_5AsrForRNNT", release="0.32.0")
    with pytest.raises(Refused, match="are not supported for now"):
        made("Nemotron3_5AsrForRNNT", release="0.31.0")
    with pytest.raises(Refused, match="No model architectures are specified"):
        made()


def test_name_of_a_later_release_is_unknown_before() -> None:
    with pytest.raises(Refused):
        made("K2HorizonForCausalLM", release="0.29.0")
    assert made("K2HorizonForCausalLM").architecture == "K2HorizonForCausalLM"


def test_transformers_stands_in_before_a_class_is_registered() -> None:
    assert made("Cohere2MoeForCausalLM", release="0.20.2").architecture == "TransformersForCausalLM"
    assert made("Cohere2MoeForCausalLM", release="0.21.0").architecture == "Cohere2MoeForCausalLM"


@pytest.mark.parametrize(
    ("fields", "heads", "size"),
    [
        ({}, 4, 128),
        ({"head_dim": 64}, 4, 64),
        ({"num_key_value_heads": None}, 16, 128),
        ({"num_key_value_heads": None, "multi_query_group_num": 2}, 2, 128),
        ({"num_kv_heads": 1}, 1, 128),
        ({"hidden_size_per_head": 256}, 4, 256),
    ],
)
def test_model_level_heads(fields: dict[str, Any], heads: int, size: int) -> None:
    found = made("LlamaForCausalLM", **fields)
    assert (found.total_kv_heads, found.head_size) == (heads, size)


@pytest.mark.parametrize(
    ("fields", "moe"),
    [({}, False), ({"num_local_experts": 8}, True), ({"n_routed_experts": 0}, False), ({"num_experts": [8, 8]}, True)],
)
def test_is_moe(fields: dict[str, Any], moe: bool) -> None:
    assert made("LlamaForCausalLM", **fields).is_moe is moe


@pytest.mark.parametrize(
    ("types", "release", "window"),
    [
        (None, "0.16.0", 4096),
        (None, "0.33.0", 4096),
        (["full_attention"] * 2, "0.26.0", 4096),
        (["full_attention"] * 2, "0.27.1", None),
        (["sliding_attention"] * 2, "0.33.0", 4096),
        (["sliding_attention", "full_attention"], "0.26.0", None),
        (["sliding_attention", "full_attention"], "0.33.0", None),
    ],
)
def test_model_level_window(types: list[str] | None, release: str, window: int | None) -> None:
    found = made("LlamaForCausalLM", sliding_window=4096, layer_types=types, release=release)
    assert found.model_sliding_window == window


def test_window_of_zero() -> None:
    assert made("MistralForCausalLM", sliding_window=0).model_sliding_window is None
    assert made("MistralForCausalLM", sliding_window=0, release="0.18.1").model_sliding_window == 0


def test_qwen_refuses_to_slide_on_some_layers() -> None:
    types = ["full_attention", "sliding_attention"]
    with pytest.raises(Refused, match="some but all layers") as refusal:
        made("Qwen2ForCausalLM", layer_types=types, sliding_window=4096, max_window_layers=1)
    assert refusal.value.exception == "AssertionError"
    assert made("Qwen2ForCausalLM", layer_types=types, sliding_window=4096, max_window_layers=2).layers


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 70), st.text(max_size=3), st.lists(st.integers(0, 3), max_size=4)
)
FIELDS = st.sampled_from(
    [
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "hidden_size",
        "sliding_window",
        "layer_types",
        "kv_lora_rank",
        "qk_rope_head_dim",
        "qk_nope_head_dim",
        "index_topk",
        "index_head_dim",
        "index_topk_freq",
        "index_topk_pattern",
        "num_kv_shared_layers",
        "per_layer_config",
        "block_configs",
        "attn_config",
        "sparse_attention_config",
        "hybrid_layer_pattern",
        "num_experts",
        "max_window_layers",
        "cross_attention_layers",
    ]
)
NAMES = st.sampled_from(
    [
        "BitNetForCausalLM",
        "DbrxForCausalLM",
        "DeciLMForCausalLM",
        "DeepseekV3ForCausalLM",
        "Gemma3nForCausalLM",
        "Gemma4ForCausalLM",
        "GlmMoeDsaForCausalLM",
        "GptOssForCausalLM",
        "HYV4ForCausalLM",
        "LlamaForCausalLM",
        "MiMoV2FlashForCausalLM",
        "MiniMaxM3SparseForCausalLM",
        "Plamo3ForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen2VLForConditionalGeneration",
    ]
)


@given(
    name=NAMES,
    model_type=st.sampled_from(["llama", "gemma4", "deepseek_v3", "hy_v4", "dbrx", "nemotron-nas", "falcon"]),
    release=st.sampled_from(KNOWN),
    fields=st.dictionaries(FIELDS, VALUES, max_size=6),
)
def test_any_config_is_built_or_answered(name: str, model_type: str, release: str, fields: dict[str, Any]) -> None:
    try:
        found = build(model(name, **{"model_type": model_type, **fields}), resolve(release))
    except (InputError, Refused, Unplaceable):
        return
    assert len({layer.name for layer in found.layers}) == len(found.layers)
    assert all(layer.head_size > 0 and layer.total_kv_heads > 0 for layer in found.layers)
