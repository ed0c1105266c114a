"""What the config hooks of retrieval and decision models demand of a checkpoint, and whether it attends causally.

Source: the classes named below in `model_executor/models/config.py`. The hooks run while the model config is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kvplan.engine.models.refusals import Refused
from kvplan.history import models as history

if TYPE_CHECKING:
    from kvplan.engine.models.fields import Fields
    from kvplan.releases import Release

_POOLINGS = frozenset({"avg", "cls", "last"})
_CONTRACTS = frozenset({"causal", "bidirectional"})
_CONTRACT = "retrieval_attention_contract"


def check(architecture: str, config: Fields, text: Fields, release: Release) -> None:
    """Raises Refused where the architecture's hook does not accept the checkpoint's config."""
    hook = _HOOKS.get(architecture)
    if hook is not None:
        hook(architecture, config, text, release)


def declared_causal(architecture: str, config: Fields, text: Fields, release: Release) -> bool | None:
    """Whether attention is causal by what such a checkpoint declares of it; None where it has nothing to say."""
    if architecture == "ColQwen3_5" and release.has(history.COLQWEN_DECLARES_DIRECTION):
        return _declared(config, text)[:1] != ["bidirectional"]
    if architecture == "D3ForSequenceClassification":
        decision = config.get("decision_config")
        mode = decision.get("attention_mode", "causal") if isinstance(decision, Mapping) else "causal"
        return mode == "causal"
    return None


def _bidirectional_llama(architecture: str, config: Fields, _text: Fields, release: Release) -> None:
    """`LlamaBidirectionalConfig`: the config has to say how to pool."""
    pooling = config.get("pooling")
    if pooling is None and release.has(history.BIDIRECTIONAL_LLAMA_NAMES_POOLING):
        raise _refused(
            architecture,
            "pooling",
            "This bidirectional model requires a 'pooling' field in its HF config (one of 'avg', 'cls', 'last'), but "
            "none was found. Unlike the VL variants, no default is assumed here because silently picking a pooling for "
            "an embedding model can produce wrong embeddings.",
        )
    if "pooling" not in config.values:
        raise Refused(
            architecture,
            "object has no attribute 'pooling'",
            "AttributeError",
            check="pooling of the config",
        )
    if pooling not in _POOLINGS:
        raise _refused(architecture, "pooling", f"pool_type {pooling!r} not supported")


def _nemotron_vl(architecture: str, config: Fields, _text: Fields, _release: Release) -> None:
    """`LlamaNemotronVLConfig`: the language model's section may say it instead, and silence is an average."""
    pooling = config.get("pooling")
    nested = config.section("llm_config")
    if pooling is None and nested is not None:
        pooling = nested.values.get("pooling", "avg")
    if not isinstance(pooling, str):
        raise Refused(architecture, "Assertion failed", check="pooling of the config")
    if pooling not in _POOLINGS:
        raise _refused(architecture, "pooling", f"pool_type {pooling!r} not supported")


def _colqwen(architecture: str, config: Fields, text: Fields, release: Release) -> None:
    """`ColQwen3_5Config`: the checkpoint declares in which directions it was trained to attend."""
    if not release.has(history.COLQWEN_DECLARES_DIRECTION):
        return
    declared = _declared(config, text)
    if not declared:
        raise _refused(
            architecture,
            _CONTRACT,
            f"ColQwen3.5 checkpoints must declare {_CONTRACT} as 'causal' or 'bidirectional'",
        )
    strange = any(not isinstance(each, str) or each not in _CONTRACTS for each in declared)
    if strange or len(set(map(str, declared))) != 1:
        raise _refused(
            architecture, _CONTRACT, f"unsupported or conflicting ColQwen3.5 {_CONTRACT} declarations: {declared!r}"
        )


def _declared(config: Fields, text: Fields) -> list[object]:
    found = [config.get(_CONTRACT), text.get(_CONTRACT)]
    if config.values is text.values:
        found.pop()
    return [each for each in found if each is not None]


def _decision(architecture: str, config: Fields, _text: Fields, _release: Release) -> None:
    """`D3ForSequenceClassificationConfig`: what decision_config.json says, which vLLM puts into the config."""
    decision = config.get("decision_config")
    message: str | None = None
    if not isinstance(decision, Mapping):
        message = "Decision 3.0 checkpoints need a decision_config.json"
    elif decision.get("format_version") != 1:
        version = decision.get("format_version")
        message = f"unsupported decision_config.json format_version {version!r}; vLLM reads version 1"
    elif decision.get("pooling", "last") != "last":
        message = f"unsupported decision_config.json pooling {decision['pooling']!r}"
    elif decision.get("attention_mode", "causal") not in ("causal", "noncausal_full_attention"):
        message = f"unsupported decision_config.json attention_mode {decision['attention_mode']!r}"
    elif not _one_token_a_code(decision):
        message = "decision_config.json must list one token id per answer code"
    if message is not None:
        raise _refused(architecture, "decision_config", message)


def _one_token_a_code(decision: Mapping[str, object]) -> bool:
    codes, tokens = decision.get("codes"), decision.get("token_ids")
    return isinstance(codes, list) and bool(codes) and isinstance(tokens, list) and len(codes) == len(tokens)


def _refused(architecture: str, field: str, message: str) -> Refused:
    return Refused(architecture, message, check=f"{field} of the config")


_HOOKS: Mapping[str, Callable[[str, Fields, Fields, Release], None]] = {
    "ColQwen3_5": _colqwen,
    "D3ForSequenceClassification": _decision,
    "LlamaBidirectionalForSequenceClassification": _bidirectional_llama,
    "LlamaBidirectionalModel": _bidirectional_llama,
    "LlamaNemotronVLForSequenceClassification": _nemotron_vl,
    "LlamaNemotronVLModel": _nemotron_vl,
}
"""Architecture -> its hook."""
