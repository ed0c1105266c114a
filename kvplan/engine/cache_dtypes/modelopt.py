"""What vLLM makes of a ModelOpt section: whether it accepts it, and which cache dtype `auto` becomes.

Two forms exist. The older one (`hf_quant_config.json`, or a config that carries it) names its producer and keeps the
algorithm in a nested `quantization`; the newer one names `quant_method: modelopt` and keeps it at the top. Sources:
`_normalize_quantization_config` (transformers_utils/model_arch_config_convertor.py), `from_config` of the classes in
layers/quantization/modelopt.py, `resolve_kv_cache_dtype_string` (utils/torch_utils.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.failures import CheckpointQuantisationRefused
from kvplan.engine.stop import StartupStops, config_refuses
from kvplan.engine.values import Stage
from kvplan.history import cache, packed
from kvplan.releases import ALWAYS, Release, Span

_CACHE = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}
"""What ModelOpt calls a cache format, and the cache dtype that vLLM makes of it."""


@dataclass(frozen=True, slots=True)
class Algorithm(Span):
    """A weight algorithm in the releases that serve it, and those that take it in the older form."""

    name: str
    older_form: Span | None = None
    required: tuple[str, ...] = ()
    """Fields that a nested section must have."""

    def takes_older_form(self, release: Release) -> bool:
        return self.older_form is not None and release.within(self.older_form)


ALGORITHMS = (
    Algorithm("FP8", older_form=ALWAYS),
    Algorithm("FP8_PER_CHANNEL_PER_TOKEN", older_form=ALWAYS),
    Algorithm("FP8_PB_WO", older_form=ALWAYS),
    Algorithm("NVFP4", older_form=ALWAYS, required=("group_size", "kv_cache_quant_algo", "exclude_modules")),
    Algorithm("W4A16_NVFP4", since="0.21.0", required=("group_size", "kv_cache_quant_algo", "exclude_modules")),
    Algorithm("MXFP8", required=("kv_cache_quant_algo", "exclude_modules")),
    Algorithm("MIXED_PRECISION", since="0.17.1", older_form=Span(since="0.33.0")),
)
_BY_NAME = {row.name: row for row in ALGORITHMS}


def section(checkpoint: Checkpoint, release: Release) -> Mapping[str, Any] | None:
    """The ModelOpt section that this release sees, or None."""
    found = checkpoint.quantization
    if found is None or not str(found.get("quant_method", "")).startswith("modelopt"):
        return None
    if not _names_producer(found) and not release.has(packed.MODELOPT_SECTION_WITHOUT_PRODUCER):
        given = checkpoint.config.get("quantization_config")
        written = given.get("quant_method") if isinstance(given, Mapping) else None
        return found if str(written or "").lower().startswith("modelopt") else None
    return found


def check(checkpoint: Checkpoint, release: Release) -> None:
    """Raise StartupStops where vLLM refuses the checkpoint's ModelOpt section."""
    found = checkpoint.quantization
    if found is None:
        return
    nested = found.get("quantization")
    nested = nested if isinstance(nested, Mapping) else None
    if nested is not None and _is_older_form(found, release) and nested.get("quant_algo") is not None:
        row = _BY_NAME.get(str(nested["quant_algo"]).upper())
        if row is None or not row.takes_older_form(release):
            raise _refusal(f"Unknown ModelOpt quant algo: {nested['quant_algo']}", nested["quant_algo"], release)
    if section(checkpoint, release) is None:
        return
    _check_algorithm(found if nested is None else nested, nested is not None, release)


def cache_dtype(checkpoint: Checkpoint, release: Release) -> str | None:
    """What a ModelOpt checkpoint makes of `auto`; None where it declares no cache format that vLLM knows.

    vLLM looks only at the config's own `quantization_config` and asks, in this order: the inner `quantization`
    section's `kv_cache_scheme`, the outer one's, the inner `kv_cache_quant_algo`, the outer one's.
    """
    found = section(checkpoint, release)
    if found is None or checkpoint.config.get("quantization_config") is None:
        return None
    inner = found.get("quantization")
    inner = inner if isinstance(inner, Mapping) else found
    declared = (
        inner.get("kv_cache_scheme")
        or found.get("kv_cache_scheme")
        or inner.get("kv_cache_quant_algo")
        or found.get("kv_cache_quant_algo")
    )
    nvfp4_known = release.has(cache.MODELOPT_NVFP4_CACHE)
    if isinstance(declared, Mapping):
        bits, kind = declared.get("num_bits"), declared.get("type")
        if declared.get("dynamic") is False and bits == 8 and kind == "float":
            declared = "fp8"
        elif nvfp4_known and bits == 4 and kind == "float":
            declared = "nvfp4"
        else:
            return None
    if not isinstance(declared, str):
        return None
    known = _CACHE.get(declared.lower())
    return None if known == "nvfp4" and not nvfp4_known else known


def _names_producer(found: Mapping[str, Any]) -> bool:
    producer = found.get("producer")
    return isinstance(producer, Mapping) and producer.get("name") == "modelopt"


def _is_older_form(found: Mapping[str, Any], release: Release) -> bool:
    nested = found.get("quantization")
    marked = isinstance(nested, Mapping) and "modelopt_quant_config" in nested
    return _names_producer(found) or (marked and release.has(packed.MODELOPT_SECTION_WITHOUT_PRODUCER))


def _check_algorithm(holder: Mapping[str, Any], is_nested: bool, release: Release) -> None:
    """The checks of the quantisation classes, `holder` being the section that names the algorithm."""
    algorithm = holder.get("quant_algo")
    if not algorithm:
        raise _refusal("Missing 'quant_algo' in quantization config", None, release)
    kv_algorithm = holder.get("kv_cache_quant_algo")
    if is_nested and kv_algorithm is not None and not isinstance(kv_algorithm, str):
        raise _refusal(f"kv_cache_quant_algo must be a string, got {type(kv_algorithm)}", algorithm, release)
    row = _BY_NAME.get(str(algorithm).upper())
    if row is None or not release.within(row):
        known = [each.name for each in ALGORITHMS if release.within(each)]
        raise _refusal(f"ModelOpt currently only supports: {known} quantizations in vLLM.", algorithm, release)
    missing = [name for name in row.required if is_nested and name not in holder]
    if missing:
        kind = "MXFP8" if row.name == "MXFP8" else "NVFP4"
        raise _refusal(
            f"{kind} quantization requires the following fields in hf_quant_config.json: {missing}", algorithm, release
        )
    if row.name == "MIXED_PRECISION" and not holder.get("quantized_layers"):
        raise _refusal(
            "MIXED_PRECISION quant_algo requires a non-empty 'quantized_layers' mapping in the quantization config.",
            algorithm,
            release,
        )


def _refusal(message: str, algorithm: object, release: Release) -> StartupStops:
    row = _BY_NAME.get(str(algorithm).upper())
    since = None if row is None else (None if row.older_form is None else row.older_form.since) or row.since
    return config_refuses(
        Stage.OPTIONS,
        CheckpointQuantisationRefused(
            method="ModelOpt", served_since=None if release.within(Span(since=since)) else since
        ),
        message,
    )
