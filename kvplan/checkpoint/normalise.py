"""From the raw JSON of a config to what vLLM reads: transformers' own class applied, offline, as plain JSON values.

vLLM never looks at config.json itself but at the config object that transformers builds from it: with defaults for
what the file leaves out, derived fields such as `layer_types`, properties, and second names (`attribute_map`). The
result of this module answers `config["x"]` wherever vLLM would get `config.x`.
"""

from __future__ import annotations

import copy
import json
import logging
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kvplan.checkpoint import quantization
from kvplan.checkpoint.conventions import (
    ADDED_DEFAULTS,
    ARCHITECTURE_TO_MODEL_TYPE,
    CONVENTIONS,
    GENERIC,
    REDIRECTS,
    TEXT_SECTIONS,
    UNSET_WHERE_SILENT,
    Convention,
)
from kvplan.checkpoint.fields import shown, string, strings
from kvplan.checkpoint.speculators import Speculator, is_speculator
from kvplan.errors import InputError

MAX_LAYERS = 100_000
"""Most layers accepted of any stack: beyond it a number is a mistake, and lists per layer would fill the memory."""

_OLD_WORD, _NEW_WORD = "full_attention", "indexed_attention"
"""What some config classes read and write in `layer_types`."""
ORIGINAL = "_original"
"""Where a normalised config keeps fields of the file that transformers' class does not keep under their names."""

ROPES = "rope_parameters"

Plain = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Normalised:
    """The parts of a Checkpoint that come from the config alone."""

    config: Plain
    text_config: Plain
    architectures: tuple[str, ...]
    model_type: str
    quantization: Plain | None
    by: str


def normalise(
    raw: Mapping[str, Any],
    *,
    file: str,
    quant_file: Mapping[str, Any] | None = None,
    hf_overrides: Mapping[str, Any] | None = None,
    config_class: Any = None,
) -> Normalised:
    """Normalise a config as vLLM would see it.

    `config_class` is read with in place of the one that transformers has for the model type.

    `quant_file` is the content of hf_quant_config.json beside it. `hf_overrides` are applied as vLLM applies the
    option: flat values are set on the finished config (nothing is derived anew), objects update a nested config or
    replace a plain field, and a `model_type` among them chooses the config class.
    """
    overrides = dict(hf_overrides or {})
    data = copy.deepcopy(dict(raw))
    model_type = _model_type(data, overrides, file)
    check_counts(data, file)
    data = _unfollowed({name: value for name, value in data.items() if name not in _DROPPED})
    if config_class is None:
        config, text, by = _read(model_type, data, overrides, file)
    else:
        with quiet():
            config, text = _by_class(config_class, model_type, data, overrides, file)
        by = "transformers"

    if "quantization_config" not in overrides:
        _apply_quantization(config, raw, quant_file)
    if not config.get("architectures"):
        config["architectures"] = _base_architectures(model_type)
    architectures = strings(config, "architectures", file=file, default=())
    return Normalised(
        config=config,
        text_config=text,
        architectures=architectures,
        model_type=str(config.get("model_type") or model_type),
        quantization=quantization.picked(config),
        by=by,
    )


_LEADING_ELSEWHERE = frozenset({"backbone", "use_timm_backbone", "use_pretrained_backbone", "backbone_kwargs"})
"""Fields for which classes of transformers read another repository: of no meaning for a KV cache."""


def _unfollowed(section: Mapping[str, Any]) -> Plain:
    """A config without the fields that lead to other repositories, at any depth."""
    return {
        name: _unfollowed(value) if isinstance(value, Mapping) else value
        for name, value in section.items()
        if name not in _LEADING_ELSEWHERE
    }


def check_counts(data: Mapping[str, Any], file: str) -> None:
    """Refuse sizes that cannot be meant, anywhere in the config, before a config class builds lists from them."""
    for path, name, value in _fields(data):
        if _LAYERS.search(name):
            _check_count(file, f"{path}{name}", value, 0, MAX_LAYERS)
        elif name in _COUNTS:
            _check_count(file, f"{path}{name}", value, 0, 2**40)


