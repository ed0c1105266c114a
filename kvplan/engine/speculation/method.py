"""Which method a draft is run by, from what is asked, the draft's name and its architecture.

Source: `SpeculativeConfig.__post_init__` (config/speculative.py).
"""

from __future__ import annotations

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.models import draft_names
from kvplan.engine.models.refusals import Refused
from kvplan.engine.models.resolve import resolve
from kvplan.engine.speculation.rewriting import MTP_TYPES
from kvplan.engine.speculation.values import NO_LAYERS
from kvplan.engine.speculation.wanted import Wanted, names_a_class, refused
from kvplan.history import speculation as history
from kvplan.releases import Release

MODELLESS = NO_LAYERS - {"medusa", "mlp_speculator"} | {"extract_hidden_states"}
"""Methods that load no model."""

_NGRAM = ("ngram", "[ngram]")


def asked_method(wanted: Wanted, release: Release) -> str | None:
    """The method before a draft model is looked at."""
    method, model = wanted.text("method"), wanted.text("model")
    if names_a_class(model, method, release):
        return "custom_class"
    if method is None:
        if model in _NGRAM:
            return "ngram"
        return "draft_model" if release.has(history.METHOD_DEFAULTS_TO_DRAFT_MODEL) else None
    if method in _NGRAM:
        return "ngram"
    return "mtp" if method.endswith("_mtp") else method


def check_model_given(wanted: Wanted, method: str | None) -> None:
    """A method that needs a model must name one, unless the target holds it. Raises StartupStops."""
    if wanted.text("model") is not None or method in MODELLESS:
        return
    if wanted.whole("num_speculative_tokens") is None:
        raise refused(
            "num_speculative_tokens must be provided with speculative model unless the draft model config contains "
            "an n_predict parameter.",
            "num_speculative_tokens",
            None,
        )
    if method in ("mtp", "dspark"):
        return
    raise refused(
        "num_speculative_tokens was provided but without speculative model.", "model", wanted.values.get("model")
    )


def detected(method: str | None, draft: Checkpoint, model: str, target: Checkpoint, release: Release) -> str:
    """The method once the draft is known. Raises StartupStops where none fits."""
    known = {"eagle", "eagle3"}
    if release.has(history.DFLASH_BY_NAME):
        known.add("dflash")
    if release.has(history.DSPARK_BY_NAME):
        known.add("dspark")
    if method in known:
        return str(method)
    name = model.lower()
    named = {"eagle-": "eagle", "eagle3": "eagle3"}
    if release.has(history.DFLASH_BY_NAME):
        named["dflash"] = "dflash"
    for part, means in named.items():
        if part in name:
            return means
    if draft_names.DFLASH.intersection(draft.architectures):
        return "dflash"
    if release.has(history.DSPARK_BY_NAME) and (
        "dspark" in name
        or draft_names.DSPARK.intersection(draft.architectures)
        or any((name, draft.model_type) in draft_names.DSPARK_ALIASES for name in draft.architectures)
    ):
        return "dspark"
    if draft.model_type in ("medusa", "mlp_speculator"):
        return draft.model_type
    if draft.model_type in MTP_TYPES:
        if target.model_type in draft_names.NO_MTP:
            raise refused(draft_names.NO_MTP[target.model_type], "method", method, ("dspark",))
        return "mtp"
    if method == "draft_model":
        return method
    try:
        resolve(draft.architectures, release, runner="draft")
    except Refused as unknown:
        raise refused(unknown.message, "model", draft.reference) from None
    raise refused(f"Unsupported speculative method: '{method}'", "method", method, raised="NotImplementedError")
