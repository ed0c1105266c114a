"""The executor that vLLM's engine core is given: it builds one worker a pipeline stage and stops before allocation."""

from __future__ import annotations

import contextlib
import copy
import importlib
import pickle
from typing import Any, ClassVar

import torch
from vllm.v1.executor.abstract import Executor

from tests.oracle.inside import drafts, ranks
from tests.oracle.inside.answer import Answer
from tests.oracle.inside.construct import construct
from tests.oracle.inside.worker import Worker


class PlannedError(Exception):
    """The cache is planned; start-up need not go on."""


class OracleExecutor(Executor):
    """Runs nothing. One launch a process: what it made stays here, for start-up may end in an exception."""

    uses_ray = False
    supports_pp = True

    answer: ClassVar[Answer]
    available_bytes: ClassVar[int]
    workers: ClassVar[list[Worker]] = []
    planned: ClassVar[list[Any]] = []
    """The KV cache configs, one a worker."""

    def _init_executor(self) -> None:
        self.answer.stage = "load_model"
        parallel = self.vllm_config.parallel_config
        stages = parallel.pipeline_parallel_size
        in_stage = parallel.world_size // stages
        for stage in range(stages):
            config = self.vllm_config if parallel.world_size == 1 else _copied(self.vllm_config)
            self.workers.append(_worker(config, stage * in_stage, stage, self.answer))

    def collective_rpc(self, method: Any, timeout: Any = None, args: Any = (), kwargs: Any = None, **more: Any) -> Any:
        """Call every worker; a function sent to them is not run."""
        if callable(method):
            return [None for _ in self.workers]
        if method == "initialize_from_config":
            self.initialize_from_config(args[0])
        return [getattr(worker, method)(*args, **(kwargs or {})) for worker in self.workers]

    def determine_available_memory(self) -> list[int]:
        """The question's memory, or what `--kv-cache-memory-bytes` sets."""
        self.answer.stage = "kv_cache_configs"
        fixed = getattr(self.cache_config, "kv_cache_memory_bytes", None)
        available = int(fixed or self.available_bytes)
        self.answer.told["available_memory_bytes"] = available
        return [available] * len(self.workers)

    def initialize_from_config(self, planned: Any) -> None:
        """Here the cache would be allocated."""
        self.planned[:] = planned
        raise PlannedError

    def check_health(self) -> None:
        """Always well."""

    def register_failure_callback(self, callback: Any) -> None:
        """Nothing fails later."""


def _copied(config: Any) -> Any:
    """A config of the rank's own."""
    import cloudpickle

    try:
        return pickle.loads(cloudpickle.dumps(config))
    except Exception:
        return copy.deepcopy(config)


def _worker(config: Any, rank: int, stage: int, answer: Answer) -> Worker:
    """A worker with its models built, as far as its own start-up comes before the specs are asked for."""
    from vllm.platforms import current_platform

    answer.stage = "init_distributed"
    ranks.become(config, rank)
    answer.stage = "load_model"
    worker = Worker(config, rank, stage)
    # None where the release's platform has no such attribute
    if current_platform.check_if_supports_dtype:
        current_platform.check_if_supports_dtype(config.model_config.dtype)
    _set_operators(config)
    _make_workspace()
    worker.model = construct(config, config.model_config, answer)
    # runners build drafts on the pipeline's last stage
    if drafts.wanted(config) and stage == config.parallel_config.pipeline_parallel_size - 1:
        answer.stage = "load_draft_model"
        drafts.load(config, worker, answer)
    answer.stage = "update_block_size_for_backend"
    if "update_block_size_for_backend" in dir(type(current_platform)):
        current_platform.update_block_size_for_backend(config)
    answer.stage = "get_kv_cache_spec"
    return worker


def _set_operators(config: Any) -> None:
    """Priorities of vLLM's operators, in releases that have them (they differ in what they have)."""
    with contextlib.suppress(Exception):
        config.kernel_config.ir_op_priority.set_default()
        importlib.import_module("vllm.ir").set_default_torch_wrap(config.compilation_config.ir_enable_torch_wrap)


def _make_workspace() -> None:
    """The workspace of the worker, in releases that have one."""
    with contextlib.suppress(Exception):
        importlib.import_module("vllm.v1.worker.workspace").init_workspace_manager(torch.device("meta"), 1)
