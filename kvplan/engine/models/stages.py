"""What the classes of some models look for among the layers of a pipeline stage, and refuse a stage without.

Classes that balance experts take the last layer with routed experts as the example for all of them. Source: the
constructors of the modules named below (`model_executor/models`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvplan.releases import ALWAYS, Span

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction
    from kvplan.engine.models.fields import Fields


@dataclass(frozen=True, slots=True)
class StageNeed:
    """What every pipeline stage has to hold, or where it may begin."""

    message: str
    exception: str = "RuntimeError"
    example_layers: frozenset[int] | None = None
    """Decoder layers one of which a stage must hold; None where the class looks for none."""
    first_layer: int = 0
    """The lowest decoder layer with which a stage after the first may begin."""

    def fails(self, stage: int, start: int, end: int) -> bool:
        """Whether pipeline stage `stage`, of the decoder layers from `start` up to `end`, is refused."""
        if self.example_layers is not None and not any(start <= index < end for index in self.example_layers):
            return True
        return stage > 0 and start < self.first_layer


def needs(outer: Construction, innermost: Construction) -> tuple[StageNeed, ...]:
    """What the classes of the model, and of the language model in it, ask of each stage, in the order of the checks."""
    found = []
    vision = outer.config.section("vision_config")
    if outer.entry.module in ("qwen3_vl", "qwen3_vl_moe") and vision is not None:
        levels = vision.items("deepstack_visual_indexes")
        if levels is not None:
            text = "start_layer should be greater than or equal to len(deepstack_visual_indexes)"
            found.append(StageNeed(text, "AssertionError", first_layer=len(levels)))
    wrapper = outer.entry.module if innermost is not outer else ""
    rows = _WRAPPERS[wrapper] if wrapper in _WRAPPERS else _EXAMPLES.get(innermost.entry.class_name, ())
    for row in rows:
        layers = row.sparse(innermost.text, innermost.count) if row.span.covers(outer.release.acts_as) else None
        if layers is not None:
            found.append(StageNeed(row.message, row.exception, example_layers=layers))
    return tuple(found)


Sparse = Callable[["Fields", int], "frozenset[int] | None"]
"""The decoder layers with routed experts, of so many; None where the class does not look."""


@dataclass(frozen=True, slots=True)
class _Example:
    message: str
    sparse: Sparse
    span: Span = ALWAYS
    exception: str = "RuntimeError"


def _after(field: str, default: int = 0) -> Sparse:
    """The layers from the one that a field names on."""

    def sparse(text: Fields, count: int) -> frozenset[int]:
        first = text.optional(field)
        return frozenset(range(default if first is None else first, count))

    return sparse


def _unless_dense_throughout(text: Fields, count: int) -> frozenset[int] | None:
    """AFMoE's, which does not look where the config has dense layers only."""
    return _after("num_dense_layers")(text, count) or None


def _steps(text: Fields, count: int) -> frozenset[int]:
    """Qwen's: every `decoder_sparse_step`-th layer that is not listed as dense."""
    if not text.optional("num_experts"):
        return frozenset()
    step = max(1, text.optional("decoder_sparse_step") or 1)
    dense = text.items("mlp_only_layers") or ()
    return frozenset(index for index in range(count) if (index + 1) % step == 0 and index not in dense)


def _all(_text: Fields, count: int) -> frozenset[int]:
    return frozenset(range(count))


def _listed(text: Fields, count: int) -> frozenset[int]:
    """Step-3.5's: by type or number where the config lists them, else all but the first."""
    types = text.items("mlp_layer_types")
    if types is not None:
        return frozenset(index for index, kind in enumerate(types[:count]) if kind == "sparse")
    numbers = text.text("moe_layers_enum")
    if numbers is not None:
        return frozenset(int(number) for number in numbers.split(",") if number.strip().isdigit())
    return frozenset(range(1, count))


def _pattern(text: Fields, _count: int) -> frozenset[int] | None:
    """Nemotron-H's: the letters E of its pattern; it does not look where there is none."""
    pattern = text.get("hybrid_override_pattern")
    if not isinstance(pattern, str):
        return None
    return frozenset(index for index, letter in enumerate(pattern) if letter == "E") or None


_GLM = (_Example("No Glm4MoE layer found in model.layers.", _after("first_k_dense_replace")),)
_PANGU = (_Example("No MOE layer found in model.layers.", _after("first_k_dense_replace")),)
_QWEN3_5 = (_Example("No Qwen3_5 layer found in the language_model.model.layers.", _all),)

_EXAMPLES: Mapping[str, tuple[_Example, ...]] = {
    "AfmoeForCausalLM": (_Example("No AfmoeMoE layer found in model.layers.", _unless_dense_throughout),),
    "Glm4MoeForCausalLM": _GLM,
    "Glm4MoeLiteForCausalLM": _GLM,
    "HYV3ForCausalLM": (_Example("No MoE layer found in model.layers.", _after("first_k_dense_replace")),),
    "HunYuanMoEV1ForCausalLM": (_Example("No HunYuanMoE layer found in model.layers.", _all, Span(until="0.28.0")),),
    "Lfm2MoeForCausalLM": (
        _Example("No Lfm2MoeSparseMoeBlock layer found in the model.layers.", _after("num_dense_layers")),
    ),
    "MellumForCausalLM": (_Example("No MoE layer found in the model.layers.", _steps, Span(until="0.31.0")),),
    "MixtralForCausalLM": (_Example("No MixtralMoE layer found  in model.layers.", _all),),
    "NemotronHForCausalLM": (
        _Example(
            "'NoneType' object has no attribute 'n_logical_experts'", _pattern, Span(until="0.30.0"), "AttributeError"
        ),
        _Example("", _pattern, Span(since="0.31.0"), "AssertionError"),
    ),
    "PanguProMoEV2ForCausalLM": _PANGU,
    "PanguUltraMoEForCausalLM": _PANGU,
    "Param2MoEForCausalLM": (
        _Example(
            "No Param2MoEMoEBlock found in model.layers. Check first_k_dense_replace and num_experts in config.",
            _after("first_k_dense_replace", 1),
        ),
    ),
    "Qwen3MoeForCausalLM": (_Example("No Qwen3MoE layer found in the model.layers.", _steps),),
    "Qwen3NextForCausalLM": (_Example("No Qwen3Next layer found in the model.layers.", _steps),),
    "Qwen3_5MoeForCausalLM": _QWEN3_5,
    "Qwen3_5MoeForConditionalGeneration": _QWEN3_5,
    "SarvamMLAForCausalLM": (
        _Example("No SarvamMLAMoE layer found in model.layers.", _after("first_k_dense_replace", 1)),
    ),
    "Step3p5ForCausalLM": (_Example("No MoE layers found in the model.", _listed, exception="AssertionError"),),
}
"""Class -> what it looks for, release by release."""

_WRAPPERS: Mapping[str, tuple[_Example, ...]] = {
    "interns1_pro": (_Example("No InternS1ProMoe layer found in the language_model.", _steps),),
    "qwen3_omni_moe_thinker": (),
    "qwen3_vl_moe": (_Example("No Qwen3Moe layer found in the language_model.", _steps),),
}
"""Modules of wrappers that look themselves, or not at all: their language model is a class of their own."""
