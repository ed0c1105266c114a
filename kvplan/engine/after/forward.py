"""Stage `forward`: where queries are quantised before the kernel, the cache has to be one of the e4m3 dtypes.

`Attention.forward` (model_executor/layers/attention/attention.py) asserts it in the first run, which measures memory or
warms up. TRITON_ATTN takes quantised queries on every CUDA GPU (`supports_quant_query_input` of its implementation),
and is chosen for a cache dtype without a look at this. Read from the sources.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.after.planned import Planned
from kvplan.engine.failures import QueriesQuantised
from kvplan.engine.models.geometry import HEADED
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import Stage

_BACKEND = "TRITON_ATTN"
_TAKEN = ("fp8", "fp8_e4m3")


def check(planned: Planned) -> Iterator[StartupStops]:
    """At most one refusal."""
    for layer in planned.layers:
        dtype = layer.cache_dtype or ""
        quantised = dtype.startswith("fp8") and not dtype.endswith("per_token_head")
        if layer.backend == _BACKEND and layer.geometry.kind in HEADED and quantised and dtype not in _TAKEN:
            yield stop(
                Stage.FORWARD,
                QueriesQuantised(backend=_BACKEND, cache_dtype=dtype, accepted=_TAKEN, layer=layer.geometry.name),
                "",
                exception="AssertionError",
            )
            return