def _check_count(file: str, name: str, value: Any, minimum: int, maximum: int) -> None:
    if isinstance(value, float) and value.is_integer():
        return
    if isinstance(value, (bool, str, float)):
        raise InputError(f"{file}: field {name!r} is {shown(value)}: write a whole number without quotes")
    if isinstance(value, int) and not minimum <= value <= maximum:
        bound = f"below {minimum}" if value < minimum else f"above {maximum}"
        raise InputError(f"{file}: field {name!r} is {shown(value)}, {bound}: correct the value")


def _fields(data: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str, Any]]:
    for name, value in data.items():
        yield path, name, value
        if isinstance(value, Mapping):
            yield from _fields(value, f"{path}{name}.")


_LAYERS = re.compile(r"^(n_layers?|num_layers|num_hidden_layers|(en|de)coder_layers|num_.*_layers|depth)$")
_COUNTS = frozenset(
    {
        "hidden_size",
        "num_attention_heads",
        "num_key_value_heads",
        "num_kv_heads",
        "n_head",
        "n_heads",
        "n_head_kv",
        "n_embd",
        "head_dim",
        "kv_lora_rank",
        "qk_rope_head_dim",
        "qk_nope_head_dim",
        "v_head_dim",
        "max_position_embeddings",
        "vocab_size",
    }
)
"""Fields that every family reads as whole numbers and that are never negative."""

_DROPPED = frozenset(
    {
        "_name_or_path",
        "bad_words_ids",
        "base_model_pp_plan",
        "base_model_tp_plan",
        "chunk_size_feed_forward",
        "id2label",
        "ignore_keys_at_rope_validation",
        "keys_to_ignore_at_inference",
        "kwargs",
        "label2id",
        "num_labels",
        "output_hidden_states",
        "problem_type",
        "return_dict",
        "task_specific_params",
        "transformers_version",
    }
)
"""Fields that say nothing about the cache; a huge `num_labels` would make transformers build a huge table."""


def _model_type(data: Plain, overrides: Mapping[str, Any], file: str) -> str:
    wanted = string(overrides, "model_type", file="--hf-overrides", default="")
    if wanted in REDIRECTS or wanted in CONVENTIONS:
        return wanted
    model_type = string(data, "model_type", file=file, default=None)
    if is_speculator(data):
        raise Speculator(data, file)
    if not model_type:
        named = strings(data, "architectures", file=file, default=())
        model_type = ARCHITECTURE_TO_MODEL_TYPE.get(named[0]) if named else None
    if not model_type:
        raise InputError(
            f"{file}: field 'model_type' is missing: add it, as in the config.json of the model it was made from"
        )
    return model_type


def _read(model_type: str, data: Plain, overrides: Mapping[str, Any], file: str) -> tuple[Plain, Plain, str]:
    """The plain config, the language model's part of it, and who read it."""
    if model_type not in CONVENTIONS:
        with quiet():
            config_class = _config_class(model_type, data)
            data = {**copy.deepcopy(dict(ADDED_DEFAULTS.get(model_type, {}))), **data}
            if config_class is not None:
                return (*_by_class(config_class, model_type, data, overrides, file), "transformers")
    config = _by_convention(model_type, data, file)
    before = copy.deepcopy(_plain_text(config).get(ROPES))
    _override_plain(config, overrides)
    text = _plain_text(config)
    _keep_ropes(text, before)
    _check_usable(text, model_type, file)
    return config, text, "conventions"


def _plain_text(config: Plain) -> Plain:
    thinker = config.get("thinker_config")
    section = config.get("text_config", thinker.get("text_config") if isinstance(thinker, dict) else None)
    return section if isinstance(section, dict) else config


# --- transformers -----------------------------------------------------------------------------------------


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' advice (no PyTorch, renamed fields, odd token ids) off the terminal."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def sealed() -> Iterator[None]:
    """Keep classes of transformers from reading anything beside the config that they are made of."""
    from huggingface_hub import constants
    from transformers import PretrainedConfig

    def refuse(*_given: Any, **_named: Any) -> Any:
        raise OSError("a field leads to another repository, which is not followed")

    method, offline = PretrainedConfig.__dict__["get_config_dict"], constants.HF_HUB_OFFLINE
    PretrainedConfig.get_config_dict, constants.HF_HUB_OFFLINE = refuse, True
    try:
        yield
    finally:
        PretrainedConfig.get_config_dict, constants.HF_HUB_OFFLINE = method, offline


