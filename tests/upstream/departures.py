"""Where kvplan's tables differ from a release's sources on purpose, with reasons."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass

from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from kvplan.releases import Span, resolve
from tests.upstream.facts import ABSENT, Difference


@dataclass(frozen=True, slots=True)
class Departure(Span):
    """Names (a pattern as for files) of a subject that may differ in the releases of the span."""

    subject: str
    names: str
    reason: str
    only: Callable[[Difference], bool] | None = None
    """Narrows it to the differences for which this holds."""


def _transformers_reads(difference: Difference) -> bool:
    """Whether Transformers has a config class for a model type that kvplan does not list."""
    return difference.left is ABSENT and difference.name in CONFIG_MAPPING_NAMES


_SPECULATION = "engine/speculation/running.py tells what speculation lacks there"

DEPARTURES: tuple[Departure, ...] = (
    Departure(
        "config_classes",
        "*",
        "kvplan lists the model types that Transformers cannot read without vLLM's class; these it can",
        only=_transformers_reads,
    ),
    Departure("mla_types", "eagle", "an EAGLE draft counts by the model type in its own config, which is listed"),
    Departure(
        "draft_types", "exaone4_5_text", "vLLM takes every name that holds exaone4_5; kvplan lists both", since="0.20.2"
    ),
    Departure(
        "draft_types",
        "muse_glimmer_assistant",
        "a DFlash draft's own name (engine/models/draft_names.py)",
        since="0.33.0",
    ),
    Departure(
        "connectors",
        "OffloadingConnector",
        "another order is asked for with HiSparse, which kvplan does not plan",
        since="0.30.0",
    ),
    Departure(
        "quantisation",
        "torchao",
        "vLLM names no file and fails to make its config class; kvplan names the file that has the section",
    ),
    Departure(
        "quantisation",
        "mxfp8",
        "asked for as an option it is a name for online quantisation, which needs no file",
        since="0.24.0",
    ),
    Departure(
        "backend_abilities",
        "TRITON_FLASH*",
        "vLLM makes the class at run time of two backends' classes",
        since="0.30.0",
    ),
    Departure("softmax_sums", "ROCM_*", "kvplan chooses the backends of CUDA"),
    Departure(
        "softmax_sums", "*", "the selection itself asks the backend, and kvplan no longer this table", since="0.30.0"
    ),
    Departure("runner_lacks", "*speculative*", _SPECULATION),
    Departure("runner_lacks", "EAGLE3 *", _SPECULATION),
    Departure("runner_lacks", "heterogeneous-vocabulary draft models", _SPECULATION),
    Departure("runner_lacks", "adaptive verification *", _SPECULATION, since="0.28.0", until="0.28.0"),
    Departure("runner_lacks", "hybrid/mamba models with align cache mode", "a history entry says when (state)"),
    Departure("runner_lacks", "mamba cache mode 'all", "a history entry says when (state)"),
    Departure(
        "runner_lacks",
        "dual batch overlap with other features",
        "stands for all the features that a helper of vLLM's lists",
        since="0.30.0",
    ),
)


def intended(difference: Difference, release: str) -> Departure | None:
    """The departure that `difference` is part of, None where it is none."""
    return next(
        (
            one
            for one in DEPARTURES
            if one.subject == difference.subject
            and fnmatch.fnmatchcase(difference.name, one.names)
            and resolve(release).within(one)
            and (one.only is None or one.only(difference))
        ),
        None,
    )
