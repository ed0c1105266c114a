"""Stage `builders`: FlashInfer plans its kernels by the dtype of the cache, and does not know uint8.

The metadata builder of sparse latent attention on compute capability 9.0 (FLASHINFER_MLA_SPARSE_SM90,
v1/attention/backends/mla) hands the storage dtype of an fp8 cache on as it is, in the first run that warms kernels up.
Read from the sources; the text is FlashInfer's, as vllm#55221 has it.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.after.planned import Planned
from kvplan.engine.failures import PlannedAsBytes
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import Stage
from kvplan.history import backends as history

_BACKEND = "FLASHINFER_MLA_SPARSE_SM90"


def check(planned: Planned) -> Iterator[StartupStops]:
    """At most one refusal."""
    if not planned.plan.release.has(history.FLASHINFER_PLANS_BY_STORAGE):
        return
    for layer in planned.layers:
        if layer.backend == _BACKEND and layer.storage == "uint8":
            yield stop(
                Stage.BUILDERS,
                PlannedAsBytes(backend=_BACKEND, cache_dtype=str(layer.cache_dtype), layer=layer.geometry.name),
                "MLA kv_data_type torch.uint8 is not supported. Supported dtypes: [torch.float16, torch.bfloat16, "
                "torch.float8_e4m3fn].",
            )
            return
