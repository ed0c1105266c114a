"""Which model runner works, and how many batches are under way at once. Source: `config/vllm.py`."""

from __future__ import annotations

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.checks import executors
from kvplan.engine.failures import InvalidValue
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.options import given, v1_runner
from kvplan.engine.speculation import running
from kvplan.engine.speculation.values import Speculation
from kvplan.engine.stop import config_refuses
from kvplan.engine.values import Stage
from kvplan.history import capacity, parallel, state
from kvplan.launch.values import Launch
from kvplan.releases import Release, Span

V2_LISTED: tuple[tuple[str, Span], ...] = (
    ("Qwen3ForCausalLM", Span(since="0.22.1", until="0.24.0")),
    ("LlamaForCausalLM", Span(since="0.23.0", until="0.24.0")),
    ("MistralForCausalLM", Span(since="0.23.0", until="0.24.0")),
    ("DeepseekV2ForCausalLM", Span(since="0.24.0", until="0.28.0")),
    ("Qwen2MoeForCausalLM", Span(since="0.24.0", until="0.28.0")),
    ("GraniteMoeForCausalLM", Span(since="0.24.0", until="0.28.0")),
    ("InklingForCausalLM", Span(since="0.26.0", until="0.28.0")),
    ("InklingForConditionalGeneration", Span(since="0.26.0", until="0.28.0")),
    ("LongcatFlashNgramForCausalLM", Span(since="0.26.0", until="0.28.0")),
    ("KimiK3ForConditionalGeneration", Span(since="0.27.1", until="0.28.0")),
    ("DeepseekV4ForCausalLM", Span(since="0.28.0", until="0.28.0")),
)
"""Architectures that a release runs on the V2 runner though its general rule would not."""


def model_runner(
    launch: Launch,
    checkpoint: Checkpoint,
    geometry: ModelGeometry,
    speculation: Speculation | None,
    pipeline: int,
    state_mode: str,
) -> str:
    """`V1` or `V2`: the environment decides, else the release's default for this model and its draft."""
    release = launch.release
    wish = launch.environment.get("VLLM_USE_V2_MODEL_RUNNER")
    lacking = v1_runner.lacking(launch, geometry, state_mode)
    if wish is not None:
        if wish.strip().lower() not in ("1", "true"):
            return "V1"
        v1_runner.check(lacking, release)
        return "V2"
    if running.forces_v2(speculation, release):
        return "V2"
    if running.keeps_v1(speculation, release, pipeline):
        return "V1"
    if (launch.get("prefill_context_parallel_size") or 1) > 1 and release.has(parallel.PCP_NEEDS_V2_RUNNER):
        v1_runner.check(lacking, release)
        return "V2"
    if lacking:
        return "V1"
    if release.has(capacity.V2_RUNNER_FOR_ALL):
        return "V2"
    if geometry.runner_type != "generate":
        return "V1"
    listed = _listed_for_v2(release, checkpoint.architectures)
    if release.has(capacity.V2_RUNNER_FOR_DENSE_MODELS):
        if geometry.has_inner_state and not listed:
            return "V1"
        return "V2" if listed or not geometry.is_moe else "V1"
    if release.has(capacity.V2_RUNNER_FOR_LISTED_MODELS) and listed:
        quantised = checkpoint.quantization is not None
        if release.has(capacity.V2_RUNNER_LIST_ADMITS_MOE_AND_QUANTISED) or not (geometry.is_moe or quantised):
            return "V2"
    return "V1"


def async_scheduling(
    launch: Launch, geometry: ModelGeometry, speculation: Speculation | None, runner: str, state_mode: str
) -> bool:
    """On unless switched off; pooling models, some speculation and executors without support go without, as did
    cached states."""
    asked = launch.get("async_scheduling")
    executor = launch.get("distributed_executor_backend")
    supported = executor != "ray" or executors.ray_schedules_asynchronously(launch)
    if asked and not supported:
        raise executors.refusal(str(executor), launch.release)
    hindrance = running.stops_async(speculation, launch.release, runner, asked=bool(asked))
    staged = runner == "V1" and given.number(launch, "pipeline_parallel_size") > 1
    named = launch.release.has(capacity.V1_RUNNER_NAMED_WITH_ASYNC)
    by_default = asked is None and launch.release.has(capacity.V1_RUNNER_STAGES_ARE_SYNCHRONOUS)
    if staged and hindrance is None and (named or by_default):
        hindrance = "pipeline parallelism"
    if state_mode != "none" and launch.release.has(state.CACHED_STATES_EXCLUDE_ASYNC):
        hindrance = "prefix caching for Mamba models"
    if asked is not None:
        if asked and hindrance is not None:
            by = "by the V1 model runner " if named else ""
            raise config_refuses(
                Stage.OPTIONS,
                InvalidValue(option="--async-scheduling", value=True, accepted=("False",)),
                f"Async scheduling is not supported {by}with {hindrance}.",
            )
        return bool(asked)
    return supported and geometry.runner_type != "pooling" and hindrance is None


def concurrent_batches(asynchronous: bool, runner: str, pipeline: int) -> int:
    """Batches that may be in flight at once (`VllmConfig.max_concurrent_batches`)."""
    if asynchronous:
        if runner == "V2":
            return pipeline + 1
        if pipeline <= 1:
            return 2
    return pipeline


def _listed_for_v2(release: Release, architectures: tuple[str, ...]) -> bool:
    return any(name in architectures and release.within(span) for name, span in V2_LISTED)
