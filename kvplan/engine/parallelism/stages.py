"""How many decoder layers each pipeline stage holds. Source: `get_pp_indices` (distributed/utils.py)."""

from __future__ import annotations

from kvplan.engine.failures import PipelinePartition
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage


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
