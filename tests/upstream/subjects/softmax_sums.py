"""Which attention backends return the sums of their softmax (`can_return_lse_for_decode` of their layer classes)."""

from __future__ import annotations

from typing import Any

from kvplan.engine.parallelism import context
from kvplan.releases import Release
from tests.upstream import classes
from tests.upstream.evaluate import ClassRef, Evaluator, FunctionRef, Undecided
from tests.upstream.facts import Facts, Subject
from tests.upstream.sources import Sources
from tests.upstream.subjects import attention_backends
from tests.upstream.subjects.listed import span_row


def read(sources: Sources) -> Facts:
    """Backend by backend of the enum: true where they do."""
    evaluator = Evaluator(sources)
    found: dict[str, Any] = {}
    for name, backend in attention_backends.backend_classes(sources, evaluator).items():
        made = classes.attribute(evaluator, backend, "get_impl_cls")
        layer = _returned(evaluator, made)
        if isinstance(layer, ClassRef) and classes.attribute(evaluator, layer, "can_return_lse_for_decode") is True:
            found[name] = True
    return found


def _returned(evaluator: Evaluator, function: Any) -> Any:
    """What `get_impl_cls` returns; None where it is made up of other backends' classes."""
    try:
        return evaluator.run(function) if isinstance(function, FunctionRef) else None
    except Undecided:
        return None


def told(release: Release) -> Facts:
    """kvplan's table."""
    return {name: True for name, span in context.SOFTMAX_SUMS.items() if release.within(span)}


SUBJECT = Subject(
    name="softmax_sums", table="engine/parallelism/context.py SOFTMAX_SUMS", read=read, told=told, row=span_row
)
