"""The kernels that update states: which exist, and what they can be told.

Sources: `MambaConfig` (config/mamba.py), its overrides in `create_engine_config` (engine/arg_utils.py), and
`VllmConfig.__post_init__`. All of it is checked whatever the model.
"""

from __future__ import annotations

from kvplan.engine.failures import InvalidValue
from kvplan.engine.options import given
from kvplan.engine.stop import config_refuses, stop
from kvplan.engine.values import Stage
from kvplan.history import checks as history
from kvplan.launch.values import Launch

_ALGORITHMS = ("auto", "simple", "vertical", "horizontal")


def check(launch: Launch) -> None:
    """Raises StartupStops for a backend that does not exist, or an algorithm that it has not."""
    backend = given.value(launch, "mamba_backend")
    if backend is None:
        return
    known = ("TRITON", "FLASHINFER", *(("CPU",) if launch.release.has(history.MAMBA_BACKEND_ON_CPU) else ()))
    name = str(backend).upper()
    if name not in known:
        raise stop(
            Stage.OPTIONS,
            InvalidValue(option="--mamba-backend", value=backend, accepted=tuple(one.lower() for one in known)),
            f"Unknown Mamba SSU backend: '{name}'. Valid options are: {', '.join(known)}",
        )
    algorithm = launch.get("mamba_ssu_algorithm")
    if algorithm is None:
        return
    if algorithm not in _ALGORITHMS:
        raise stop(
            Stage.OPTIONS,
            InvalidValue(option="--mamba-ssu-algorithm", value=algorithm, accepted=_ALGORITHMS),
            f"Unknown Mamba SSU algorithm: '{algorithm}'. Valid options are: {', '.join(_ALGORITHMS)}",
        )
    if name != "FLASHINFER":
        raise stop(
            Stage.OPTIONS,
            InvalidValue(option="--mamba-ssu-algorithm", value=algorithm),
            "Mamba SSU algorithm selection is only supported with the FlashInfer backend. Please set `--mamba-backend "
            "flashinfer`, or omit `--mamba-ssu-algorithm`.",
        )


def check_rounding(launch: Launch) -> None:
    """Raises StartupStops for stochastic rounding of states that are not kept in half precision."""
    rounded = given.flag(launch, "enable_mamba_cache_stochastic_rounding")
    if not rounded or not launch.release.has(history.STOCHASTIC_ROUNDING):
        return
    if given.value(launch, "mamba_ssm_cache_dtype") != "float16":
        raise config_refuses(
            Stage.OPTIONS,
            InvalidValue(option="--enable-mamba-cache-stochastic-rounding"),
            "Stochastic rounding for Mamba cache requires the SSM cache to be float16. Please set it explicitly, by "
            "specifying `--mamba-ssm-cache-dtype float16`, or disable stochastic rounding by not specifying "
            "`--enable-mamba-cache-stochastic-rounding`.",
        )
