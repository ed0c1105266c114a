"""What a launch names that only the machine knows which runs it: classes and plugins from outside vLLM, revisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kvplan.checkpoint.values import Checkpoint, Source
from kvplan.launch.values import Launch

_CLASSES = {
    "worker_cls": ("--worker-cls", "the worker class"),
    "worker_extension_cls": ("--worker-extension-cls", "the extension of the worker class"),
    "scheduler_cls": ("--scheduler-cls", "the scheduler class"),
    "distributed_executor_backend": ("--distributed-executor-backend", "the executor class"),
}
_REVISIONS = {"revision": "--revision", "code_revision": "--code-revision"}
_PLUGINS = "VLLM_PLUGINS"


@dataclass(frozen=True, slots=True)
class Unseen:
    """One such thing: the option (or variable) that names it, what it is, and its name."""

    option: str
    what: str
    name: str


def known_to_machine_only(launch: Launch, checkpoint: Checkpoint) -> tuple[Unseen, ...]:
    """Everything of the kind that the launch names, options first."""
    return tuple(_found(launch, checkpoint))


def _found(launch: Launch, checkpoint: Checkpoint) -> Iterator[Unseen]:
    for option, (flag, what) in _CLASSES.items():
        name = launch.get(option)
        if isinstance(name, str) and "." in name and not name.startswith("vllm."):
            yield Unseen(flag, what, name)
    for option, flag in _REVISIONS.items():
        name = launch.get(option)
        if name is not None and checkpoint.source is not Source.DIRECTORY:
            yield Unseen(flag, "the revision of the model", str(name))
    transfer, speculation = launch.get("kv_transfer_config"), launch.get("speculative_config")
    if isinstance(transfer, Mapping) and transfer.get("kv_connector_module_path"):
        yield Unseen("--kv-transfer-config", "the connector of the module", str(transfer["kv_connector_module_path"]))
    if isinstance(speculation, Mapping) and speculation.get("method") == "custom_class":
        yield Unseen("--speculative-config", "the proposer class", str(speculation.get("model")))
    if launch.environment.get(_PLUGINS):
        yield Unseen(_PLUGINS, "the plugin", launch.environment[_PLUGINS])
