"""Values of the model's config that vLLM cannot use: a dtype, a rope type, heads, an activation, a width.

Sources: `_find_dtype` (config/model.py), `get_rope` (model_executor/layers/rotary_embedding), `Attention.__init__`
(model_executor/layers/attention), the MLPs of the models' own modules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.config import EngineConfig
from kvplan.engine.failures import ConfigValueRefused
from kvplan.engine.models import registered
from kvplan.engine.models.by_name import FEED_FORWARD
from kvplan.engine.models.geometry import LayerGeometry, ModelGeometry
from kvplan.engine.options.model_dtype import written
from kvplan.engine.parallelism.split import Split
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage
from kvplan.releases import Release, Span

_DTYPES = frozenset(
    {
        *("bfloat16", "float16", "float32", "float64", "half", "float", "double"),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "short", "int", "long", "bool"),
    }
)
"""Dtypes of torch. vLLM asks torch for an attribute of the name that the config gives."""

_ROPES: Mapping[str, Span] = {
    **dict.fromkeys(("default", "llama3", "mllama4", "linear", "ntk", "dynamic", "yarn", "openpangu"), Span()),
    **dict.fromkeys(("deepseek_yarn", "deepseek_llama_scaling", "longrope"), Span()),
    **dict.fromkeys(("su", "mrope", "telechat3-yarn"), Span()),
    "proportional": Span(since="0.19.1"),
    "xdrope": Span(until="0.29.0"),
    "bailing_mrope": Span(since="0.30.0"),
}
"""Rope types by the releases that have them, and older names that are rewritten before anything asks."""

_WITHOUT_ROPE = frozenset({"bloom", "gpt2", "gpt_bigcode", "mpt", "opt"})
"""Modules that know the positions of tokens by other means."""

_GELU_TANH_ONLY = {
    "gemma2": "Gemma2 uses `gelu_pytorch_tanh` as the hidden activation function. Please set `hidden_activation` to "
    "`gelu_pytorch_tanh`.",
    "gemma3n": "Gemma3 uses `gelu_pytorch_tanh` as the hidden activation function. Please set `hidden_act` and "
    "`hidden_activation` to `gelu_pytorch_tanh`.",
    "rnj1": "RNJ-1 uses `gelu_pytorch_tanh` as the hidden activation function. Please set `hidden_act` and "
    "`hidden_activation` to `gelu_pytorch_tanh`.",
}
"""Modules whose MLP takes this one only, with what they say."""

_SILU_ONLY = frozenset(
    {
        *("deepseek_v2", "exaone4", "glm4_moe", "granite", "internlm2", "llama", "mistral", "orion", "phi3", "qwen2"),
        *("qwen3", "solar", "ernie45", "exaone", "glm4", "hyperclovax", "seed_oss", "telechat2", "teleflm"),
    }
)
"""Modules whose MLP takes no other activation."""


def check_dtype(checkpoint: Checkpoint) -> None:
    """Raises StartupStops where the config's dtype is none of torch's, whatever --dtype says."""
    found = written(checkpoint)
    if found is None or found[1] in _DTYPES:
        return
    field, name = found
    raise stop(
        Stage.OPTIONS,
        ConfigValueRefused(field=field, value=name, accepted=("bfloat16", "float16", "float32")),
        f"module 'torch' has no attribute '{name}'",
        exception="AttributeError",
    )


def check_rope(checkpoint: Checkpoint, geometry: ModelGeometry, release: Release) -> None:
    """Raises StartupStops where attention asks for a rope that the release does not have. MLA makes DeepSeek's of any
    type, and Transformers' own classes make their ropes themselves."""
    entry = registered.lookup(geometry.architecture, release)
    if not geometry.layers or geometry.use_mla or entry is None or entry.wraps_transformers:
        return
    if entry.module in _WITHOUT_ROPE:
        return
    known = tuple(name for name, span in _ROPES.items() if span.covers(release.acts_as))
    for rope in _ropes(checkpoint.text_config):
        part = rope.get("partial_rotary_factor", checkpoint.text_config.get("partial_rotary_factor"))
        if isinstance(part, int | float) and not 0 < part <= 1:
            raise stop(
                Stage.LAYERS,
                ConfigValueRefused(field="partial_rotary_factor", value=part),
                f"partial_rotary_factor={part} must be between 0.0 and 1.0",
            )
        name = rope.get("rope_type", rope.get("type", "default"))
        if name not in known:
            raise stop(
                Stage.LAYERS,
                ConfigValueRefused(field="rope_type", value=name, accepted=known),
                f"Unknown RoPE scaling type {name}",
            )
        base = rope.get("rope_theta", checkpoint.text_config.get("rope_theta"))
        if isinstance(base, str) and name in ("default", "linear", "llama3"):
            raise stop(
                Stage.LAYERS,
                ConfigValueRefused(field="rope_theta", value=base),
                "unsupported operand type(s) for ** or pow(): 'str' and 'Tensor'",
                exception="TypeError",
            )


def _ropes(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The config's ropes: one, or one a layer type where they differ."""
    parameters = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(parameters, Mapping):
        return
    sets = [one for one in parameters.values() if isinstance(one, Mapping)]
    yield from sets or [parameters]


def check_heads(layer: LayerGeometry, split: Split) -> None:
    """Raises StartupStops where the query heads of a rank are no multiple of its KV heads."""
    heads, kv_heads = layer.total_heads // split.tensor, split.heads(layer.total_kv_heads)
    if heads % kv_heads:
        raise stop(
            Stage.LAYERS,
            ConfigValueRefused(field="num_key_value_heads", value=layer.total_kv_heads, layer=layer.name),
            f"num_heads ({heads}) is not divisible by num_kv_heads ({kv_heads})",
            exception="AssertionError",
        )


def check_feed_forward(checkpoint: Checkpoint, geometry: ModelGeometry, config: EngineConfig) -> None:
    """Raises StartupStops where the MLP behind the first attention cannot be built."""
    text = checkpoint.text_config
    width, hidden = text.get("intermediate_size"), text.get("hidden_size")
    dense = FEED_FORWARD.get(geometry.architecture) == "dense"
    if dense and isinstance(width, int) and isinstance(hidden, int) and width < 0:
        raise stop(
            Stage.LAYERS,
            ConfigValueRefused(field="intermediate_size", value=width),
            "Trying to create tensor with negative dimension "
            f"{2 * width // config.tensor_parallel}: [{2 * width // config.tensor_parallel}, {hidden}]",
            exception="RuntimeError",
        )
    entry = registered.lookup(geometry.architecture, config.release)
    if entry is None:
        return
    gelu, tanh = text.get("hidden_activation"), "gelu_pytorch_tanh"
    if entry.module in _GELU_TANH_ONLY and isinstance(gelu, str) and gelu != tanh:
        facts = ConfigValueRefused(field="hidden_activation", value=gelu, accepted=(tanh,))
        raise stop(Stage.LAYERS, facts, _GELU_TANH_ONLY[entry.module])
    act = text.get("hidden_act")
    if entry.module not in _SILU_ONLY or not isinstance(act, str) or act == "silu":
        return
    raise stop(
        Stage.LAYERS,
        ConfigValueRefused(field="hidden_act", value=act, accepted=("silu",)),
        f"Unsupported activation: {act}. Only silu is supported for now.",
    )
