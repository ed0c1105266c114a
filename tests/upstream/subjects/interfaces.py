"""What the registered classes can do, by their interfaces: letters for kvplan's table of classes, and EAGLE 3."""

from __future__ import annotations

from typing import Any

from kvplan.engine.models import registered
from kvplan.engine.speculation import auxiliary
from kvplan.releases import Release
from tests.upstream import classes
from tests.upstream.evaluate import ClassRef, Evaluator, FunctionRef
from tests.upstream.facts import Facts, Subject
from tests.upstream.sources import Sources
from tests.upstream.subjects import registry

_FLAGS = {
    "m": "supports_multimodal",
    "h": "is_hybrid",
    "f": "is_attention_free",
    "n": "has_noops",
    "t": "supports_transcription_only",
}


LETTERS = "gpmPhfnt"


def letters(evaluator: Evaluator, owner: ClassRef) -> str:
    """The letters that a class and its bases earn, in the order of kvplan's table; `e` is not read."""
    served = (
        _takes(evaluator, owner, "__init__", "vllm_config")
        and isinstance(classes.attribute(evaluator, owner, "embed_input_ids"), FunctionRef)
        and _takes(evaluator, owner, "forward", "input_ids")
        and _takes(evaluator, owner, "forward", "positions")
    )
    pools = classes.is_converted(evaluator, owner) or classes.attribute(evaluator, owner, "is_pooling_model") is True
    pipelines = classes.has_base(evaluator, owner, "SupportsPP") and _takes(
        evaluator, owner, "forward", "intermediate_tensors"
    )
    earned = {letter for letter, name in _FLAGS.items() if classes.attribute(evaluator, owner, name) is True}
    earned |= {"g"} if served and isinstance(_logits(evaluator, owner), FunctionRef) else set()
    earned |= {"p"} if served and pools else set()
    earned |= {"P"} if pipelines else set()
    return "".join(letter for letter in LETTERS if letter in earned)


def _logits(evaluator: Evaluator, owner: ClassRef) -> Any:
    return classes.attribute(evaluator, owner, "compute_logits")


def _takes(evaluator: Evaluator, owner: ClassRef, method: str, parameter: str) -> bool:
    """Whether the method has the parameter, or takes any by name."""
    function = classes.attribute(evaluator, owner, method)
    if not isinstance(function, FunctionRef):
        return False
    given = function.node.args
    return given.kwarg is not None or parameter in {
        one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)
    }


def read_eagle3(sources: Sources) -> Facts:
    """Name by name: true where the class implements SupportsEagle3 and is no draft's."""
    evaluator = Evaluator(sources)
    drafts = registry.table(sources, "_SPECULATIVE_DECODING_MODELS")
    return {
        name: True
        for name, owner in registry.model_classes(sources, evaluator)
        if name not in drafts and classes.attribute(evaluator, owner, "supports_eagle3") is True
    }


def told_eagle3(release: Release) -> Facts:
    """kvplan's table, for the names that the release registers."""
    names = registered.architectures(release)
    return {name: True for name in names if auxiliary.hands_out(name, release)}


def row_eagle3(name: str, value: Any, since: str) -> str:
    """A name for kvplan's table, below its release."""
    return f'"{since}": ("… {name} …"),'


EAGLE3 = Subject(
    name="eagle3_targets",
    table="engine/speculation/auxiliary.py _SINCE",
    read=read_eagle3,
    told=told_eagle3,
    row=row_eagle3,
)
