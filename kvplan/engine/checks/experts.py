"""What vLLM asks when it builds the first layer of routed experts: even shares, a backend, a method that balances.

Sources: `FusedMoE` (model_executor/layers/fused_moe/layer.py), `RoutedExperts` (routed_experts.py beside it) and the
model classes, which hand `--enable-eplb` on or not. Left out: expert parallelism's all-to-all backends with batched
kernels, and models whose experts are no `FusedMoE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.checks.expert_backends import KINDS, Refused, refusal
from kvplan.engine.checks.expert_environment import Wish, deep_gemm, wished
from kvplan.engine.checks.expert_kernels import Demand
from kvplan.engine.checks.expert_weights import PROJECTIONS, ExpertWeights, MixedProjectionsError, expert_weights
from kvplan.engine.config import EngineConfig
from kvplan.engine.failures import CheckpointQuantisationRefused, ExpertBackend, ExpertsNotBalanced, ExpertsUneven
from kvplan.engine.models import registered
from kvplan.engine.models.arch_config import EXPERT_NAMES
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.options import given
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import Stage
from kvplan.history import checks
from kvplan.launch.values import Launch
from kvplan.releases import ALWAYS, Release, Span

BACKEND = "--moe-backend"

_BATCHED = ("deepep_low_latency", "pplx", "nixl_ep", "mori_low_latency")
"""All-to-all backends whose kernels take batches of tokens."""

_PARTS: dict[str, str] = {
    "dbrx": "ffn",
    "deepseek_v4": "ffn",
    "gemma4": "moe",
    "granitemoe": "block_sparse_moe",
    "granitemoehybrid": "block_sparse_moe",
    "jamba": "feed_forward",
    "lfm2_moe": "feed_forward",
    "llama4": "feed_forward",
    "minimax_m2": "block_sparse_moe",
    "mixtral": "block_sparse_moe",
    "mllama4": "feed_forward",
    "models.deepseek_v4": "ffn",
    "models.deepseek_v41": "ffn",
    "models.minimax_m3": "block_sparse_moe",
    "nemotron_h": "mixer",
    "phimoe": "block_sparse_moe",
    "step3p5": "moe",
    "step3_text": "moe",
}
"""The module that holds the experts of a layer, by vLLM's model module; `mlp` in all others."""

_ACTIVATIONS: dict[str, str] = {
    "gpt_oss": "swigluoai",
    "models.minimax_m3": "swigluoai_uninterleave",
    "models.kimi_k3": "situ",
    "nemotron_h": "relu2_no_mul",
}
"""Activations that are not the config's `hidden_act`, by vLLM's model module."""

_NAMES: dict[str, tuple[str, ...]] = {
    "models.deepseek_v4": ("w1", "w3", "w2"),
    "nemotron_h": ("up_proj", "None", "down_proj"),
}
"""The projections of one expert, by vLLM's model module, where they are not those of most models. Nemotron's have no
gate, and vLLM asks for a projection called `None`."""

_CLAMPED = frozenset({"models.deepseek_v4", "models.minimax_m3"})
"""Model modules whose experts are handed the config's `swiglu_limit`."""

_ACTS = {"silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh", "gelu_tanh": "gelu_tanh"}

_BALANCED: tuple[tuple[str, Span], ...] = (
    *(
        (module, ALWAYS)
        for module in (
            "AXK1",
            "afmoe",
            "alice_ai",
            "clef_omni",
            "cosmos3_edge",
            "deepseek_v2",
            "ernie45_moe",
            "exaone_moe",
            "glm4_moe",
            "hunyuan_v1",
            "hy_v3",
            "interns1_pro",
            "interns2_mobius",
            "interns2_preview",
            "k2_horizon",
            "kimi_k25",
            "kimi_vl",
            "laguna",
            "lfm2_moe",
            "llama4",
            "longcat_flash",
            "longcat_flash_ngram",
            "mellum",
            "mimo_v2",
            "mimo_v2_flash",
            "mimo_v2_omni",
            "mistral_large_3",
            "mixtral",
            "mllama4",
            "models.beam",
            "models.deepseek_v32",
            "models.dots3_note",
            "models.glm5next",
            "models.hy_v4",
            "models.qwen4_exp",
            "models.step5",
            "nano_nemotron_vl",
            "nemotron_h",
            "openpangu",
            "qwen3_5",
            "qwen3_moe",
            "qwen3_next",
            "qwen3_omni_moe_thinker",
            "qwen3_vl_moe",
            "step3p5",
            registered.TRANSFORMERS_MODULE,
        )
    ),
    ("models.deepseek_v4", Span(since="0.24.0")),
)
"""vLLM's model modules that hand `--enable-eplb` and the redundant experts to their layers."""

