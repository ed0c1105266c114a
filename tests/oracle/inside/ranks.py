"""One process that believes it is a rank of many: torch's fake process group with the world's full size."""

from __future__ import annotations

import inspect
from typing import Any

import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from tests.oracle.inside.stubs.noted import STUBBED

_patched: list[bool] = []


def pretend_one_node() -> None:
    """All ranks lie on one node, as the GPUs of a server do. Once a process, before anything is started."""
    from vllm.distributed import parallel_state

    parallel_state.in_the_same_node_as = lambda group, source_rank=0: (
        [True] * (group.size() if hasattr(group, "size") else group.world_size)
    )
    STUBBED["vllm.distributed"] = (
        "single process, torch 'fake' process group of the full world size; "
        "no device communicators; all ranks on one node"
    )


def become(config: Any, rank: int) -> None:
    """Make this process rank `rank` of the launch's world; it may have been another before."""
    from vllm.config import set_current_vllm_config
    from vllm.distributed import parallel_state

    parallel = config.parallel_config
    world = parallel.world_size * parallel.data_parallel_size
    if _patched:
        _leave(parallel_state)
    else:
        _patch(parallel_state)
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    _patched[:] = [True]
    with set_current_vllm_config(config):
        parallel_state.init_distributed_environment(
            world_size=world,
            rank=rank,
            local_rank=0,
            distributed_init_method="tcp://127.0.0.1:1",
            backend="fake",
        )
        parallel_state.ensure_model_parallel_initialized(*_sizes(parallel, parallel_state))


def _leave(parallel_state: Any) -> None:
    try:
        parallel_state.destroy_model_parallel()
    except Exception as error:
        STUBBED["vllm.distributed.destroy"] = repr(error)
    parallel_state._WORLD = None
    if hasattr(parallel_state, "_NODE_COUNT"):
        parallel_state._NODE_COUNT = None
    if dist.is_initialized():
        dist.destroy_process_group()


def _patch(parallel_state: Any) -> None:
    """Every group is a fake one, without communicators of a device."""
    real_group = dist.new_group

    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, **more: Any) -> Any:
        described = {key: value for key, value in more.items() if key == "group_desc"}
        return real_group(ranks=ranks, backend="fake", **described)

    dist.new_group = new_group
    real_init = parallel_state.GroupCoordinator.__init__
    signature = inspect.signature(real_init)

    def init(self: Any, *args: Any, **keywords: Any) -> None:
        bound = signature.bind(self, *args, **keywords)
        bound.arguments["use_device_communicator"] = False
        if "use_message_queue_broadcaster" in signature.parameters:
            bound.arguments["use_message_queue_broadcaster"] = False
        bound.arguments["torch_distributed_backend"] = "fake"
        real_init(*bound.args, **bound.kwargs)

    parallel_state.GroupCoordinator.__init__ = init


def _sizes(parallel: Any, parallel_state: Any) -> list[int]:
    """The leading arguments of the release's own function, which grew over time."""
    by_name = {
        "tensor": parallel.tensor_parallel_size,
        "pipeline": parallel.pipeline_parallel_size,
        "prefill": getattr(parallel, "prefill_context_parallel_size", 1),
        "decode": getattr(parallel, "decode_context_parallel_size", 1) or 1,
    }
    sizes = []
    for name in inspect.signature(parallel_state.ensure_model_parallel_initialized).parameters:
        size = by_name.get(name.split("_", maxsplit=1)[0])
        if size is None:
            break
        sizes.append(size)
    return sizes
