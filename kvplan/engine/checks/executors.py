"""Which executors schedule asynchronously. Sources: `config/vllm.py` and `v1/executor/abstract.py`."""

from __future__ import annotations

from kvplan.engine.failures import InvalidValue
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
    return launch.environment.get(_SWITCH, default) not in ("", "0")


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
