"""Models in Mistral's own format: params.json instead of config.json, with other names for the same things.

Source: `transformers_utils/configs/mistral.py` and `MistralConfigParser` (transformers_utils/config.py) of vLLM, which
make a plain config of no particular class from it. Told as vLLM 0.31.0 and later do; the releases before differ in
rotary scaling, which does not matter to the cache, and in that 0.18.1 is the first to take latent attention (MLA)
without experts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.checkpoint.fields import shown
from kvplan.errors import InputError

PARAMS_FILE = "params.json"
WEIGHTS = "consolidated*.safetensors"
"""Weights whose presence makes vLLM prefer this format over config.json."""

_NAMES = {
    "dim": "hidden_size",
    "norm_eps": "rms_norm_eps",
    "n_kv_heads": "num_key_value_heads",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "hidden_dim": "intermediate_size",
    "activation": "hidden_act",
    "tied_embeddings": "tie_word_embeddings",
}

_EXPERT_NAMES = {
    "route_every_n": "moe_layer_freq",
    "first_k_dense_replace": "first_k_dense_replace",
    "num_experts_per_tok": "num_experts_per_tok",
    "num_experts": "n_routed_experts",
    "expert_hidden_dim": "moe_intermediate_size",
    "routed_scale": "routed_scaling_factor",
    "num_shared_experts": "n_shared_experts",
    "num_expert_groups": "n_group",
    "num_expert_groups_per_tok": "topk_group",
}

_YARN_NAMES = {
    "factor": "factor",
    "original_max_position_embeddings": "original_max_position_embeddings",
    "beta": "beta_fast",
    "alpha": "beta_slow",
}

_NEEDS_CONFIG = {
    "MixtralForCausalLM": ("moe", "num_local_experts"),
    "Mamba2ForCausalLM": ("model_type", "use_conv_bias"),
}
"""Classes that read a field which only config.json has, and the field of params.json that leads to them."""

_LONGEST = 128_000
"""Tokens of context where the file names none."""


def adapted(params: Mapping[str, Any], beside: Mapping[str, Any], file: str) -> dict[str, Any]:
    """The fields of a config.json that mean the same. `beside` is the config.json in the same place, if there is one:
    it fills what is missing.

    Raises InputError for what vLLM refuses: unknown quantisation, a vision and an audio encoder at once.
    """
    config: dict[str, Any] = {"hidden_act": "silu", "tie_word_embeddings": False}
    config |= {_NAMES.get(name, name): value for name, value in params.items()}
    if config.get("max_position_embeddings") is None:
        config["max_position_embeddings"] = beside.get("max_position_embeddings", _LONGEST)
    config.setdefault("max_seq_len", config["max_position_embeddings"])
    config.setdefault("model_type", "transformer")
    _windows(config, file)
    _quantisation(config, file)
    _architecture(config, file)
    _rope(config, file)
    config = {**beside, **_with_encoder(config, file)}
    for architecture, (own, needed) in _NEEDS_CONFIG.items():
        if config["architectures"] == [architecture] and needed not in config:
            raise InputError(
                f"{file}: field {own!r} makes it a {architecture}, for which vLLM needs {needed!r}: put the model's "
                "config.json beside it"
            )
    return config


def _windows(config: dict[str, Any], file: str) -> None:
    """A list of windows is a pattern that repeats over the layers."""
    window = config.get("sliding_window")
    if not window:
        return
    layers = config.get("num_hidden_layers")
    if not isinstance(layers, int):
        raise InputError(f"{file}: field 'n_layers' is {shown(layers)}: write a whole number")
    if isinstance(window, int) and not isinstance(window, bool):
        config.setdefault("layer_types", ["sliding_attention"] * layers)
        return
    sizes = {size for size in window if size is not None} if isinstance(window, list) else set()
    if not sizes or len(sizes) > 1 or not all(isinstance(size, int) for size in sizes):
        raise InputError(
            f"{file}: field 'sliding_window' is {shown(window)}: write a number, or a list of one number and null"
        )
    pattern = ["full_attention" if size is None else "sliding_attention" for size in window]
    config["layer_types"] = pattern * (layers // len(pattern))
    config["sliding_window"] = sizes.pop()


def _quantisation(config: dict[str, Any], file: str) -> None:
    given = config.pop("quantization", None)
    if not given:
        return
    told = given if isinstance(given, Mapping) else {}
    if told.get("qformat_weight") == "fp8_e4m3":
        scheme = "dynamic" if told.get("qscheme_act") == "NO_SCALES" else "static"
        config["quantization_config"] = {"quant_method": "fp8", "activation_scheme": scheme}
    elif str(told.get("quant_method", "")).lower().replace("_", "-") == "compressed-tensors":
        config["quantization_config"] = {**told, "quant_method": "compressed-tensors"}
    else:
        raise InputError(f"{file}: field 'quantization' is {shown(given)}: vLLM takes fp8_e4m3 or compressed-tensors")


def _architecture(config: dict[str, Any], file: str) -> None:
    """The class of the language model, and the experts' fields of the one that has DeepSeek's layers."""
    experts = _object(config, "moe", file)
    if not experts and config.get("qk_nope_head_dim"):
        # Dense layers with latent attention are told as experts that no layer has.
        experts = {
            "num_experts": 1,
            "first_k_dense_replace": config.get("num_hidden_layers"),
            "route_every_n": 1,
            "num_shared_experts": 1,
            "expert_hidden_dim": config.get("intermediate_size"),
            "num_experts_per_tok": 1,
            "routed_scale": 1.0,
            "num_expert_groups": 1,
            "num_expert_groups_per_tok": 1,
        }
    if config["model_type"] == "mamba":
        config["architectures"] = ["Mamba2ForCausalLM"]
    elif experts.get("num_shared_experts"):
        if not config.get("llama_4_scaling"):
            raise InputError(
                f"{file}: field 'llama_4_scaling' is missing: vLLM needs it for a model with shared experts"
            )
        config |= {new: experts[old] for old, new in _EXPERT_NAMES.items() if old in experts}
        config |= {"topk_method": None, "norm_topk_prob": True, "scoring_func": "softmax"}
        config |= {"model_type": "deepseek_v3", "architectures": ["MistralLarge3ForCausalLM"]}
    else:
        config["architectures"] = ["MixtralForCausalLM" if experts else "MistralForCausalLM"]


def _rope(config: dict[str, Any], file: str) -> None:
    yarn = _object(config, "yarn", file)
    if not yarn:
        return
    rope: dict[str, Any] = {"rope_type": "yarn", "mscale_all_dim": 1}
    if config.get("rope_theta"):
        rope["rope_theta"] = config.pop("rope_theta")
    rope |= {new: yarn[old] for old, new in _YARN_NAMES.items() if old in yarn}
    if not yarn.get("apply_scale", True):
        rope["attention_factor"] = 1.0
    config["rope_parameters"] = rope


def _with_encoder(config: dict[str, Any], file: str) -> dict[str, Any]:
    """The config around the language model's where there is an encoder for images or speech."""
    multimodal = _object(config, "multimodal", file)
    audio = _object(multimodal, "whisper_model_args", file).get("encoder_args")
    vision = multimodal if multimodal.get("vision_encoder_args") else _object(config, "vision_encoder", file)
    if audio and vision:
        raise InputError(f"{file}: has a vision and an audio encoder: vLLM takes one of them")
    if not audio and not vision:
        return config
    text = {name: value for name, value in config.items() if name not in ("multimodal", "vision_encoder")}
    if vision:
        whole = {
            "model_type": "pixtral",
            "architectures": ["PixtralForConditionalGeneration"],
            "text_config": text,
            "vision_config": dict(vision),
        }
    else:
        whole = _speech(text, audio, multimodal["whisper_model_args"], file)
    if "quantization_config" in config:
        whole["quantization_config"] = config["quantization_config"]
    return whole


