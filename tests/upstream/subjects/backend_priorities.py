"""The order in which the CUDA platform tries backends, for a grid of layers and GPUs."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from kvplan.engine.backends import priority
from kvplan.engine.backends.values import BackendQuery
from kvplan.engine.cache_dtypes import dtypes
from kvplan.releases import Release
from tests.upstream.evaluate import Evaluator, FunctionRef, Member, Undecided, Unread
from tests.upstream.facts import Facts, Subject
from tests.upstream.sources import Moved, Sources
from tests.upstream.subjects import cache_dtypes

PLACE = "platforms/cuda.py"
ROCM = "platforms/rocm.py"
FUNCTION = "_get_backend_priorities"
MAJORS = (7, 8, 9, 10, 11, 12)


@dataclass(frozen=True, slots=True)
class Question:
    """What the order may depend on."""

    major: int
    use_mla: bool = False
    num_heads: int = 16
    kv_cache_dtype: str = "auto"
    use_non_causal: bool = False
    head_size: int = 128
    use_mm_prefix: bool = False

    @property
    def name(self) -> str:
        """The question as a key of the extract."""
        if self.use_mla:
            return f"mla sm{self.major}x heads={self.num_heads} {self.kv_cache_dtype} head_size={self.head_size}"
        words = ("non_causal",) * self.use_non_causal + ("mm_prefix",) * self.use_mm_prefix
        return " ".join(("standard", f"sm{self.major}x", *words))


def questions(dtypes: Collection[str]) -> Iterator[Question]:
    """The grid, for the cache dtypes of a release."""
    for major, non_causal, prefix in itertools.product(MAJORS, (False, True), (False, True)):
        yield Question(major, use_non_causal=non_causal, use_mm_prefix=prefix)
    asked = [name for name in ("auto", "bfloat16", "fp8", "fp8_ds_mla", "nvfp4_ds_mla") if name in dtypes]
    for major, heads, dtype, head_size in itertools.product(MAJORS, (16, 17), asked, (512, 576)):
        yield Question(major, use_mla=True, num_heads=heads, kv_cache_dtype=dtype, head_size=head_size)


def read(sources: Sources) -> Facts:
    """Question by question: the names in order."""
    module = sources.first(PLACE)
    evaluator = Evaluator(sources, {"current_platform.is_cuda": lambda: True, "get_kv_cache_dtype_handler": _none})
    function = evaluator.constant(module, FUNCTION)
    if not isinstance(function, FunctionRef):
        raise Moved(f"{PLACE} has no {FUNCTION}: `backend_priorities` must learn the new place")
    return {question.name: _asked(evaluator, function, question) for question in questions(cache_dtypes.read(sources))}


def _none(_name: str) -> None:
    return None


def _asked(evaluator: Evaluator, function: FunctionRef, question: Question) -> list[str]:
    given: dict[str, Any] = {
        "use_mla": question.use_mla,
        "device_capability": {"__attributes__": True, "major": question.major, "minor": 0},
        "num_heads": question.num_heads,
        "kv_cache_dtype": question.kv_cache_dtype,
        "use_non_causal": question.use_non_causal,
        "head_size": question.head_size,
        "use_mm_prefix": question.use_mm_prefix,
    }
    return _ordered(evaluator, function, given)


def _ordered(evaluator: Evaluator, function: FunctionRef, given: dict[str, Any]) -> list[str]:
    known = {parameter.arg for parameter in function.node.args.args}
    strange = known - given.keys()
    if strange:
        raise Moved(f"{FUNCTION} asks for {', '.join(sorted(strange))}: `backend_priorities` must learn to answer")
    try:
        found = evaluator.run(function, **{name: value for name, value in given.items() if name in known})
    except Undecided as undecided:
        raise Moved(f"{FUNCTION} depends on {undecided}: `backend_priorities` must learn it") from None
    if isinstance(found, Unread) or not all(isinstance(one, Member) for one in found):
        raise Moved(f"{FUNCTION} returns {found}: `backend_priorities` must learn to read it")
    return [one.name for one in found]


def told(release: Release) -> Facts:
    """The order that kvplan follows."""
    return {
        question.name: list(
            priority.order(
                BackendQuery(
                    capability=(question.major, 0),
                    head_size=question.head_size,
                    dtype="bfloat16",
                    kv_cache_dtype=question.kv_cache_dtype,
                    num_heads=question.num_heads,
                    use_mla=question.use_mla,
                    use_non_causal=question.use_non_causal,
                    use_mm_prefix=question.use_mm_prefix,
                ),
                release,
            )
        )
        for question in questions(dtypes.known(release))
    }


def read_rocm(sources: Sources) -> Facts:
    """Question by question to the ROCm platform: the names in order. Early releases decide without a list."""
    module = sources.module(ROCM)
    if module is None or FUNCTION not in module.names:
        return {}
    found: dict[str, list[str]] = {}
    for use_mla, use_sparse, transfers, with_aiter in itertools.product((False, True), repeat=4):
        lent = {
            f"rocm_aiter_ops.{name}": lambda on=with_aiter: on
            for name in ("is_mla_enabled", "is_mha_enabled", "is_rdna_aiter_enabled")
        }
        evaluator = Evaluator(sources, {**lent, "is_aiter_found_and_supported": lambda on=with_aiter: on})
        given = {"use_mla": use_mla, "use_sparse": use_sparse, "use_kv_connector": transfers}
        words = [name for name, on in (*given.items(), ("aiter", with_aiter)) if on]
        found[" ".join(words) or "standard"] = _ordered(evaluator, evaluator.constant(module, FUNCTION), given)
    return found


ROCM_SUBJECT = Subject(
    name="rocm_priorities", table="none: kvplan chooses the backends of CUDA", read=read_rocm, told=None
)
SUBJECT = Subject(
    name="backend_priorities",
    table="engine/backends/priority.py order",
    read=read,
    told=told,
)
