"""What vLLM settles and refuses before it looks at speculative decoding: model, cache and parallel config.

Source: the order of `EngineArgs.create_engine_config` (engine/arg_utils.py). These checks need the options and a few
numbers of the config, not the model's layers, so they come first whatever is wrong with the model.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.checks import bounds, formats, multimodal, quantisation, ranks
from kvplan.engine.models.numbers import ModelNumbers
from kvplan.engine.options import batch, cache, connectors, lengths
from kvplan.engine.parallelism import context as context_parallel
from kvplan.engine.parallelism.context import Sizes
from kvplan.launch.values import Launch


@dataclass(frozen=True, slots=True)
class Early:
    """What is settled by then. Lengths in tokens."""

    cache_dtype: str
    """As asked: `auto` is not resolved yet."""
    max_model_len: int
    length_cause: str
    quantization_method: str | None
    context: Sizes


def settle(checkpoint: Checkpoint, launch: Launch, model: ModelNumbers) -> Early:
    """Raises StartupStops where vLLM refuses, in vLLM's order."""
    formats.check(checkpoint, launch)
    bounds.check(launch, bounds.MODEL_BOUNDS)
    length, cause = lengths.max_model_len(checkpoint, launch)
    if model.multimodal:
        multimodal.check(launch)
    method = quantisation.verify(checkpoint, launch)
    bounds.check_length(launch, length)
    batch.check_features(launch)
    connectors.check(launch)
    dtype = cache.requested_dtype(launch)
    bounds.check(launch, bounds.CACHE_BOUNDS)
    ranks.check_launch(launch, is_moe=model.is_moe)
    ranks.check_data_parallel_backend(launch)
    bounds.check(launch, bounds.PARALLEL_BOUNDS)
    bounds.check_data_parallel(launch)
    bounds.check_tensor_division(launch)
    ranks.check_parallel(launch)
    context = context_parallel.sizes(launch)
    ranks.check_workers(launch)
    return Early(dtype, length, cause, method, context)
