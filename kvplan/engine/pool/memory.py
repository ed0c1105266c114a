"""The memory left for the cache where nobody measured it: what vLLM may use of the GPU, without the weights.

vLLM measures it in a run (`Worker.determine_available_memory`): the share of the GPU that it may use, less the weights,
the peak of a forward pass and the CUDA graphs. The last two only a GPU can tell; they are left in, so that the
estimate is on the high side: what does not fit into it does not fit.
"""

from __future__ import annotations

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.cache_dtypes.dtypes import ITEM_BYTES
from kvplan.engine.config import EngineConfig
from kvplan.engine.options import given
from kvplan.engine.options.model_dtype import declared
from kvplan.engine.values import MemoryEstimate
from kvplan.launch.values import Launch

_GIB = 1 << 30

_BYTE_METHODS = ("fp8", "int8")
"""In the names of online quantisation methods that keep a weight in one byte; the others take at least half of one."""


def estimate(
    checkpoint: Checkpoint, launch: Launch, config: EngineConfig, draft: Checkpoint | None = None
) -> MemoryEstimate | None:
    """The most that can be left for the cache on one GPU, in bytes; None where the GPU was not named."""
    hardware = launch.hardware
    if hardware.assumed:
        return None
    budget = int(hardware.memory_bytes * config.gpu_memory_utilization)
    whole = checkpoint.weight_bytes
    if whole is None:
        return MemoryEstimate(hardware.memory_bytes, budget, None)
    each = whole * _kept(checkpoint, config) / _shards(config)
    if draft is not None and draft.weight_bytes is not None:
        each += draft.weight_bytes / config.tensor_parallel
    offloaded = float(given.value(launch, "cpu_offload_gb") or 0) * _GIB
    return MemoryEstimate(hardware.memory_bytes, budget, max(0, int(each - offloaded)))


def _shards(config: EngineConfig) -> int:
    """The GPUs that share the weights: with expert parallelism, data parallel ranks too share the experts."""
    shards = config.tensor_parallel * config.pipeline_parallel
    return shards * config.data_parallel if config.expert_parallel else shards


def _kept(checkpoint: Checkpoint, config: EngineConfig) -> float:
    """The share of the files' bytes that is loaded: casts and online quantisation shrink weights, and the layers of a
    draft inside the checkpoint are left out where nothing is drafted with them."""
    share = 1.0
    if checkpoint.quantization is None:
        if config.quantization is not None:
            share *= 0.5 if any(name in config.quantization for name in _BYTE_METHODS) else 0.25
        elif declared(checkpoint) in ITEM_BYTES:
            share *= ITEM_BYTES[config.model_dtype] / ITEM_BYTES[declared(checkpoint)]
    if config.speculation is None:
        layers, drafts = (
            checkpoint.text_config.get(name) for name in ("num_hidden_layers", "num_nextn_predict_layers")
        )
        if isinstance(layers, int) and isinstance(drafts, int) and layers > 0 and drafts > 0:
            share *= layers / (layers + drafts)
    return share
