"""Stage `builders`: ranks that share a decode step need the sums of the softmax from the attention kernel.

`check_attention_cp_compatibility` (v1/worker/cp_utils.py; before that in the model runner) asks every layer's
implementation when the worker makes its attention groups.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.after.planned import Planned
from kvplan.engine.failures import SoftmaxSumsMissing
from kvplan.engine.parallelism.context import returns_softmax_sums
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import Stage


def check(planned: Planned) -> Iterator[StartupStops]:
    """One refusal for each choice of a backend that does not return them."""
    plan = planned.plan
    if plan.settings is None or plan.settings.decode_context_parallel == 1:
        return
    for choice in plan.backends:
        if choice.backend is not None and not returns_softmax_sums(choice.backend, plan.release):
            yield stop(
                Stage.BUILDERS,
                SoftmaxSumsMissing(backend=choice.backend, layers=choice.layers),
                "DCP requires attention implementations to return the softmax LSE during decode, "
                f"but {choice.backend} does not",
                exception="AssertionError",
            )
