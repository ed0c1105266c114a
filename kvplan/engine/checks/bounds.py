"""Numbers that vLLM's config classes bound, and the number of GPUs.

Sources: the `Field(gt=…, ge=…, le=…)` of `config/cache.py`, `config/parallel.py`, `config/scheduler.py` and
`config/model.py`, and `ParallelConfig.__post_init__`. Pydantic raises a ValidationError that names the field.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from kvplan.engine.failures import InvalidValue, TooFewGpus
from kvplan.engine.stop import StartupStops, config_refuses, of_field, stop
from kvplan.engine.values import Stage
from kvplan.history import checks
from kvplan.launch.values import Launch
from kvplan.releases import Span


@dataclass(frozen=True, slots=True)
class Bound(Span):
    """What a field may be in the releases of the span: above `above`, or from `least` to `most`."""

    name: str
    above: float | None = None
    least: float | None = None
    most: float | None = None
    below: float | None = None

    def objection(self, value: float) -> str | None:
        """Pydantic's sentence about `value`, None where it is within bounds."""
        for kind, bound, holds in (
            ("greater than", self.above, operator.gt),
            ("greater than or equal to", self.least, operator.ge),
            ("less than or equal to", self.most, operator.le),
            ("less than", self.below, operator.lt),
        ):
            if bound is not None and not holds(value, bound):
                name = kind.replace(" or equal to", " equal").replace(" ", "_")
                return f"Input should be {kind} {bound:g} [type={name}, input_value={value}]"
        return None


MODEL_BOUNDS = (Bound("max_model_len", least=-1), Bound("max_logprobs", least=-1, since="0.25.1"))

MULTIMODAL_BOUNDS = (
    Bound("mm_processor_cache_gb", least=0),
    Bound("mm_shm_cache_max_object_size_mb", least=0),
    Bound("mm_encoder_fp8_scale_save_margin", above=0, since="0.21.0"),
    Bound("video_pruning_rate", least=0, below=1),
    Bound("mm_ipc_gpu_memory_gb", least=0, since="0.25.1"),
)

CACHE_BOUNDS = (
    Bound("block_size", above=0, since="0.23.0"),
    Bound("gpu_memory_utilization", above=0, most=1),
    Bound("swap_space", least=0, until="0.17.1"),
    Bound("cpu_offload_gb", least=0, until="0.17.1"),
    Bound("prefix_match_unit", above=0, since="0.26.0"),
    Bound("mamba_block_size", above=0),
    Bound("replayssm_buffer_len", above=0, since="0.27.1"),
    Bound("prefix_cache_retention_interval", least=0, since="0.29.0"),
)

PARALLEL_BOUNDS = (
    Bound("pipeline_parallel_size", least=1, since="0.23.0"),
    Bound("tensor_parallel_size", least=1, since="0.23.0"),
    Bound("prefill_context_parallel_size", least=1, since="0.23.0"),
    Bound("data_parallel_size", least=1, since="0.23.0"),
    Bound("data_parallel_size_local", least=0, since="0.23.0"),
    Bound("data_parallel_rank", least=0, since="0.23.0"),
    Bound("data_parallel_rpc_port", least=1, most=65535, since="0.28.0"),
    Bound("elastic_ep_max_dp_size", least=1, since="0.30.0"),
    Bound("dbo_decode_token_threshold", least=0, since="0.23.0"),
    Bound("dbo_prefill_token_threshold", least=0, since="0.23.0"),
    Bound("dp_sync_interval", least=1, since="0.30.0"),
    Bound("max_parallel_loading_workers", least=1, since="0.23.0"),
    Bound("ubatch_size", least=0, since="0.23.0"),
    Bound("node_rank", least=0, since="0.23.0"),
    Bound("nnodes", least=1, since="0.23.0"),
    Bound("decode_context_parallel_size", least=1, since="0.23.0"),
    Bound("data_parallel_rank", least=0, since="0.23.0"),
    Bound("data_parallel_rpc_port", least=1, most=65535, since="0.28.0"),
    Bound("dbo_decode_token_threshold", least=0, since="0.23.0"),
    Bound("dbo_prefill_token_threshold", least=0, since="0.23.0"),
    Bound("max_parallel_loading_workers", least=1, since="0.23.0"),
    Bound("dp_sync_interval", least=1, since="0.30.0"),
    Bound("elastic_ep_max_dp_size", least=1, since="0.30.0"),
)

SCHEDULER_BOUNDS = (
    Bound("max_num_queued_reqs", least=0, since="0.29.0"),
    Bound("max_num_queued_tokens", least=0, since="0.29.0"),
    Bound("max_num_scheduled_tokens", least=0, since="0.26.0", until="0.31.0"),
    Bound("max_num_scheduled_tokens", least=1, since="0.32.0"),
    Bound("max_num_active_seqs", least=1, since="0.31.0"),
    Bound("max_num_partial_prefills", least=1, until="0.26.0"),
    Bound("max_long_partial_prefills", least=1, until="0.26.0"),
    Bound("long_prefill_token_threshold", least=0, since="0.25.1"),
    Bound("watermark", least=0, below=1, since="0.24.0"),
    Bound("prefill_schedule_interval", least=1, since="0.24.0"),
    Bound("stream_interval", least=1),
)

