"""vLLM's start-up from the command line to the views of the cache, stage by stage.

Stages, as answers name them: `args`, `create_engine_config`, `load_model`, `load_draft_model`,
`update_block_size_for_backend`, `get_kv_cache_spec`, `kv_cache_configs`, `kernel_block_size`, `kv_cache_view`, `done`.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from tests.oracle.gpus import Gpu
from tests.oracle.inside import stubs
from tests.oracle.inside.answer import Answer
from tests.oracle.job import Case

LINES_OF_CONFIG = 60
LINES_OF_START = 80
"""How many of the log's last lines are kept."""


def prepare(gpu: Gpu, release: str) -> None:
    """Pretend the machine and import vLLM; once a process, before its cases."""
    stubs.install(gpu, release)
    registry: Any = importlib.import_module("vllm.model_executor.models.registry")
    if hasattr(registry, "_run_in_subprocess"):
        # a fresh process would see neither the stubs nor what is imported
        registry._run_in_subprocess = lambda function: function()
    for name in ("vllm.engine.arg_utils", "vllm.v1.engine.core", "vllm.v1.worker.gpu_model_runner"):
        importlib.import_module(name)
    with contextlib.suppress(Exception):
        # the V2 runner, which older releases lack
        importlib.import_module("vllm.v1.worker.gpu.model_runner")

    from tests.oracle.inside import ranks

    ranks.pretend_one_node()


def run(case: Case, gpu: Gpu, answer: Answer) -> None:
    """Start `case`; raises whatever vLLM raises, with the answer filled up to there."""
    import torch
    import transformers
    from vllm.platforms import current_platform

    from tests.oracle.inside import options, views, watching
    from tests.oracle.inside.read.settings import settings
    from tests.oracle.inside.stubs.devices import CudaToMeta

    log = watching.Log()
    log.attach()
    answer.told |= {
        "device_capability": list(gpu.capability),
        "device_name": gpu.device_name,
        "transformers_version": transformers.__version__,
        "torch_version": torch.__version__,
        "platform": type(current_platform).__name__,
    }
    _check_platform(current_platform, gpu)
    answer.told["backend_selection"] = watching.watch_backends(type(current_platform))
    CudaToMeta().__enter__()

    answer.stage = "args"
    arguments = options.parsed(case.config, case.flags)
    answer.note("skip_tokenizer_init forced True (no tokenizer files)")
    answer.stage = "create_engine_config"
    try:
        config = options.configured(arguments)
    finally:
        answer.told["log"] = log.lines(LINES_OF_CONFIG)
    answer.told["after_config"] = settings(config)
    executor = _start(config, case, answer, log)
    answer.stage = "done"
    views.look(config, executor.workers, executor.planned, answer)


def _check_platform(platform: Any, gpu: Gpu) -> None:
    """Raises AssertionError where vLLM did not find the pretended GPU: the oracle's own fault."""
    found = platform.is_rocm() if gpu.is_amd else platform.is_cuda()
    if not found or tuple(platform.get_device_capability()) != gpu.capability:
        raise AssertionError(f"vLLM does not see the pretended GPU: {platform}")


def _start(config: Any, case: Case, answer: Answer, log: Any) -> Any:
    """Start the engine's core; whatever happens, all that the workers and the planner made is read off."""
    from vllm.v1.engine.core import EngineCore

    from tests.oracle.inside.executor import OracleExecutor, PlannedError
    from tests.oracle.inside.read.layers import workers
    from tests.oracle.inside.read.planning import planning
    from tests.oracle.inside.read.settings import settings

    OracleExecutor.answer, OracleExecutor.available_bytes = answer, case.available_bytes
    try:
        with contextlib.suppress(PlannedError):
            EngineCore.__init__(EngineCore.__new__(EngineCore), config, OracleExecutor, False)
    finally:
        answer.told["log"] = log.lines(LINES_OF_START, without="non-default args")
        if OracleExecutor.workers:
            answer.told["workers"] = workers(OracleExecutor.workers)
        answer.told["after_start"] = settings(config)
        if OracleExecutor.planned:
            lines = [text for _, text in log.records]
            answer.told["kv"] = planning(config, OracleExecutor.planned, lines)
    return OracleExecutor
