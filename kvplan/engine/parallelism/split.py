"""Stage 3: heads per tensor-parallel rank, decoder layers per pipeline stage.

Sources: `ModelConfig.verify_with_parallel_config` (config/model.py), `get_pp_indices` (distributed/utils.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.engine.config import EngineConfig
from kvplan.engine.failures import (
    HeadsNotDivisible,
    InvalidValue,
    KvHeadsNotDivisible,
    NoExperts,
    PartUnnamed,
    PipelinePartition,
    PipelineUnsupported,
)
from kvplan.engine.models.geometry import Kind, LayerGeometry, ModelGeometry
from kvplan.engine.parallelism import context as context_parallel
from kvplan.engine.stop import StartupStops, config_refuses, stop
from kvplan.engine.values import Stage, Step


@dataclass(frozen=True, slots=True)
class Split:
    """How the model is spread: heads a rank, and the first layer of each pipeline stage."""

    tensor: int
    stage_starts: tuple[int, ...]
    """First decoder layer of each pipeline stage, ascending."""
    steps: tuple[Step, ...] = ()

    def rank_of(self, index: int) -> int:
        """The pipeline stage that owns decoder layer `index`; layers past the last one belong to the last stage."""
        rank = 0
        for stage, start in enumerate(self.stage_starts):
            if index >= start:
                rank = stage
        return rank

    def bounds(self, stage: int, layers: int) -> tuple[int, int]:
        """The first decoder layer of a stage, and the one after its last, of so many."""
        ends = (*self.stage_starts[1:], layers)
        return self.stage_starts[stage], ends[stage]

    def heads(self, total: int) -> int:
        """Heads of one rank; fewer heads than ranks are replicated."""
        return max(1, total // self.tensor)


def pipeline_unsupported(*, draft: bool = False) -> StartupStops:
    """The refusal of a target or draft whose class cannot be cut into pipeline stages."""
    return stop(
        Stage.PARALLEL,
        PipelineUnsupported(draft=draft),
        "Pipeline parallelism is not supported for this model. Supported models implement the `SupportsPP` interface.",
        exception="NotImplementedError",
    )


def split(geometry: ModelGeometry, config: EngineConfig) -> Split:
    """The split of the model over ranks. Raises StartupStops where vLLM refuses it."""
    tensor, stages = config.tensor_parallel, config.pipeline_parallel
    if config.shards_hidden_states and tensor > 1:
        _check_hidden_states(geometry, stages)
    if geometry.total_heads % tensor:
        raise config_refuses(
            Stage.PARALLEL,
            HeadsNotDivisible(heads=geometry.total_heads, tensor_parallel=tensor),
            f"Total number of attention heads ({geometry.total_heads}) must be divisible by tensor parallel "
            f"size ({tensor}).",
        )
    if config.expert_parallel and not geometry.is_moe:
        raise config_refuses(
            Stage.PARALLEL,
            NoExperts(architecture=geometry.architecture),
            "Number of experts in the model must be greater than 0 when expert parallelism is enabled.",
        )
    if stages > 1 and not geometry.supports_pipeline:
        raise pipeline_unsupported()
    reason = next((layer.one_stage_because for layer in geometry.layers if layer.one_stage_because), None)
    if stages > 1 and reason is not None:
        raise stop(Stage.PARALLEL, PipelineUnsupported(), reason, exception="NotImplementedError")
    if stages > 1 and geometry.pipelines_unnamed_part:
        raise config_refuses(
            Stage.LAYERS,
            PartUnnamed(),
            "No model architectures are specified",
        )
    if not geometry.use_mla:
        heads, kv_heads = geometry.total_heads, geometry.total_kv_heads
        context_parallel.check_heads(config.decode_context_parallel, tensor, heads, kv_heads, config.release)
    counts = stage_sizes(geometry.num_layers, stages, config.pipeline_partition)
    starts = tuple(sum(counts[:stage]) for stage in range(stages))
    steps = []
    if tensor > 1:
        steps.append(
            Step(
                Stage.PARALLEL,
                "parallel.kv_heads",
                f"{max(1, geometry.total_kv_heads // tensor)} a rank",
                f"{geometry.total_kv_heads} KV heads over {tensor} ranks"
                + (" (MLA keeps one latent row on every rank)" if geometry.use_mla else ""),
                option="--tensor-parallel-size",
            )
        )
    if stages > 1:
        steps.append(
            Step(
                Stage.PARALLEL,
                "parallel.stages",
                ", ".join(str(count) for count in counts),
                f"{geometry.num_layers} layers over {stages} pipeline stages",
                option="--pipeline-parallel-size",
            )
        )
    return Split(tensor, starts, tuple(steps))


def _check_hidden_states(geometry: ModelGeometry, stages: int) -> None:
    """What --enable-hc-sp asks: a class that spreads the streams of its hidden state over ranks, and no pipeline."""
    if not geometry.spreads_hidden_states:
        message = "--enable-hc-sp is not supported for this model"
    elif stages > 1:
        message = "--enable-hc-sp requires PP=1"
    else:
        return
    raise config_refuses(
        Stage.PARALLEL,
        InvalidValue(option="--enable-hc-sp"),
        message,
    )


def check_kv_heads(layer: LayerGeometry, tensor: int) -> None:
    """Model code asserts, without a text, that KV heads divide over ranks or ranks over KV heads."""
    if layer.kind not in (Kind.ATTENTION, Kind.OWN) or not layer.total_kv_heads:
        return
    larger, smaller = max(layer.total_kv_heads, tensor), min(layer.total_kv_heads, tensor)
    if larger % smaller:
        raise stop(
            Stage.PARALLEL,
            KvHeadsNotDivisible(kv_heads=layer.total_kv_heads, tensor_parallel=tensor, layer=layer.name),
            "",
            exception="AssertionError",
        )


def stage_sizes(layers: int, stages: int, partition: str | None) -> list[int]:
    """Decoder layers of each pipeline stage: an equal share, the remainder from the last but one backwards."""
    if partition is not None:
        try:
            sizes = [int(part) for part in partition.split(",")]
        except ValueError:
            raise stop(Stage.PARALLEL, PipelinePartition(), f"Invalid partition string: {partition}") from None
        if len(sizes) != stages:
            raise stop(
                Stage.PARALLEL, PipelinePartition(), f"len(partitions)={len(sizes)} does not match pp_size={stages}."
            )
        if sum(sizes) != layers:
            raise stop(
                Stage.PARALLEL,
                PipelinePartition(),
                f"sum(partitions)={sum(sizes)} does not match num_hidden_layers={layers}.",
            )
        return sizes
    sizes = [layers // stages] * stages
    for position in range(2, layers % stages + 2):
        sizes[-position] += 1
    return sizes