LORA_BOUNDS = (Bound("max_loras", least=1), Bound("max_lora_cls_labels", least=1, since="0.31.0"))

LOAD_BOUNDS = (
    Bound("safetensors_prefetch_num_threads", least=1, since="0.21.0"),
    Bound("safetensors_prefetch_block_size", least=1, since="0.21.0"),
)

OBSERVABILITY_BOUNDS = (Bound("kv_cache_metrics_sample", above=0, most=1),)

OFFLOAD_BOUNDS = (
    Bound("cpu_offload_gb", least=0, since="0.18.1"),
    Bound("offload_group_size", least=0, since="0.17.1"),
    Bound("offload_num_in_group", least=1, since="0.17.1"),
    Bound("offload_prefetch_step", least=0, since="0.17.1"),
)

WHOLE_BOUNDS = (Bound("shutdown_timeout", least=0, since="0.18.1"),)

BATCH_BOUNDS = Bound("max_num_batched_tokens", least=1), Bound("max_num_seqs", least=1)


def check(launch: Launch, bounds: tuple[Bound, ...]) -> None:
    """Raises StartupStops at the first option whose value is out of bounds."""
    for bound in bounds:
        value = launch.get(bound.name)
        if launch.release.within(bound):
            _hold(bound, value)


def check_batch_sizes(tokens: int, seqs: int) -> None:
    """The same for the two batch sizes once they are derived from each other."""
    for bound, value in zip(BATCH_BOUNDS, (tokens, seqs), strict=True):
        _hold(bound, value)


def _hold(bound: Bound, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return
    objection = bound.objection(value)
    if objection is None:
        return
    option = "--" + bound.name.replace("_", "-")
    raise config_refuses(
        Stage.OPTIONS,
        InvalidValue(option=option, value=value),
        of_field(bound.name, objection),
    )


def check_length(launch: Launch, max_model_len: int) -> None:
    """Newer releases want a positive length; older ones fail on the batch size that they derive from it."""
    if max_model_len < 1 and launch.release.has(checks.SIZES_BOUNDED_BY_FIELD):
        raise config_refuses(
            Stage.OPTIONS,
            InvalidValue(option="--max-model-len", value=max_model_len),
            f"max_model_len must be a positive integer, got int: {max_model_len}. Example: max_model_len=2048",
        )


def check_tensor_division(launch: Launch) -> None:
    """Before the sizes had bounds, a tensor-parallel size of 0 failed where the heads are divided by it."""
    if launch.get("tensor_parallel_size") == 0 and not launch.release.has(checks.SIZES_BOUNDED_BY_FIELD):
        raise _division(Stage.PARALLEL, "integer modulo by zero", "--tensor-parallel-size", 0)


def check_block_division(launch: Launch) -> None:
    """A block size of 0 or less fails where the blocks are counted, also only before it had a bound."""
    size = launch.get("block_size")
    if size is None or size > 0 or launch.release.has(checks.SIZES_BOUNDED_BY_FIELD):
        return
    message = "integer modulo by zero" if size < 0 else "integer division or modulo by zero"
    raise _division(Stage.CAPACITY, message, "--block-size", size)


def _division(stage: Stage, message: str, option: str, value: int) -> StartupStops:
    return stop(stage, InvalidValue(option=option, value=value), message, exception="ZeroDivisionError")


def check_data_parallel(launch: Launch) -> None:
    """Before the sizes had bounds, a data-parallel size of 0 failed on the rank that it leaves no room for."""
    if launch.get("data_parallel_size") == 0:
        raise config_refuses(
            Stage.OPTIONS,
            InvalidValue(option="--data-parallel-size", value=0),
            "data_parallel_rank (0) must be in the range [0, 0)",
        )


def check_gpu_count(launch: Launch, world_size: int) -> None:
    """vLLM starts its workers on this node unless told otherwise: `world_size` ranks need as many GPUs.

    Only where `--gpu NAME:COUNT` says how many there are.
    """
    count = launch.hardware.count
    elsewhere = launch.get("distributed_executor_backend") is not None or (launch.get("nnodes") or 1) > 1
    if count is None or elsewhere or world_size == 1 or world_size <= count:
        return
    raise config_refuses(
        Stage.PARALLEL,
        TooFewGpus(ranks=world_size, gpus=count),
        f"World size ({world_size}) is larger than the number of available GPUs ({count}) in this node. If this is "
        "intentional and you are using:\n- ray, set '--distributed-executor-backend ray'.\n- multiprocessing, set "
        "'--nnodes' appropriately.",
    )
