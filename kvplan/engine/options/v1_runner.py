"""Options that keep a launch on the V1 model runner, because the V2 runner of the release lacks what they ask for.

Source: `VllmConfig._get_v2_model_runner_unsupported_features` (config/vllm.py). What speculation lacks there is in
`engine/speculation/running.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvplan.engine.failures import InvalidValue
from kvplan.engine.models.draft_names import DFLASH2
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.options import given
from kvplan.engine.speculation.values import Speculation
from kvplan.engine.stop import config_refuses
from kvplan.engine.values import Stage
from kvplan.history import capacity, state
from kvplan.history import speculation as speculative
from kvplan.launch.values import Launch
from kvplan.releases import Release, Span

_STEP5 = ("Step5ForCausalLM", "Step5ForConditionalGeneration")
_STOCK_COMPILE = (1, "1", "STOCK_TORCH_COMPILE", "stock_torch_compile")


@dataclass(frozen=True, slots=True)
class Lack(Span):
    """Something that the V2 runner does not do in the releases of its span."""

    name: str
    asked: Callable[[Launch, ModelGeometry], bool]
    since: str | None = field(default="0.20.2", kw_only=True)


def lacking(launch: Launch, geometry: ModelGeometry, state_mode: str) -> tuple[str, ...]:
    """What the launch asks for and the V2 runner of its release lacks, by vLLM's own words.

    `state_mode` is `mamba_cache_mode` as it was settled.
    """
    release = launch.release
    found = [lack.name for lack in LACKS if release.within(lack) and lack.asked(launch, geometry)]
    if state_mode == "align" and geometry.has_inner_state and release.has(state.SECOND_RUNNER_LACKS_LAST_STATES):
        found.append("hybrid/mamba models with align cache mode")
    if state_mode == "all" and release.has(state.SECOND_RUNNER_LACKS_EVERY_STATE):
        found.append("mamba cache mode 'all'")
    return tuple(found)


def check(lacking: tuple[str, ...], release: Release) -> None:
    """Raises StartupStops where the V2 runner has to work and lacks something."""
    if lacking:
        name = "Model Runner V2" if release.has(capacity.V2_RUNNER_FOR_MODELS) else "VLLM_USE_V2_MODEL_RUNNER"
        raise config_refuses(
            Stage.OPTIONS,
            InvalidValue(),
            f"{name} does not yet support: {', '.join(lacking)}",
        )


def check_v1(launch: Launch, geometry: ModelGeometry, speculation: Speculation | None, *, asynchronous: bool) -> None:
    """Raises StartupStops where the V1 runner has to work and lacks something that only V2 does."""
    release = launch.release
    if not release.has(capacity.V1_RUNNER_SAYS_WHAT_IT_LACKS):
        return
    lacks = ["prefill context parallel"] if _prefill_ranks(launch, geometry) else []
    staged = given.number(launch, "pipeline_parallel_size") > 1 and asynchronous
    if staged and release.has(capacity.V1_RUNNER_REFUSES_ASYNC_STAGES):
        lacks.append("pipeline parallelism with async scheduling")
    if speculation is not None:
        lacks += _lacks_drafts(speculation, release)
    if geometry.is_diffusion:
        lacks.append("diffusion models")
    if given.flag(launch, "enable_batch_sharded_sampling"):
        lacks.append("batch-sharded sampling")
    if geometry.architecture in _STEP5 and release.has(speculative.STEP5_NEEDS_V2):
        lacks.append("Step5")
    if lacks:
        raise config_refuses(Stage.OPTIONS, InvalidValue(), f"Model Runner V1 does not support: {', '.join(lacks)}")


def _lacks_drafts(speculation: Speculation, release: Release) -> list[str]:
    """Kinds of drafts that the V1 runner does not work with."""
    found = ["dspark speculative decoding"] if speculation.method == "dspark" else []
    if speculation.adaptive:
        found.append("adaptive draft verification")
    if speculation.method != "dflash" or speculation.checkpoint is None:
        return found
    if len({layer.sliding_window for layer in speculation.layers}) > 1:
        found.append("mixed sliding/full dflash drafts")
    if DFLASH2.intersection(speculation.checkpoint.architectures):
        heads = release.has(speculative.DFLASH_HEADS_NEED_V2)
        found.append("DFlash candidate-head drafts" if heads else "dflash2 drafts")
    return found


def _set(name: str) -> Callable[[Launch, ModelGeometry], bool]:
    return lambda launch, _: given.flag(launch, name)


def _reasons(launch: Launch, _: ModelGeometry) -> bool:
    return bool(launch.get("reasoning_parser")) or launch.get("reasoning_config") is not None


def _compilation(launch: Launch) -> Mapping[str, Any]:
    config = launch.get("compilation_config")
    return config if isinstance(config, Mapping) else {}


def _stock_compile(launch: Launch, _: ModelGeometry) -> bool:
    return _compilation(launch).get("mode") in _STOCK_COMPILE


def _sequence_parallel(launch: Launch, _: ModelGeometry) -> bool:
    passes = None if given.value(launch, "enforce_eager") else _compilation(launch).get("pass_config")
    return (
        isinstance(passes, Mapping)
        and bool(passes.get("enable_sp"))
        and given.number(launch, "tensor_parallel_size") > 1
    )


def _prefill_ranks(launch: Launch, _: ModelGeometry) -> bool:
    return given.number(launch, "prefill_context_parallel_size") > 1


def _prefill_ranks_without_mla(launch: Launch, geometry: ModelGeometry) -> bool:
    return _prefill_ranks(launch, geometry) and not geometry.use_mla


def _external_stages(launch: Launch, _: ModelGeometry) -> bool:
    external = launch.get("distributed_executor_backend") == "external_launcher"
    return external and given.number(launch, "pipeline_parallel_size") > 1


def _logits(launch: Launch, geometry: ModelGeometry) -> bool:
    mode = given.value(launch, "logprobs_mode")
    return geometry.runner_type == "generate" and mode in ("raw_logits", "processed_logits")


def _microbatches_with_more(launch: Launch, geometry: ModelGeometry) -> bool:
    cut = given.flag(launch, "enable_dbo") or given.number(launch, "ubatch_size") > 1
    more = (
        given.flag(launch, "enable_lora")
        or launch.get("speculative_config") is not None
        or given.number(launch, "pipeline_parallel_size") > 1
        or given.number(launch, "decode_context_parallel_size") > 1
        or _prefill_ranks(launch, geometry)
        or geometry.is_hybrid
        or geometry.attention == "encoder_decoder"
    )
    return cut and more


LACKS = (
    Lack("hybrid/mamba models", lambda _, geometry: geometry.has_inner_state, until="0.22.1"),
    Lack("prefill context parallelism", _prefill_ranks, until="0.25.1"),
    Lack("prefill context parallelism", _prefill_ranks_without_mla, since="0.26.0", until="0.28.0"),
    Lack("stock torch.compile", _stock_compile, since="0.22.1", until="0.31.0"),
    Lack("sequence parallelism", _sequence_parallel, since="0.22.1", until="0.31.0"),
    Lack("pipeline parallelism with external_launcher", _external_stages, since="0.24.0"),
    Lack("dual batch overlap", _set("enable_dbo"), until="0.29.0"),
    Lack("dual batch overlap with other features", _microbatches_with_more, since="0.30.0"),
    Lack("elastic expert parallelism", _set("enable_elastic_ep"), since="0.24.0", until="0.31.0"),
    Lack("routed experts capture", _set("enable_return_routed_experts"), until="0.27.1"),
    Lack("custom logits processors", _set("logits_processors"), until="0.30.0"),
    Lack("prompt embeds", _set("enable_prompt_embeds"), since="0.22.1", until="0.28.0"),
    Lack("logprobs mode", _logits, since="0.22.1", until="0.25.1"),
    Lack("reasoning budget enforcement", _reasons, since="0.22.1", until="0.22.1"),
    Lack("KV sharing fast prefill", _set("kv_sharing_fast_prefill"), until="0.29.0"),
    Lack("EC transfer", _set("ec_transfer_config"), until="0.27.1"),
)