_ONLY_COUNTED = frozenset({"glm4_moe_lite"})
"""Modules that hand on the redundant experts only."""

_NO_BALANCE: tuple[tuple[str, Span], ...] = (
    ("AWQMarlinMoEMethod", ALWAYS),
    ("AutoAWQMoEMethod", ALWAYS),
    ("AutoGPTQMoEMethod", ALWAYS),
    ("CompressedTensorsW4A4Mxfp4MoEMethod", ALWAYS),
    ("CompressedTensorsW4A4Nvfp4MoEMethod", Span(until="0.27.1")),
    ("CompressedTensorsW8A8Int8MoEMethod", ALWAYS),
    ("CompressedTensorsWNA16MarlinMoEMethod", ALWAYS),
    ("CompressedTensorsWNA16MoEMethod", Span(since="0.27.1")),
    ("GPTQMarlinMoEMethod", ALWAYS),
    ("GptOssMxfp4MoEMethod", ALWAYS),
    ("ModelOptFp8MoEMethod", ALWAYS),
    ("ModelOptMxFp8FusedMoE", ALWAYS),
    ("MoeWNA16Method", ALWAYS),
    ("Mxfp4MoEMethod", Span(until="0.23.0")),
)
"""Methods that cannot move experts between ranks, `supports_eplb` false."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """The first layer of routed experts."""

    module: str
    """vLLM's model module."""
    name: str
    count: int
    """Experts of the layer, without redundant ones."""
    activation: str | None
    clamp: float | None = None
    """The limit that the class hands on for its activations."""


def check(checkpoint: Checkpoint, launch: Launch, geometry: ModelGeometry, config: EngineConfig) -> None:
    """Raises StartupStops where vLLM refuses to build the model's routed experts."""
    layer = _first(checkpoint, geometry, config.release)
    if layer is None:
        return
    ranks = config.tensor_parallel * config.data_parallel * config.prefill_context_parallel
    spread = config.expert_parallel and ranks > 1
    balanced = given.flag(launch, "enable_eplb")
    if balanced and spread and _within(_BALANCED, layer.module, config.release):
        _check_shares(launch, layer, ranks)
    if balanced and spread:
        _check_redundant(launch, layer)
    try:
        weights = expert_weights(checkpoint, config, layer.name, _NAMES.get(layer.module, PROJECTIONS))
    except MixedProjectionsError:
        raise stop(
            Stage.LAYERS,
            CheckpointQuantisationRefused(method="compressed-tensors", served_since=None),
            "All MoE projections need to have same quantization scheme but found multiple",
        ) from None
    if weights is None:
        return
    _check_backend(launch, layer, weights, config, spread=spread, balanced=balanced and spread)
    asked = balanced and (
        config.release.has(checks.EXPERT_BALANCE_CHECKED_FOR_ALL) or _within(_BALANCED, layer.module, config.release)
    )
    if asked and _within(_NO_BALANCE, weights.method, config.release):
        raise stop(
            Stage.LAYERS,
            ExpertsNotBalanced(method=weights.method),
            f"EPLB is not supported {weights.method}.",
            exception="NotImplementedError",
        )


def backend_asked(launch: Launch) -> str:
    """The backend for routed experts that the launch names, `auto` where it leaves the choice to vLLM."""
    told = launch.get("moe_backend")
    kernels = launch.get("kernel_config")
    if told is None and isinstance(kernels, Mapping):
        told = kernels.get("moe_backend")
    return "auto" if told is None else str(told).lower().replace("-", "_")


def _within(rows: tuple[tuple[str, Span], ...], name: str, release: Release) -> bool:
    return any(one == name and release.within(span) for one, span in rows)


def _redundant(launch: Launch) -> int:
    settings = launch.get("eplb_config")
    count = settings.get("num_redundant_experts", 0) if isinstance(settings, Mapping) else 0
    return count if isinstance(count, int) else 0


def _check_shares(launch: Launch, layer: _Layer, ranks: int) -> None:
    redundant = _redundant(launch)
    experts = layer.count + redundant
    if experts % ranks:
        told = launch.release.has(checks.EXPERT_SHARES_ARE_TOLD)
        numbers = f" Got {experts} experts and {ranks} EP ranks." if told else ""
        raise stop(
            Stage.LAYERS,
            ExpertsUneven(experts=layer.count, redundant=redundant, ranks=ranks),
            f"EPLB currently only supports even distribution of experts across ranks.{numbers}",
            exception="ValueError" if told else "AssertionError",
        )


