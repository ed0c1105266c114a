"""KV217: the checkpoint declares a quantised cache and vLLM does not use the declaration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvplan.engine.facade import Kind, compressed_tensors_scheme, is_quantised, modelopt_cache_dtype, modelopt_section
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.cache.attention import DTYPE_FLAG
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV217"
_KEYS = ("kv_cache_scheme", "kv_cache_quant_algo")


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    settings = plan.settings
    if settings is None or settings.requested_cache_dtype != "auto" or is_quantised(settings.cache_dtype):
        return
    why = _ignored(plan)
    if why is None:
        return
    yield Finding(
        rule=CODE,
        severity=Severity.WARNING,
        message=(
            f"the checkpoint declares a quantised cache, and {words.release_name(plan)} keeps it in "
            f"{settings.model_dtype}: {why}"
        ),
        options=(DTYPE_FLAG,),
        fix=f"pass {DTYPE_FLAG} fp8 for a quantised cache",
    )


def _ignored(plan: Plan) -> str | None:
    """Why the declaration has no effect; None where there is none or it has one."""
    section = plan.checkpoint.quantization
    if section is None:
        return None
    if compressed_tensors_scheme(section) is not None:
        layers = plan.geometry.layers if plan.geometry is not None else ()
        latent = any(layer.kind is Kind.MLA for layer in layers)
        ordinary = any(layer.kind not in (Kind.MLA, Kind.INDEXER) for layer in layers)
        return "MLA layers do not look at a kv_cache_scheme" if latent and not ordinary else None
    export = section.get("export")
    if section.get("quant_method") == "quark" and isinstance(export, Mapping) and export.get("kv_cache_group"):
        return "Quark's kv_cache_group brings scales, not a cache dtype"
    declared = _declared(section)
    if declared is None or section.get("quant_method") == "compressed-tensors":
        return None
    seen = modelopt_section(plan.checkpoint, plan.release)
    if seen is None:
        by_modelopt = isinstance(section.get("producer"), Mapping) and section["producer"].get("name") == "modelopt"
        return "the section does not name ModelOpt as its quant_method" if by_modelopt else None
    if plan.checkpoint.config.get("quantization_config") is None:
        return "it is declared outside the config's own quantization_config"
    if modelopt_cache_dtype(plan.checkpoint, plan.release) is None:
        return f"it does not know {declared}"
    return None


def _declared(section: Mapping[str, Any]) -> object:
    inner = section.get("quantization")
    parts = [inner, section] if isinstance(inner, Mapping) else [section]
    return next((part[key] for key in _KEYS for part in parts if part.get(key)), None)


RULE = Rule(
    code=CODE,
    name="cache-scheme-ignored",
    severity=Severity.WARNING,
    summary="The checkpoint declares a quantised cache, but vLLM keeps the cache in the model's dtype.",
    explanation=(
        "A declared cache format counts only where vLLM looks for it. MLA layers never read the "
        "`kv_cache_scheme` of a compressed-tensors checkpoint. A ModelOpt section counts only if its "
        "`quant_method` begins with `modelopt`, if it stands in the config's own `quantization_config`, and if "
        "the release knows the format: FP8 everywhere, NVFP4 from 0.20 on; anything else is a warning in vLLM's "
        "log and `auto` stays the model's dtype. Quark's `kv_cache_group` brings scales only.\n\n"
        "The cache is then twice as large as planned for. Pass `--kv-cache-dtype fp8`."
    ),
    bad=Example(version="0.33.0", command="vllm serve Qwen/Qwen3-32B-FP8-Static-PerTensor"),
    good=Example(version="0.33.0", command="vllm serve Qwen/Qwen3-32B-FP8-Static-PerTensor --kv-cache-dtype fp8"),
    check=check,
)
