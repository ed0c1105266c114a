"""From the architecture names of a config to the class that a release builds, as vLLM's registry resolves them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvplan.engine.models import registered
from kvplan.engine.models.refusals import Refused
from kvplan.history import models as history
from kvplan.releases import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvplan.engine.models.registered import Registration
    from kvplan.releases import Release

SUFFIXES: tuple[tuple[str, str, str], ...] = (
    ("ForCausalLM", "generate", "none"),
    ("ForConditionalGeneration", "generate", "none"),
    ("ChatModel", "generate", "none"),
    ("LMHeadModel", "generate", "none"),
    ("ForTextEncoding", "pooling", "embed"),
    ("EmbeddingModel", "pooling", "embed"),
    ("ForSequenceClassification", "pooling", "classify"),
    ("ForTokenClassification", "pooling", "classify"),
    ("ForAudioClassification", "pooling", "classify"),
    ("ForImageClassification", "pooling", "classify"),
    ("ForVideoClassification", "pooling", "classify"),
    ("ClassificationModel", "pooling", "classify"),
    ("ForRewardModeling", "pooling", "embed"),
    ("RewardModel", "pooling", "embed"),
    ("Model", "pooling", "embed"),
)
"""What the end of an architecture name says: default runner and conversion, first match wins."""

RETIRED: dict[str, str] = {
    "BaiChuanForCausalLM": "0.23.0",
    "BaichuanForCausalLM": "0.23.0",
    "BartForConditionalGeneration": "0.10.2",
    "BartModel": "0.10.2",
    "DonutForConditionalGeneration": "0.10.2",
    "Florence2ForConditionalGeneration": "0.10.2",
    "MBartForConditionalGeneration": "0.10.2",
    "MllamaForConditionalGeneration": "0.10.2",
    "MotifForCausalLM": "0.10.2",
    "Phi3SmallForCausalLM": "0.9.2",
    "Phi4FlashForCausalLM": "0.10.2",
    "Phi4MultimodalForCausalLM": "0.12.0",
    "Tarsier2ForConditionalGeneration": "0.23.0",
}
"""Last versions that the table of registered classes does not tell, as vLLM reports them."""

UNTOLD = frozenset({"MedusaModel"})
"""Architectures that went without a word: vLLM speaks of them as of any that it never had."""


@dataclass(frozen=True, slots=True)
class Plugin(Span):
    """Where the plugin for an architecture is, in the releases that name it."""

    address: str


_BART = Plugin("https://github.com/vllm-project/bart-plugin", since="0.19.1")

OUT_OF_TREE: dict[str, Plugin] = {
    "BartForConditionalGeneration": _BART,
    "BartModel": _BART,
    "Florence2ForConditionalGeneration": _BART,
    "MBartForConditionalGeneration": _BART,
    "Nemotron3_5AsrForRNNT": Plugin("https://github.com/Sohaib-Ahmed21/vllm-nemotron-asr-plugin", since="0.32.0"),
}
"""Architectures that vLLM leaves to a plugin."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """Which class vLLM builds."""

    architecture: str
    """The name that vLLM reports: the first of the config's that resolved, or the Transformers backend class."""
    entry: Registration
    runner_type: str
    convert_type: str
    source: str
    """The architecture name of the config, which names the Transformers class where the backend wraps one."""


def resolve(
    names: Sequence[str],
    release: Release,
    *,
    moe: bool = False,
    nested: bool = False,
    runner: str = "auto",
    convert: str = "auto",
    model_impl: str = "auto",
) -> Resolution:
    """The class for the config's architecture `names`; `moe` and `nested` pick among the Transformers backend's.

    Raises Refused where the release knows none of the names and nothing can stand in.
    """
    if not names:
        raise Refused("", "No model architectures are specified")
    backend = _Backend(names[0], release, moe=moe, nested=nested, runner=runner)
    unregistered = all(registered.lookup(name, release) is None for name in names)
    runner_type = runner
    if runner == "auto":
        runner_type = _default_runner(names, release) if convert in {"auto", "none"} else "pooling"
    convert_type = _default_convert(names, release, runner_type) if convert == "auto" else convert

    wrap_first = model_impl == "transformers" or (unregistered and model_impl == "auto" and convert_type == "none")
    if wrap_first and (wrapped := backend.entry()) is not None:
        return Resolution(wrapped.architecture, wrapped, runner_type, convert_type, names[0])
    for name in names:
        entry = registered.lookup(name, release) or _base(name, release, runner_type, convert_type)
        if entry is not None:
            return Resolution(name, entry, runner_type, convert_type, name)
    if unregistered and model_impl == "auto" and (wrapped := backend.entry()) is not None:
        return Resolution(wrapped.architecture, wrapped, runner_type, convert_type, names[0])
    raise _unsupported(names, release)