def _check_redundant(launch: Launch, layer: _Layer) -> None:
    """A class that takes redundant experts and does not hand balancing on never starts with both."""
    if layer.module in _ONLY_COUNTED and _redundant(launch):
        raise stop(
            Stage.LAYERS,
            ExpertsNotBalanced(method=None),
            "Redundant experts are only supported with EPLB.",
            exception="AssertionError",
        )


def _check_backend(
    launch: Launch, layer: _Layer, weights: ExpertWeights, config: EngineConfig, *, spread: bool, balanced: bool
) -> None:
    name, kind, release = backend_asked(launch), weights.kind, config.release
    adapted = kind == "unquantized" and given.flag(launch, "enable_lora")
    batched = config.data_parallel > 1 and given.value(launch, "all2all_backend") in _BATCHED
    if kind is None or adapted or batched:
        return
    named = name != "auto" and release.within(KINDS[kind])
    wish = Wish(BACKEND, (name,)) if named else wished(launch, kind)
    if wish is None:
        return
    if name == "cutlass" and kind == "fp8" and not weights.cutlass:
        message = "vLLM CUTLASS FP8 MoE backend is disabled for this configuration."
        raise _backend_refused(wish, Refused(message, reason="these weights"), kind)
    demand = Demand(
        # Switched off, DeepGEMM has kernels for no GPU.
        (0, 0) if deep_gemm(launch) is False and "deep_gemm" in wish.names else config.hardware.capability,
        weights.weight,
        weights.input,
        layer.activation,
        expert_parallel=spread,
        data_parallel=config.data_parallel > 1,
        balanced=balanced,
        clamp=layer.clamp,
    )
    refused = [refusal(one, kind, demand, release, every_input=weights.every_input) for one in wish.names]
    first = refused[0]
    if first is not None and None not in refused:
        raise _backend_refused(wish, first, kind)


def _backend_refused(wish: Wish, refused: Refused, kind: str) -> StartupStops:
    return stop(
        Stage.LAYERS,
        ExpertBackend(
            option=wish.variable,
            value=wish.names[0] if wish.variable == BACKEND else None,
            weights=KINDS[kind].title,
            accepted=refused.accepted,
        ),
        refused.message if wish.nothing is None else wish.nothing,
        exception="ValueError" if wish.nothing is None else "NotImplementedError",
    )


def _first(checkpoint: Checkpoint, geometry: ModelGeometry, release: Release) -> _Layer | None:
    text = checkpoint.text_config
    entry = registered.lookup(geometry.architecture, release)
    index = _index(text, geometry.num_layers)
    if not geometry.is_moe or entry is None or index is None or not geometry.layers:
        return None
    module = entry.module
    stem, found, _ = geometry.layers[0].name.partition(".layers.")
    act = _ACTIVATIONS.get(module)
    if act is None and module != "step3p5":  # its layers differ
        act = _ACTS.get(str(text.get("hidden_act") or text.get("hidden_activation") or "silu"))
    part = _PARTS.get(module, "mlp")
    name = f"{stem if found else 'model'}.layers.{index}.{part}.experts"
    limit = text.get("swiglu_limit") if module in _CLAMPED else None
    clamp = float(limit) if isinstance(limit, (int, float)) else None
    return _Layer(module, name, _count(text), act, clamp)


def _count(text: Mapping[str, Any]) -> int:
    for name in EXPERT_NAMES:
        value = text.get(name)
        value = value[0] if isinstance(value, (list, tuple)) and value else value
        if isinstance(value, int) and not isinstance(value, bool) and value:
            return value
    return 0


def _index(text: Mapping[str, Any], layers: int) -> int | None:
    """The first layer with routed experts, None where the model is cut before it; 0 where nothing tells."""
    pattern = text.get("hybrid_override_pattern")
    frequency, kinds = text.get("moe_layer_freq"), text.get("mlp_layer_types")
    listed = text.get("moe_layers_enum")
    first = 0
    if isinstance(pattern, str):
        first = pattern.find("E")
    elif isinstance(frequency, (list, tuple)):
        first = next((index for index, sparse in enumerate(frequency) if sparse), -1)
    elif isinstance(kinds, (list, tuple)) and "sparse" in kinds:
        first = list(kinds).index("sparse")
    elif isinstance(listed, str) and listed:
        first = int(listed.split(",")[0])
    elif _whole(text, "decoder_sparse_step") > 0:
        step, plain = _whole(text, "decoder_sparse_step"), text.get("mlp_only_layers") or ()
        first = next((index for index in range(step - 1, layers, step) if index not in plain), -1)
    else:
        first = _whole(text, "first_k_dense_replace") or _whole(text, "num_dense_layers")
    return first if 0 <= first < layers else None


def _whole(text: Mapping[str, Any], name: str) -> int:
    value = text.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
