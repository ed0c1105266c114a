"""Model types that transformers does not know, or that vLLM reads with a config class of its own.

Such checkpoints come with remote code, which kvplan never runs; what that code does to the config is small and is
written down here: defaults, second names of a field, where the language model's section is, and a few derived
fields. Facts from vLLM's `transformers_utils/configs/` and from the published `configuration_*.py` files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Config = dict[str, Any]

REDIRECTS: Mapping[str, str] = {
    "deepseek_v32": "deepseek_v3",
    "kimi_k2": "deepseek_v3",
    "mimo": "qwen2",
}
"""Model types that vLLM reads with the transformers class of another type, keeping their own name."""

ADDED_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "hy_v4": {"num_nextn_predict_layers": 1, "learnable_sink": True, "gated_mla": True},
}
"""Defaults that vLLM's own copy of a config class has and transformers' has not."""

UNSET_WHERE_SILENT: Mapping[str, tuple[str, ...]] = {"afmoe": ("layer_types",)}
"""Fields that transformers' class derives where the file is silent, and a config class of vLLM's own leaves unset."""

TEXT_SECTIONS = ("text_config", "llm_config", "language_config")
"""Names under which checkpoints nest the language model's config; vLLM reads each as `text_config`."""

ARCHITECTURE_TO_MODEL_TYPE: Mapping[str, str] = {
    "LongcatFlashForCausalLM": "longcat_flash",
    "LongcatFlashNgramForCausalLM": "longcat_flash",
    "MistralLarge3ForCausalLM": "deepseek_v3",
}
"""Model type of checkpoints whose config has none (`transformers_utils/config.py`; Mistral's own format)."""


def _nothing(config: Config) -> None:
    """A convention without derived fields."""


@dataclass(frozen=True, slots=True)
class Convention:
    """How one model type's config is read without its own code."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values of fields that the file leaves out."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Second name -> the field it stands for."""
    text_type: str | None = None
    """Model type whose reading applies to the language section, whatever type the section names itself."""
    text_required: bool = False
    """Whether a missing language section means one made of defaults only."""
    nullable: frozenset[str] = frozenset()
    """Fields of the language section that may be null although transformers' class of that type forbids it."""
    derive: Callable[[Config], None] = _nothing
    """Fills derived fields in place."""


def _chatglm(config: Config) -> None:
    if config.get("padded_vocab_size") is not None:
        config["vocab_size"] = config["padded_vocab_size"]
    # ChatGLM's own class sets this name too, so that long-context adapters find it.
    config["max_position_embeddings"] = config["seq_length"]


def _kimi_linear(config: Config) -> None:
    heads = config["num_attention_heads"]
    if config.get("head_dim") is None and _whole(heads) and _whole(config["hidden_size"]):
        config["head_dim"] = config["hidden_size"] // heads
    if config.get("num_key_value_heads") is None:
        config["num_key_value_heads"] = heads
    config["is_moe"] = config.get("num_experts") is not None
    linear = config.get("linear_attn_config")
    config["is_linear_attn"] = isinstance(linear, Mapping) and linear.get("kda_layers") != []
    latent = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    config["is_mla"] = any(config.get(name) is not None for name in latent) or config.get("mla_use_nope") is True


def _falcon(config: Config) -> None:
    if config.get("n_embed") is not None:
        config["hidden_size"] = config["n_embed"]
    if config["hidden_size"] == 8192:
        # The first falcon-40b files say nothing of their new decoder; its width gives it away.
        config["new_decoder_architecture"] = True
    if _whole(config["n_head"]) and _whole(config["hidden_size"]):
        config["head_dim"] = config["hidden_size"] // config["n_head"]


def _deepseek_v41(config: Config) -> None:
    """vLLM's model code reads the language and vision sections at the top level."""
    text = config.pop("text_config", None)
    if isinstance(text, Mapping):
        for name, value in text.items():
            if name not in ("model_type", "is_encoder_decoder", "torch_dtype", "dtype"):
                config[name] = value
    vision = config.get("vision_config")
    section = vision if isinstance(vision, Mapping) else {}
    config["vision_n_layers"] = section.get("num_hidden_layers", 0)


def _step5(config: Config) -> None:
    if config.get("max_position_embeddings") is None:
        config["max_position_embeddings"] = config["max_seq_len"]
    types, layers = config.get("layer_types"), config["num_hidden_layers"]
    if config.get("layer_types_with_mtp"):
        types = config["layer_types_with_mtp"]
    if isinstance(types, list) and types and _whole(layers):
        # The file lists the draft layers too; everybody else means the decoder's own.
        more = config.get("num_nextn_predict_layers")
        config["layer_types_with_mtp"] = types[: layers + more] if _whole(more) else types
        config["layer_types"] = types[:layers]


def _qwen(config: Config) -> None:
    if config.get("max_position_embeddings") is None and config.get("seq_length") is not None:
        config["max_position_embeddings"] = config["seq_length"]


def _no_window_unless_used(config: Config) -> None:
    """Configs built on Qwen2's: the window counts only with `use_sliding_window`."""
    if not config.get("use_sliding_window"):
        config["sliding_window"] = None