def inner(names: Sequence[str], release: Release, *, moe: bool) -> Resolution | None:
    """The class of a language model inside a multimodal one, or None where it cannot be told."""
    try:
        return resolve(names, release, moe=moe)
    except Refused:
        return None


@dataclass(frozen=True, slots=True)
class _Backend:
    """The Transformers backend for one architecture name."""

    name: str
    release: Release
    moe: bool
    nested: bool
    runner: str

    def entry(self) -> Registration | None:
        """The backend class that would wrap it, None where it cannot."""
        own = registered.lookup(self.name, self.release)
        if own is not None and own.wraps_transformers and own.architecture == own.class_name:
            return own
        wrapped = registered.transformers_class(self.name)
        if wrapped is None or not self._takes(wrapped.support):
            return None
        found = registered.lookup(self._class_name(), self.release)
        if found is not None and wrapped.support.startswith("cross"):
            return replace(found, kind="cross")
        return found

    def _takes(self, support: str) -> bool:
        if support == "none":
            return False
        if support.endswith("settable"):
            return self.release.has(history.TRANSFORMERS_BACKEND_TAKES_SETTABLE_ATTENTION)
        return True

    def _class_name(self) -> str:
        prefix = "Transformers" + ("MultiModal" if self.nested else "") + ("MoE" if self.moe else "")
        match = _match(self.name)
        runner, task = (match[1], match[2]) if match else (None, None)
        if self.runner != "auto":
            runner = self.runner
        if runner == "pooling" and task == "embed":
            return prefix + "EmbeddingModel"
        if runner == "pooling" and task == "classify":
            return prefix + "ForSequenceClassification"
        return prefix + "ForCausalLM"


def _match(name: str, runner: str | None = None, convert: str | None = None) -> tuple[str, str, str] | None:
    for row in SUFFIXES:
        if name.endswith(row[0]) and (runner is None or runner == row[1]) and (convert is None or convert == row[2]):
            return row
    return None


def _default_runner(names: Sequence[str], release: Release) -> str:
    for name in names:
        if registered.lookup(name, release) is not None:
            # The question is put to the first name that resolves, not to the one at hand.
            first = next(entry for other in names if (entry := registered.lookup(other, release)) is not None)
            if first.pools:
                return "pooling"
            if first.generates:
                return "generate"
        if (match := _match(name)) is not None:
            return match[1]
    return "generate"


def _default_convert(names: Sequence[str], release: Release, runner: str) -> str:
    for name in names:
        if registered.lookup(name, release) is not None:
            first = next(entry for other in names if (entry := registered.lookup(other, release)) is not None)
            if (runner == "generate" and first.generates) or (runner == "pooling" and first.pools):
                return "none"
        if (match := _match(name, runner)) is not None:
            return match[2]
    return "embed" if runner == "pooling" else "none"


def _base(name: str, release: Release, runner: str, convert: str) -> Registration | None:
    """The registered model that a name such as `Qwen3ForSequenceClassification` is converted from."""
    match = _match(name, runner, convert)
    if match is None:
        return None
    for suffix, _, _ in SUFFIXES:
        entry = registered.lookup(name.replace(match[0], suffix), release)
        if entry is not None:
            return entry
    return None


def _unsupported(names: Sequence[str], release: Release) -> Refused:
    for name in names:
        last = last_version(name, release)
        if last is not None:
            return Refused(
                name,
                f"Model architecture {name} was supported in vLLM until v{last}, and is not supported anymore.",
            )
        if _leaves_to_plugin(name, release):
            return Refused(
                name,
                f"Model architecture {name} is not supported in-tree anymore. Please install the plugin at "
                f"{OUT_OF_TREE[name].address}",
            )
    return Refused(names[0], f"Model architectures {list(names)} are not supported for now.")


def _leaves_to_plugin(name: str, release: Release) -> bool:
    return name in OUT_OF_TREE and release.within(OUT_OF_TREE[name]) and release.has(history.OUT_OF_TREE_PLUGINS)


def last_version(name: str, release: Release) -> str | None:
    """The last vLLM version that had an architecture which `release` no longer has, as vLLM itself reports it."""
    if name in UNTOLD or _leaves_to_plugin(name, release):
        return None
    entries = registered.known_to(name)
    until = entries[-1].span.until if entries else None
    gone = until is not None and not release.within(Span(until=until))
    if entries and not gone:
        return None
    if name in RETIRED:
        return RETIRED[name]
    if until is None or not gone:
        return None
    return ".".join(until.split(".")[:2]) + ".0"
