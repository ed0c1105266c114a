"""A launch whose model is a draft in the speculators format: vLLM serves the model it names, and takes it as draft.

Source: `maybe_override_with_speculators` (transformers_utils/config.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvplan.checkpoint.load import is_path
from kvplan.checkpoint.speculators import Speculator, verifier
from kvplan.history import speculation as history
from kvplan.launch.locations import OriginKind
from kvplan.launch.values import Launch, Refusal, Setting

_OPTION = "speculative_config"


def followed(launch: Launch, found: Speculator) -> Launch:
    """The launch of the verifier with the draft that stood in its place.

    Raises InputError where the draft's config does not name a verifier and a number of tokens.
    """
    model, made = verifier(found.config, found.file)
    given = launch.settings.get(_OPTION)
    own: Mapping[str, Any] = given.value if given is not None and isinstance(given.value, Mapping) else {}
    config = {**made, "model": launch.model}
    if launch.release.has(history.SPECULATORS_KEEP_OPTIONS):
        config = {**made, **own, "method": made["method"], "model": launch.model}
    setting = (
        Setting(_OPTION, config, OriginKind.CONFIG_FILE, "--speculative-config")
        if given is None
        else replace(given, value=config)
    )
    refusals = launch.refusals
    if is_path(model) and launch.release.has(history.SPECULATORS_VERIFIER_IS_REMOTE):
        message = (
            f"Speculators verifier must name a remote model repository, not {model}. Select local verifiers "
            "explicitly with --model and --speculative-config."
        )
        refusals = (*refusals, Refusal("--model", message, "ValueError"))
    return replace(launch, model=model, settings={**launch.settings, _OPTION: setting}, refusals=refusals)