def _whole(value: object) -> bool:
    """Whether `value` is a whole number that can be divided by."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


_MINIMAX_M3_SPARSE = {
    "use_sparse_attention": True,
    "sparse_index_dim": 128,
    "sparse_num_index_heads": 4,
    "sparse_topk_blocks": 16,
    "sparse_block_size": 128,
    "sparse_disable_index_value": [0] * 3 + [1] * 57,
    "sparse_score_type": "max",
    "sparse_init_block": 0,
    "sparse_local_block": 1,
    "sparse_attention_freq": [0] * 3 + [1] * 57,
}
_MINIMAX_M3_TEXT = Convention(
    defaults={
        "vocab_size": 200064,
        "hidden_size": 6144,
        "intermediate_size": 3072,
        "num_hidden_layers": 60,
        "num_attention_heads": 64,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "max_position_embeddings": 524288,
        "rope_theta": 5000000,
        "rotary_dim": 64,
        "partial_rotary_factor": 0.5,
        "num_local_experts": 128,
        "num_experts_per_tok": 4,
        "n_shared_experts": 1,
        "num_mtp_modules": 1,
        "moe_layer_freq": [0] * 3 + [1] * 57,
        "sparse_attention_config": _MINIMAX_M3_SPARSE,
    }
)

_REFINED_WEB = Convention(
    defaults={
        "vocab_size": 250880,
        "hidden_size": 64,
        "n_layer": 2,
        "n_head": 8,
        "multi_query": True,
        "n_head_kv": 1,
        "alibi": False,
        "new_decoder_architecture": False,
    },
    aliases={"num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "num_kv_heads": "n_head_kv"},
    derive=_falcon,
)

CONVENTIONS: Mapping[str, Convention] = {
    "chatglm": Convention(
        defaults={
            "num_layers": 28,
            "padded_vocab_size": 65024,
            "hidden_size": 4096,
            "ffn_hidden_size": 13696,
            "kv_channels": 128,
            "num_attention_heads": 32,
            "seq_length": 2048,
            "multi_query_attention": False,
            "multi_query_group_num": 1,
        },
        aliases={"num_hidden_layers": "num_layers", "n_head_kv": "multi_query_group_num"},
        derive=_chatglm,
    ),
    "deepseek_ref": Convention(),
    "deepseek_v41": Convention(derive=_deepseek_v41),
    "deepseek_vl_v2": Convention(
        defaults={"architectures": ["DeepseekVLV2ForCausalLM"]},
        text_type="deepseek_v2",
        text_required=True,
        nullable=frozenset({"kv_lora_rank"}),
    ),
    "exaone": Convention(aliases={"num_hidden_layers": "num_layers"}),
    "kimi_vl": Convention(text_type="deepseek_v2", text_required=True),
    "kimi_linear": Convention(
        defaults={
            "vocab_size": 163840,
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "rope_theta": 10000.0,
            "kv_lora_rank": None,
            "qk_nope_head_dim": None,
            "qk_rope_head_dim": None,
            "q_lora_rank": None,
            "v_head_dim": None,
            "mla_use_nope": False,
            "num_experts": None,
            "num_experts_per_token": None,
            "num_shared_experts": 0,
            "moe_layer_freq": 1,
            "first_k_dense_replace": 0,
            "num_nextn_predict_layers": 0,
            "linear_attn_config": None,
            "max_position_embeddings": 4096,
        },
        derive=_kimi_linear,
    ),
    "kimi_k3": Convention(text_type="kimi_linear", text_required=True),
    "minimax_m3_text": _MINIMAX_M3_TEXT,
    "minimax_m3_mtp": Convention(defaults={**_MINIMAX_M3_TEXT.defaults, "num_hidden_layers": 1}),
    "minimax_m3_vl": Convention(text_type="minimax_m3_text", text_required=True),
    "minicpmv": Convention(derive=_no_window_unless_used),
    "qwen": Convention(derive=_qwen),
    "qwen3_asr": Convention(text_type="qwen3_asr_text", text_required=True),
    "qwen3_asr_text": Convention(
        defaults={
            "vocab_size": 151936,
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "head_dim": 128,
            "max_position_embeddings": 128000,
            "rope_theta": 5000000.0,
        }
    ),
    "RefinedWeb": _REFINED_WEB,
    "RefinedWebModel": _REFINED_WEB,
    "step3_text": Convention(
        defaults={
            "hidden_size": 7168,
            "num_attention_heads": 64,
            "num_attention_groups": 1,
            "num_hidden_layers": 61,
            "max_seq_len": 65536,
            "vocab_size": 128815,
            "moe_num_experts": 48,
            "moe_top_k": 3,
            "rope_theta": 500000.0,
            "max_position_embedding": 65536,
            "share_q_dim": 2048,
            "head_dim": 256,
        }
    ),
    "step3_vl": Convention(text_type="step3_text", text_required=True),
    "step5": Convention(
        defaults={
            "hidden_size": 5120,
            "num_attention_heads": 40,
            "num_attention_groups": 8,
            "num_hidden_layers": 48,
            "max_seq_len": 4096,
            "vocab_size": 65536,
            "num_nextn_predict_layers": 0,
            "rope_theta": 500000,
        },
        derive=_step5,
    ),
    "step5_vl": Convention(
        defaults={"architectures": ["Step5ForConditionalGeneration"]}, text_type="step5", text_required=True
    ),
}

GENERIC = Convention()
"""For every other type that transformers does not know: fields are taken as they stand in the file."""