def _config_class(model_type: str, data: Mapping[str, Any]) -> Any:
    """The transformers class that vLLM ends up with for this type, or None."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if model_type == "mistral" and "layer_types" in data:
        model_type = "ministral"  # AutoConfig does the same: Mistral's class has no per-layer windows
    name = REDIRECTS.get(model_type, model_type)
    return CONFIG_MAPPING[name] if name in CONFIG_MAPPING else None  # noqa: SIM401 (lazy mapping without get)


def _by_class(
    config_class: Any, model_type: str, data: Plain, overrides: Mapping[str, Any], file: str
) -> tuple[Plain, Plain]:
    try:
        with sealed():
            built = config_class.from_dict(data)
    except ZeroDivisionError:
        raise InputError(f"{file}: {_zero(data)} is 0 and something is divided by it: correct the value") from None
    except Exception as error:
        raise InputError(f"{file}: {_reason(error)}: correct the field (model type {model_type!r})") from None
    flat, nested = _parted(overrides)
    try:
        _override_object(built, flat)
    except Exception as error:
        raise InputError(
            f"--hf-overrides: {_reason(error)}: correct the override (model type {model_type!r})"
        ) from None
    try:
        for name, section in _text_sections(built):
            setattr(built, name, section)
        text = built.get_text_config()
    except Exception as error:
        raise InputError(f"{file}: {_reason(error)}: correct the field (model type {model_type!r})") from None
    if isinstance(text, Mapping):
        raise InputError(
            f"{file}: model type {model_type!r} does not read a section 'text_config': correct 'model_type' "
            "(vLLM refuses the model as it is)"
        )
    try:
        for part in (built, text):
            _standard_rope(part)
    except Exception as error:
        raise InputError(f"{file}: {_reason(error)}: correct the field (model type {model_type!r})") from None
    try:
        ropes = copy.deepcopy(getattr(text, ROPES, None))
        _override_object(built, nested)
        text = built.get_text_config()
    except Exception as error:
        raise InputError(
            f"--hf-overrides: {_reason(error)}: correct the override (model type {model_type!r})"
        ) from None
    try:
        seen: dict[int, Plain] = {}
        config = _plain_config(built, seen)
        if model_type in REDIRECTS and "model_type" not in overrides:
            config["model_type"] = model_type
        known = seen.get(id(text))
        plain_text = _plain_config(text, seen) if known is None else known
        _keep_originals(config, data)
        _keep_ropes(plain_text, _plain(ropes, {}))
    except Exception as error:
        raise InputError(f"{file}: {_reason(error)}: correct the field (model type {model_type!r})") from None
    if plain_text is not config and "num_attention_heads" not in plain_text:
        raise InputError(
            f"{file}: the language section has no 'num_attention_heads' (model type {model_type!r}): add it there"
        )
    return config, plain_text


def _keep_originals(config: Plain, data: Mapping[str, Any]) -> None:
    """Keep what the file says in fields that the config class used up or renamed, apart under `ORIGINAL`.

    Older releases of vLLM read some of them with config classes of their own (DeepSeek-V4's `compress_ratios`, the
    words in Qwen4-Exp's `layer_types`). Fields that such a class leaves unset where the file is silent stand there as
    null.
    """
    from transformers import GenerationConfig

    used_up = _DROPPED | set(GenerationConfig._get_default_generation_params())
    for name, value in data.items():
        section = config.get(name)
        if isinstance(value, Mapping) and isinstance(section, dict) and "model_type" in section:
            _keep_originals(section, value)
    kept = {
        name: _plain(value, {})
        for name, value in data.items()
        if value is not None
        and (
            (name not in config and name not in used_up and name != "torch_dtype")
            or _reworded(name, value, config.get(name))
        )
    }
    kept |= {name: None for name in UNSET_WHERE_SILENT.get(config.get("model_type", ""), ()) if data.get(name) is None}
    if kept:
        config[ORIGINAL] = kept


def _keep_ropes(text: Plain, before: object) -> None:
    """Keep the rope parameters without the overrides that are objects: vLLM judges them before it sets those."""
    if text.get(ROPES) != before:
        text[ORIGINAL] = {**text.get(ORIGINAL, {}), ROPES: before}


def _reworded(name: str, value: object, now: object) -> bool:
    """Whether a config class exchanged the words of a list of layer types."""
    if name != "layer_types" or not isinstance(value, list) or not isinstance(now, list):
        return False
    return _OLD_WORD in value and _OLD_WORD not in now and _NEW_WORD in now


def _text_sections(built: Any) -> list[tuple[str, Any]]:
    """vLLM makes an `llm_config` readable as `text_config`."""
    if hasattr(built, "llm_config") and not hasattr(built, "text_config"):
        return [("text_config", built.llm_config)]
    return []


def _parted(overrides: Mapping[str, Any]) -> tuple[Plain, Plain]:
    """The overrides that are plain values, and those that are objects.

    vLLM sets the former while it loads the config, before it brings rotary parameters into their present form, and
    the latter afterwards: a `rope_parameters` among them stands as it was given.
    """
    nested = {name: value for name, value in overrides.items() if isinstance(value, Mapping)}
    return {name: value for name, value in overrides.items() if name not in nested}, nested


def _override_object(config: Any, overrides: Mapping[str, Any]) -> None:
    """Set values on a config: an object updates a nested config, or takes the place of what stands there."""
    from transformers import PretrainedConfig

    for name, value in overrides.items():
        current = getattr(config, name, None)
        if isinstance(value, Mapping) and isinstance(current, PretrainedConfig):
            _update_nested(current, value)
        else:
            setattr(config, name, copy.deepcopy(value))


def _update_nested(target: Any, updates: Mapping[str, Any]) -> None:
    """Update a nested config, and the dicts in it, in depth."""
    plain = isinstance(target, dict)
    for name, value in updates.items():
        current = target.get(name) if plain else getattr(target, name, None)
        if isinstance(value, Mapping) and (isinstance(current, dict) or hasattr(current, "__dict__")):
            _update_nested(current, value)
        elif plain:
            target[name] = copy.deepcopy(value)
        else:
            setattr(target, name, copy.deepcopy(value))


def _standard_rope(config: Any) -> None:
    """Bring older spellings of the rotary parameters into the one that vLLM reads."""
    theta = next((v for n in ("rope_theta", "rotary_emb_base") if (v := getattr(config, n, None)) is not None), None)
    if theta is None and not getattr(config, "rope_parameters", None):
        return
    if theta is not None:
        config.rope_theta = theta
    rope = getattr(config, "rope_parameters", None)
    for part in _rope_parts(rope):
        _modern_rope(part)
    if hasattr(config, "standardize_rope_params"):
        config.standardize_rope_params()


def _plain_config(config: Any, seen: dict[int, Plain]) -> Plain:
    """A config object as a dict: attributes, properties, and second names."""
    from transformers import PretrainedConfig

    if id(config) in seen:
        return seen[id(config)]
    result: Plain = {}
    seen[id(config)] = result
    for name, value in vars(config).items():
        if not name.startswith("_") and name not in _DROPPED:
            _put(result, name, value, seen)
    if vars(config).get("model_type") is None:
        result["model_type"] = type(config).model_type
    for klass in type(config).__mro__:
        if klass is PretrainedConfig:
            break
        for name, member in vars(klass).items():
            if isinstance(member, property) and not name.startswith("_") and name not in result:
                try:
                    value = getattr(config, name)
                except (
                    Exception
                ):  # a property of a config that lacks what it is made from: vLLM would not get it either
                    continue
                _put(result, name, value, seen)
    _put_per_layer(result, config, seen)
    for other, name in type(config).attribute_map.items():
        if name in result:
            result[other] = result[name]
    if "rope_parameters" in result:
        result.setdefault("rope_scaling", result["rope_parameters"])
    return result


def _put_per_layer(result: Plain, config: Any, seen: dict[int, Plain]) -> None:
    """Layers that differ from the config as a whole (`per_layer_config`), by layer index as a string."""
    spec = vars(config).get("_heterogeneity_spec")
    if spec is None:
        return
    result["is_heterogeneous"] = True
    result["per_layer_config"] = {
        str(layer): _plain(overrides, seen) for layer, overrides in sorted(spec.per_layer_overrides.items())
    }


def _put(result: Plain, name: str, value: Any, seen: dict[int, Plain]) -> None:
    plain = _plain(value, seen)
    if plain is not _UNUSABLE:
        result[name] = plain


_UNUSABLE = object()


def _plain(value: Any, seen: dict[int, Plain]) -> Any:
    """`value` as JSON; numbers that JSON lacks are tagged as transformers itself writes them."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"__float__": _FLOAT_NAMES[str(value)]}
    if isinstance(value, Mapping):
        parts = {str(name): _plain(part, seen) for name, part in value.items()}
        return {name: part for name, part in parts.items() if part is not _UNUSABLE}
    if isinstance(value, (list, tuple)):
        return [part for part in (_plain(part, seen) for part in value) if part is not _UNUSABLE]
    if isinstance(value, (set, frozenset)):
        return sorted(_plain(part, seen) for part in value)
    if hasattr(value, "attribute_map"):
        return _plain_config(value, seen)
    return _UNUSABLE


_FLOAT_NAMES = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def _base_architectures(model_type: str) -> list[str]:
    """What vLLM puts where a config names no architecture: transformers' base model of the type."""
    with quiet():
        from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    name = MODEL_MAPPING_NAMES.get(model_type)
    return [name] if isinstance(name, str) else []


def _zero(data: Mapping[str, Any]) -> str:
    """The field whose value is 0, in the config or in a section of it."""
    sections: list[tuple[str, Mapping[str, Any]]] = [("", data)]
    sections += [(f"{name}.", part) for name, part in data.items() if isinstance(part, Mapping)]
    counts = ("num_attention_heads", "n_head", "num_heads", "num_key_value_heads")
    zeros = [
        f"{place}{name}"
        for place, part in sections
        for name, value in part.items()
        if value == 0 and not isinstance(value, bool) and (name in counts or place == "")
    ]
    named = [name for name in zeros if name.rpartition(".")[2] in counts]
    return f"field {(named or zeros or ['num_attention_heads'])[0]!r}"


def _reason(error: BaseException) -> str:
    """An exception's text as one short line."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, KeyError):
        text = f"field {text} is missing"
    elif isinstance(error, (ZeroDivisionError, AttributeError, TypeError, IndexError)):
        text = f"a field has a value that cannot be used ({text})"
    return text if len(text) <= 300 else text[:299] + "…"


# --- conventions ------------------------------------------------------------------------------------------


def _by_convention(model_type: str, data: Plain, file: str) -> Plain:
    convention = CONVENTIONS.get(model_type, GENERIC)
    config: Plain = {**copy.deepcopy(dict(convention.defaults)), **_plain(data, {})}
    config["model_type"] = model_type
    config.setdefault("is_encoder_decoder", False)
    if config.get("torch_dtype") is not None:
        config["dtype"] = config.get("dtype") or config["torch_dtype"]
    config.pop("torch_dtype", None)
    for other, name in convention.aliases.items():
        if config.get(other) is not None and name not in data:
            config[name] = config[other]
    _nest_text(config, convention, file)
    try:
        convention.derive(config)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{file}: {_reason(error)}: correct the field (model type {model_type!r})") from None
    for other, name in convention.aliases.items():
        if name in config:
            config[other] = config[name]
    _plain_rope(config)
    return config


def _nest_text(config: Plain, convention: Convention, file: str) -> None:
    """Read the language model's section by its own type and make it readable as `text_config`."""
    thinker = config.get("thinker_config")
    if isinstance(thinker, dict):
        _nest_text(thinker, convention, file)
        return
    found = next((name for name in TEXT_SECTIONS if isinstance(config.get(name), Mapping)), None)
    if found is None and not convention.text_required:
        return
    section: Plain = dict(config.pop(found)) if found else {}
    text_type = convention.text_type or section.get("model_type")
    if not isinstance(text_type, str):
        config["text_config"] = section
        return
    section = {name: value for name, value in section.items() if name not in _DROPPED}
    named = section.get("model_type")
    config["text_config"] = _read_section(text_type, section, convention, file)
    if isinstance(named, str):
        config["text_config"]["model_type"] = named
    for name in ("hidden_size", "vocab_size", "quantization_config"):
        if config.get(name) is None and config["text_config"].get(name) is not None:
            config[name] = config["text_config"][name]


def _read_section(text_type: str, section: Plain, convention: Convention, file: str) -> Plain:
    """The language section read by its own type; as it stands where only its remote code can read it."""
    nulls = {name for name in convention.nullable if name in section and section[name] is None}
    given = {name: value for name, value in section.items() if name not in nulls}
    try:
        read, _, _ = _read(text_type, given, {}, file)
    except InputError:
        read = _by_convention("", given, file)
    for name in nulls:
        read[name] = None
    return read


def _plain_rope(config: Plain) -> None:
    theta = next((config[n] for n in ("rope_theta", "rotary_emb_base") if config.get(n) is not None), None)
    rope = config.get("rope_parameters") or config.get("rope_scaling")
    if theta is None and not isinstance(rope, Mapping):
        return
    rope = dict(rope) if isinstance(rope, Mapping) else {}
    rope.setdefault("rope_type", rope.get("type", "default"))
    if theta is not None:
        rope.setdefault("rope_theta", theta)
    for name in ("partial_rotary_factor", "rotary_pct", "rotary_emb_fraction"):
        if config.get(name) is not None:
            rope.setdefault("partial_rotary_factor", config[name])
    _modern_rope(rope)
    if rope["rope_type"] in ("llama3", "yarn", "longrope"):
        length = config.get("original_max_position_embeddings", config.get("max_position_embeddings"))
        rope.setdefault("original_max_position_embeddings", length)
    config["rope_parameters"] = config["rope_scaling"] = rope


def _override_plain(config: Plain, overrides: Mapping[str, Any]) -> None:
    for name, value in overrides.items():
        current = config.get(name)
        if isinstance(value, Mapping) and isinstance(current, dict) and name in _NESTED:
            _override_plain(current, value)
        else:
            config[name] = _plain(value, {})


_NESTED = frozenset({*TEXT_SECTIONS, "vision_config", "audio_config"})


def _check_usable(text: Mapping[str, Any], model_type: str, file: str) -> None:
    """Without any of these a config of an unknown type is not one of a transformer kvplan could plan for."""
    if all(text.get(name) is None for name in ("num_hidden_layers", "n_layer", "n_layers", "num_layers")):
        raise InputError(
            f"{file}: model type {model_type!r} is not known and its config has no 'num_hidden_layers': "
            "check the field 'model_type', or add the usual Hugging Face fields"
        )


# --- both -------------------------------------------------------------------------------------------------


def _rope_parts(rope: Any) -> list[Plain]:
    """The dicts of rotary parameters in `rope`: itself, or one for each layer type (with other entries beside them)."""
    if not isinstance(rope, dict) or not rope:
        return []
    return [part for part in rope.values() if isinstance(part, dict)] or [rope]


def _modern_rope(rope: Plain) -> None:
    """Names of rotary variants that older configs use."""
    kind = rope.get("rope_type", rope.get("type"))
    if kind is None:
        return
    if kind == "telechat3-yarn" and isinstance(rope.get("factor"), (int, float)):
        rope["attention_factor"] = 0.07 * math.log(rope["factor"]) + 1.0
    rope["rope_type"] = _ROPE_NAMES.get(kind, kind) if isinstance(kind, str) else kind


_ROPE_NAMES = {"su": "longrope", "mrope": "default", "telechat3-yarn": "yarn"}


def _apply_quantization(config: Plain, raw: Mapping[str, Any], quant_file: Mapping[str, Any] | None) -> None:
    """config.json's own section, as it stands there, wins over hf_quant_config.json."""
    section = raw.get("quantization_config")
    if section is None:
        section = quant_file
    if isinstance(section, Mapping):
        config["quantization_config"] = _plain(section, {})


def cache_key(sha256: str, quant_sha256: str | None, overrides: Mapping[str, Any] | None) -> str:
    """What two normalisations must share to be the same."""
    return json.dumps([sha256, quant_sha256, overrides], sort_keys=True, default=str)