def _speech(text: dict[str, Any], audio: Any, whisper: Mapping[str, Any], file: str) -> dict[str, Any]:
    """Voxtral: a Whisper encoder whose output is pooled by the downsampling factor; a causal one is the realtime
    model, whose encoder keeps a cache in blocks pooled the same way."""
    if not isinstance(audio, Mapping):
        raise InputError(f"{file}: field 'multimodal.whisper_model_args.encoder_args' must be an object")
    factor = _object(whisper, "downsample_args", file).get("downsample_factor", 1)
    causal = bool(audio.get("causal"))
    pooled = factor if causal else 1
    width = audio.get("dim")
    if causal and isinstance(width, int) and isinstance(factor, int):
        text["projection_size"] = factor * width
    encoder = {
        "d_model": width,
        "encoder_layers": audio.get("n_layers"),
        "encoder_ffn_dim": audio.get("hidden_dim"),
        "encoder_attention_heads": audio.get("n_heads"),
        "encoder_head_dim": audio.get("head_dim"),
        "vocab_size": audio.get("vocab_size"),
        "is_encoder_decoder": False,
        "is_causal": causal,
        "sliding_window": audio.get("sliding_window"),
        "downsample_factor": factor,
        "block_pool_size": pooled,
        "pos_embed": audio.get("pos_embed", "sinusoidal"),
        "max_position_embeddings": pooled * text["max_position_embeddings"],
    }
    if audio.get("max_source_positions") is not None:
        encoder["max_source_positions"] = audio["max_source_positions"]
    return {
        "model_type": "voxtral",
        "architectures": ["VoxtralRealtimeGeneration" if causal else "VoxtralForConditionalGeneration"],
        "text_config": text,
        "audio_config": encoder,
    }


def _object(config: Mapping[str, Any], name: str, file: str) -> dict[str, Any]:
    value = config.get(name) or {}
    if not isinstance(value, Mapping):
        raise InputError(f"{file}: field {name!r} is {shown(value)}: must be an object")
    return dict(value)


class PlainConfig:
    """Builds what vLLM builds from such fields: transformers' base class, without defaults of any model type."""

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Any:
        """A `PretrainedConfig` with the sections as objects of their own; speech encoders are Whisper's."""
        from transformers import PretrainedConfig, WhisperConfig

        sections = {
            name: (WhisperConfig if name == "audio_config" else PretrainedConfig).from_dict(dict(data[name]))
            for name in ("text_config", "vision_config", "audio_config")
            if isinstance(data.get(name), Mapping)
        }
        return PretrainedConfig.from_dict({**data, **sections})
