"""Stage 3: heads per tensor-parallel rank, decoder layers per pipeline stage.

Source: `get_pp_indices` (distributed/utils.py). What the model's numbers refuse is in `parallelism/verify.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.engine.config import EngineConfig
from kvplan.engine.failures import KvHeadsNotDivisible, PartUnnamed, PipelineUnsupported
from kvplan.engine.models.geometry import Kind, LayerGeometry, ModelGeometry
from kvplan.engine.parallelism.stages import stage_sizes
from kvplan.engine.stop import config_refuses, stop
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


def split(geometry: ModelGeometry, config: EngineConfig) -> Split:
    """The split of the model over ranks. Raises StartupStops where vLLM refuses it."""
    tensor, stages = config.tensor_parallel, config.pipeline_parallel
    reason = next((layer.one_stage_because for layer in geometry.layers if layer.one_stage_because), None)
    if stages > 1 and reason is not None:
        raise stop(Stage.PARALLEL, PipelineUnsupported(), reason, exception="NotImplementedError")
    if stages > 1 and geometry.pipelines_unnamed_part:
        raise config_refuses(
            Stage.LAYERS,
            PartUnnamed(),
            "No model architectures are specified",
        )
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
