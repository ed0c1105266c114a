"""The engine's settings, as they are at one moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.oracle.inside.read.plain import plain

CACHE = (
    "block_size",
    "cache_dtype",
    "user_specified_block_size",
    "kv_cache_dtype_skip_layers",
    "mamba_block_size",
    "mamba_page_size_padded",
    "mamba_cache_dtype",
    "mamba_ssm_cache_dtype",
    "mamba_cache_mode",
    "enable_prefix_caching",
    "skip_page_size_padded",
    "kv_cache_layout",
    "num_gpu_blocks",
    "num_gpu_blocks_override",
    "sliding_window",
    "calculate_kv_scales",
    "kv_sharing_fast_prefill",
    "gpu_memory_utilization",
    "kv_cache_memory_bytes",
    "kv_cache_max_concurrency",
    "kv_cache_size_tokens",
    "prefix_match_unit",
    "hash_block_size",
)
MODEL = (
    "dtype",
    "max_model_len",
    "architecture",
    "use_mla",
    "is_hybrid",
    "is_attention_free",
    "runner_type",
    "quantization",
    "disable_sliding_window",
    "is_moe",
    "is_encoder_decoder",
)
PARALLEL = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "decode_context_parallel_size",
    "prefill_context_parallel_size",
    "world_size",
    "data_parallel_size",
    "enable_expert_parallel",
    "cp_kv_cache_interleave_size",
)
SCHEDULER = (
    "max_num_batched_tokens",
    "max_num_seqs",
    "enable_chunked_prefill",
    "disable_hybrid_kv_cache_manager",
    "async_scheduling",
    "max_num_partial_prefills",
)


def settings(config: Any) -> dict[str, Any]:
    """Settings of a VllmConfig by `part.name`; those that the release lacks are left out."""
    model, parallel = config.model_config, config.parallel_config
    told = {
        **_present("cache", config.cache_config, CACHE),
        **{f"model.{name}": _or_error(model, name) for name in MODEL},
        **_heads(model, parallel),
        **_present("parallel", parallel, PARALLEL),
        **_present("scheduler", config.scheduler_config, SCHEDULER),
    }
    try:
        told["use_v2_model_runner"] = bool(config.use_v2_model_runner)
    except Exception:
        # older releases have no such setting, and some cannot tell it before the model is known
        told.pop("use_v2_model_runner", None)
    speculative = config.speculative_config
    if speculative is not None:
        told["spec.method"] = speculative.method
        told["spec.num_speculative_tokens"] = speculative.num_speculative_tokens
    return told


def _present(part: str, config: Any, names: Iterable[str]) -> dict[str, Any]:
    return {f"{part}.{name}": plain(getattr(config, name)) for name in names if hasattr(config, name)}


def _or_error(config: Any, name: str) -> Any:
    try:
        return plain(getattr(config, name))
    except Exception as error:
        return f"<{type(error).__name__}>"


def _heads(model: Any, parallel: Any) -> dict[str, Any]:
    """Heads and their size as the model's config counts them; a model may have none."""
    told: dict[str, Any] = {}
    try:
        told["model.head_size"] = model.get_head_size()
        told["model.num_kv_heads_per_gpu"] = model.get_num_kv_heads(parallel)
        told["model.total_num_kv_heads"] = model.get_total_num_kv_heads()
    except Exception as error:
        told["model.head_size"] = f"<{type(error).__name__}>"
    return told
