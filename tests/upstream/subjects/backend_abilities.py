"""What the classes of attention backends say they can do: dtypes, head sizes, and features by plain answers."""

from __future__ import annotations

from typing import Any

from kvplan.engine.backends.facts import Feature
from kvplan.engine.backends.latent import LATENT
from kvplan.engine.backends.standard import STANDARD
from kvplan.engine.checks import backend_names
from kvplan.releases import Release
from tests.upstream import classes
from tests.upstream.evaluate import ClassRef, Evaluator, FunctionRef, Undecided, Unread
from tests.upstream.facts import UNREAD, Facts, Subject
from tests.upstream.sources import Sources
from tests.upstream.subjects import attention_backends

ROOT = "AttentionBackend"
"""The class whose methods answer by the lists that the backends' classes have."""

CHOSEN = {row.name: row for row in (*STANDARD, *LATENT)}
"""Backends that a layer's choice falls on; those that a layer brings along are not judged by these answers."""

FEATURES = {
    Feature.SINK: "supports_sink",
    Feature.MM_PREFIX: "supports_mm_prefix",
    Feature.PER_HEAD_SCALES: "supports_per_head_quant_scales",
    Feature.SLIDING_WINDOW: "supports_sliding_window",
    Feature.RSWA: "supports_rswa",
    Feature.NON_CAUSAL: "supports_non_causal",
    Feature.NON_CAUSAL_DCP: "supports_non_causal_dcp",
    Feature.BATCH_INVARIANT: "supports_batch_invariance",
    Feature.PCP: "supports_pcp",
    Feature.DCP: "supports_dcp",
    Feature.QUERY_LENS_MISMATCH: "supports_device_cpu_query_lens_mismatch",
}


def read(sources: Sources) -> Facts:
    """Backend by backend of those that layers choose: `dtypes`, `cache_dtypes`, `head_sizes` (empty: any), features."""
    evaluator = Evaluator(sources)
    found: dict[str, dict[str, Any]] = {}
    for name, owner in attention_backends.backend_classes(sources, evaluator).items():
        if name in CHOSEN:
            found[name] = {
                "dtypes": _list(evaluator, owner, "supported_dtypes", "supports_dtype"),
                "cache_dtypes": _list(evaluator, owner, "supported_kv_cache_dtypes", "supports_kv_cache_dtype"),
                "head_sizes": _list(evaluator, owner, "get_supported_head_sizes", "supports_head_size"),
                **{str(feature): _answer(evaluator, owner, method) for feature, method in FEATURES.items()},
            }
    return found


def _list(evaluator: Evaluator, owner: ClassRef, name: str, judge: str) -> Any:
    """What a list says, in any order; not read where the backend judges by a method of its own."""
    if any(one.name != ROOT and classes.own_method(one, judge) for one in classes.lineage(evaluator, owner)):
        return UNREAD
    value = classes.attribute(evaluator, owner, name)
    value = _run(evaluator, value, owner) if isinstance(value, FunctionRef) else value
    return sorted(map(_plain, value)) if isinstance(value, list) else UNREAD


def _plain(value: Any) -> Any:
    return value.text.removeprefix("torch.") if isinstance(value, Unread) else value


def _answer(evaluator: Evaluator, owner: ClassRef, method: str) -> Any:
    """The plain answer of a method; not read where it computes one, or where the release does not ask."""
    function = classes.attribute(evaluator, owner, method)
    answer = _run(evaluator, function, owner) if isinstance(function, FunctionRef) else None
    return answer if isinstance(answer, bool) else UNREAD


def _run(evaluator: Evaluator, function: FunctionRef, owner: ClassRef) -> Any:
    try:
        return evaluator.run(function, *((owner,) if function.node.args.args else ()))
    except Undecided:
        return None


def told(release: Release) -> Facts:
    """kvplan's rows; not compared where a row has a function."""
    found: dict[str, dict[str, Any]] = {}
    for name in backend_names.known(release):
        if (row := CHOSEN.get(name)) is None or not release.within(row):
            continue
        found[name] = {
            "dtypes": sorted(row.dtypes),
            "cache_dtypes": UNREAD if row.accepts_cache_dtype else sorted(row.cache_dtypes.at(release)),
            "head_sizes": UNREAD if row.accepts_head_size else sorted(row.head_sizes.at(release)),
        }
        for feature in FEATURES:
            dated = feature in row.features and release.within(row.features[feature])
            found[name][str(feature)] = UNREAD if feature in row.feature_checks else dated
    return found


SUBJECT = Subject(
    name="backend_abilities",
    table="engine/backends/standard.py, latent.py",
    read=read,
    told=told,
)
