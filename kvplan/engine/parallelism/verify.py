"""What a model's numbers allow of tensor, pipeline, expert and context parallelism, before any layer is built.

Source: `ModelConfig.verify_with_parallel_config` (config/model.py), which the engine config calls first of all.
"""

from __future__ import annotations

from kvplan.engine.failures import HeadsNotDivisible, InvalidValue, NoExperts, PipelineUnsupported
from kvplan.engine.models.numbers import ModelNumbers
from kvplan.engine.parallelism import context as context_parallel
from kvplan.engine.stop import StartupStops, config_refuses, stop
from kvplan.engine.values import Stage
from kvplan.releases import Release


def pipeline_unsupported(*, draft: bool = False) -> StartupStops:
    """The refusal of a target or draft whose class cannot be cut into pipeline stages."""
    return stop(
        Stage.PARALLEL,
        PipelineUnsupported(draft=draft),
        "Pipeline parallelism is not supported for this model. Supported models implement the `SupportsPP` interface.",
        exception="NotImplementedError",
    )


def verify(
    model: ModelNumbers,
    release: Release,
    *,
    tensor: int,
    stages: int,
    decode: int,
    expert_parallel: bool,
    shards_hidden_states: bool,
) -> None:
    """Raises StartupStops where the sizes do not suit the model; the sizes are those of the options."""
    if shards_hidden_states and tensor > 1:
        _check_hidden_states(model, stages)
    if model.total_heads % tensor:
        raise config_refuses(
            Stage.PARALLEL,
            HeadsNotDivisible(heads=model.total_heads, tensor_parallel=tensor),
            f"Total number of attention heads ({model.total_heads}) must be divisible by tensor parallel size "
            f"({tensor}).",
        )
    if expert_parallel and not model.is_moe:
        raise config_refuses(
            Stage.PARALLEL,
            NoExperts(architecture=model.architecture),
            "Number of experts in the model must be greater than 0 when expert parallelism is enabled.",
        )
    if stages > 1 and not model.supports_pipeline:
        raise pipeline_unsupported()
    if model.use_mla:
        return
    if decode > 1 and not model.total_kv_heads:
        raise stop(
            Stage.PARALLEL,
            InvalidValue(option=context_parallel.DECODE, value=decode),
            "integer division or modulo by zero",
            exception="ZeroDivisionError",
        )
    context_parallel.check_heads(decode, tensor, model.total_heads, model.total_kv_heads, release)


def _check_hidden_states(model: ModelNumbers, stages: int) -> None:
    """What --enable-hc-sp asks: a class that spreads the streams of its hidden state over ranks, and no pipeline."""
    if not model.spreads_hidden_states:
        message = "--enable-hc-sp is not supported for this model"
    elif stages > 1:
        message = "--enable-hc-sp requires PP=1"
    else:
        return
    raise config_refuses(Stage.PARALLEL, InvalidValue(option="--enable-hc-sp"), message)
