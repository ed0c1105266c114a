"""Which executors schedule asynchronously. Sources: `config/vllm.py` and `v1/executor/abstract.py`."""

from __future__ import annotations

from kvplan.engine.failures import InvalidValue
from kvplan.engine.options import given
from kvplan.engine.stop import StartupStops, config_refuses
from kvplan.engine.values import Stage
from kvplan.history import checks
from kvplan.launch.values import Launch
from kvplan.releases import Release

_SWITCH = "VLLM_USE_RAY_V2_EXECUTOR_BACKEND"


def ray_schedules_asynchronously(launch: Launch) -> bool:
    """Whether the Ray executor of this launch works with async scheduling."""
    release = launch.release
    if release.has(checks.RAY_EXECUTOR_V2_IS_THE_ONLY):
        return True
    if not release.has(checks.RAY_EXECUTOR_V2_EXISTS):
        return False
    default = "1" if release.has(checks.RAY_EXECUTOR_V2_IS_DEFAULT) else "0"
    return given.variable(launch, _SWITCH, default)


_KNOWN = ("ray", "mp", "uni", "external_launcher")


def check(launch: Launch) -> None:
    """Raises StartupStops for an executor that is no path of a class: `module.Class` is split at its last dot."""
    name = launch.get("distributed_executor_backend")
    if isinstance(name, str) and name not in _KNOWN and "." not in name:
        raise config_refuses(
            Stage.OPTIONS,
            InvalidValue(option="--distributed-executor-backend", value=name, accepted=_KNOWN),
            "not enough values to unpack (expected 2, got 1)",
        )


def refusal(executor: str, release: Release) -> StartupStops:
    """The error for --async-scheduling with an executor that cannot."""
    message = f"`{executor}` does not support async scheduling yet."
    if not release.has(checks.EXECUTORS_SAY_WHETHER_ASYNC):
        message = (
            "Currently, async scheduling only supports `mp`, `uni`, or `external_launcher` distributed executor "
            f"backend, but you chose `{executor}`."
        )
    return config_refuses(
        Stage.OPTIONS,
        InvalidValue(option="--async-scheduling", value=True),
        message,
    )
