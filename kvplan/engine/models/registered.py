"""The model classes that each vLLM release registers, and the Transformers classes it can fall back to.

Two tables ship with the package. `registered.tsv` has a line for each architecture name and each run of releases
over which it means the same class: name, module below vLLM's model folder, class, interfaces (letters below), kind
of cache, first and last release (empty: since the oldest, up to the newest known). `transformers.tsv` has the
architecture names of Transformers that vLLM may wrap: name, model types whose causal class it is, whether the
backend takes it, and the path of its attention modules.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from kvplan.releases import ALWAYS, Span

if TYPE_CHECKING:
    from kvplan.releases import Release

TRANSFORMERS_MODULE = "transformers"
"""The `module` of classes that wrap a Transformers model."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What one architecture name means over a run of releases."""

    architecture: str
    module: str
    class_name: str
    interfaces: str
    """g generates text, p pools, m multimodal, P pipeline parallelism, h hybrid, f attention-free, e encoder-only,
    n has layers without attention, t transcribes and does nothing else."""
    kind: str
    """`decoder`, `encoder`, or the reason in `unplaceable` why the layers are not computed."""
    span: Span = ALWAYS

    @property
    def generates(self) -> bool:
        """Whether the class is a text generation model."""
        return "g" in self.interfaces

    @property
    def pools(self) -> bool:
        """Whether the class is a pooling model."""
        return "p" in self.interfaces

    @property
    def multimodal(self) -> bool:
        """Whether the class takes images, audio or video."""
        return "m" in self.interfaces

    @property
    def pipelines(self) -> bool:
        """Whether the class supports pipeline parallelism."""
        return "P" in self.interfaces

    @property
    def hybrid(self) -> bool:
        """Whether the class mixes attention and state layers."""
        return "h" in self.interfaces

    @property
    def attention_free(self) -> bool:
        """Whether the class has no attention at all."""
        return "f" in self.interfaces

    @property
    def encoder_only(self) -> bool:
        """Whether the class attends in both directions and keeps no cache."""
        return "e" in self.interfaces

    @property
    def wraps_transformers(self) -> bool:
        """Whether the class is one of the Transformers backend."""
        return self.module == TRANSFORMERS_MODULE


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A Transformers class as the Transformers backend sees it."""

    architecture: str
    support: str
    """`full`, `settable` (only its attention implementation can be set), `encoder` (keeps no cache), `cross` and
    `cross_settable` (keys and values of an encoder's output beside its own), `none` (the backend does not take it) or
    `unknown` (attention modules not found)."""
    attention: str
    """Path of the attention module of layer `{i}` below the Transformers base model."""


def lacks_plans(model_type: str) -> frozenset[str]:
    """Of `tensor` and `pipeline` parallelism, those for which Transformers 5.20.2 has no plan in its config class for
    the type, nor in one of its parts (`base_model_tp_plan`, `base_model_pp_plan`). Types with parts of any class are
    left out."""
    return frozenset(kind for name, kind in _rows("no_plan.tsv") if name == model_type)


@cache
def _rows(name: str) -> tuple[tuple[str, ...], ...]:
    text = (files("kvplan.engine.models") / name).read_text(encoding="utf-8")
    return tuple(tuple(line.split("\t")) for line in text.splitlines())


@cache
def _registered() -> dict[str, list[Registration]]:
    table: dict[str, list[Registration]] = {}
    for name, module, class_name, interfaces, kind, since, until in _rows("registered.tsv"):
        span = Span(since=since or None, until=until or None)
        entry = Registration(name, module, class_name, interfaces, kind, span)
        table.setdefault(name, []).append(entry)
    return table


@cache
def _transformers() -> dict[str, Wrapped]:
    return {
        name: Wrapped(name, support, attention or "layers.{i}.self_attn")
        for name, _, support, attention in _rows("transformers.tsv")
    }


@cache
def _causal() -> dict[str, str]:
    return {model: name for name, models, _, _ in _rows("transformers.tsv") for model in models.split(",") if model}


def lookup(architecture: str, release: Release) -> Registration | None:
    """What `architecture` means to `release`, or None where it is not registered."""
    for entry in _registered().get(architecture, ()):
        if release.within(entry.span):
            return entry
    return None


def known_to(architecture: str) -> tuple[Registration, ...]:
    """All entries of an architecture name, oldest first (empty where no known release registers it)."""
    return tuple(_registered().get(architecture, ()))


def architectures(release: Release) -> tuple[str, ...]:
    """All names registered in `release`, in alphabetical order."""
    return tuple(name for name in _registered() if lookup(name, release) is not None)


def transformers_class(architecture: str) -> Wrapped | None:
    """The Transformers class of that name, or None where Transformers has none that vLLM could wrap."""
    return _transformers().get(architecture)


def causal_class(model_type: str) -> str | None:
    """Name of Transformers' causal class for a model type."""
    return _causal().get(model_type)


@cache
def _adapters() -> dict[str, list[Span]]:
    table: dict[str, list[Span]] = {}
    for name, since, until in _rows("lora.tsv"):
        table.setdefault(name, []).append(Span(since=since or None, until=until or None))
    return table


def takes_adapters(architecture: str, release: Release) -> bool:
    """Whether the class has `SupportsLoRA`."""
    return any(span.covers(release.acts_as) for span in _adapters().get(architecture, ()))
