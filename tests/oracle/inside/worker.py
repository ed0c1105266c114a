"""A worker without a GPU: what the engine's core calls on it, answered by the release's own runner where it matters."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from tests.oracle.inside.versions import runner_dtype, v2_by_config_or_environment


class Worker:
    """One rank of a pipeline stage. What is not defined here does nothing and returns None."""

    def __init__(self, config: Any, rank: int, stage: int) -> None:
        self.vllm_config = config
        self.rank = rank
        self.pp_rank = stage
        self.model: Any = None
        self.speculator: Any = None
        self.specs: dict[str, Any] | None = None
        """KV cache specs by layer, once they are made."""
        self.shared: dict[str, str] = {}
        """Layer to the layer whose cache it uses."""
        self.v2 = False
        self.cache_config = config.cache_config
        self.model_config = config.model_config
        self.parallel_config = config.parallel_config
        self.scheduler_config = config.scheduler_config
        self.speculative_config = config.speculative_config

    def get_kv_cache_spec(self) -> dict[str, Any]:
        """The specs, by the method of the runner that vLLM would use."""
        self.v2 = v2_by_config_or_environment(self.vllm_config)
        runner = self._runner()
        try:
            if self.v2:
                from vllm.v1.worker.gpu.model_runner import GPUModelRunner
            else:
                from vllm.v1.worker.gpu_model_runner import GPUModelRunner
            self.specs = GPUModelRunner.get_kv_cache_spec(runner)
        finally:
            self.shared = runner.shared_kv_cache_layers
        return self.specs or {}

    def _runner(self) -> types.SimpleNamespace:
        """As much of a runner as the method looks at, in any release."""
        runner = types.SimpleNamespace(
            vllm_config=self.vllm_config,
            shared_kv_cache_layers={},
            speculator=self.speculator,
            dcp_size=getattr(self.parallel_config, "decode_context_parallel_size", 1) or 1,
            model_config=self.model_config,
            cache_config=self.cache_config,
            speculative_config=self.speculative_config,
            parallel_config=self.parallel_config,
            compilation_config=self.vllm_config.compilation_config,
            scheduler_config=self.scheduler_config,
            block_size=self.cache_config.block_size,
            kv_cache_dtype=runner_dtype(self.cache_config.cache_dtype, self.model_config.dtype),
        )
        # an attribute of the runner until 0.11.0
        if hasattr(self.model_config, "attention_chunk_size"):
            runner.attention_chunk_size = self.model_config.attention_chunk_size
        if self.v2:
            runner.is_encoder_only = bool(getattr(self.vllm_config, "is_encoder_only", False))
        return runner

    def get_supported_kv_cache_layouts(self) -> Any:
        """vLLM's own answer."""
        from vllm.v1.worker.worker_base import WorkerBase

        return WorkerBase.get_supported_kv_cache_layouts(self)

    def set_kv_cache_layout(self, *args: Any, **keywords: Any) -> Any:
        """What vLLM does."""
        from vllm.v1.worker.worker_base import WorkerBase

        return WorkerBase.set_kv_cache_layout(self, *args, **keywords)

    def update_max_model_len(self, length: int) -> None:
        """The planner found the longest request that fits."""
        self.model_config.max_model_len = length

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing

    def bare_runner(self, runner_class: Any, made: Any, groups: list[Any]) -> Any:
        """A V1 runner that was never initialised, with what allocation and reshaping of `made` look at."""
        runner = object.__new__(runner_class)
        config = self.vllm_config
        runner.vllm_config, runner.cache_config, runner.kv_cache_config = config, config.cache_config, made
        runner.model_config, runner.compilation_config = config.model_config, config.compilation_config
        runner.parallel_config, runner.speculative_config = config.parallel_config, config.speculative_config
        runner.attn_groups, runner.device = groups, torch.device("meta")
        runner.runner_only_attn_layers, runner.shared_kv_cache_layers = set(), {}
        return runner


def _nothing(*args: object, **keywords: object) -> None:
    pass
