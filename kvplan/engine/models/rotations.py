"""How many elements of a key a rope for several positions turns, and which of them each position gets.

Source: `get_rope` and `MRotaryEmbedding` (model_executor/layers/rotary_embedding).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kvplan.engine.models.geometry import Kind, LayerGeometry
from kvplan.engine.models.refusals import Refused

if TYPE_CHECKING:
    from kvplan.engine.models.construction import Construction

_SECTIONED = frozenset({"default", "yarn"})
"""Rope types that are cut into sections where `mrope_section` is there."""

_TURNS_BY_CONFIG = frozenset(
    {
        "apertus",
        "deepseek_v2",
        "ernie45",
        "gemma",
        "gemma2",
        "glm4",
        "glm4_moe",
        "granite",
        "internlm2",
        "lfm2",
        "lfm2_moe",
        "llama",
        "mimo",
        "minimax_m2",
        "mistral",
        "mixtral",
        "phi3",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_5",
        "qwen3_moe",
        "qwen3_next",
        "seed_oss",
    }
)
"""Modules whose every attention layer hands on the config's one set of rope parameters as it is."""


def check(made: Construction, layers: Sequence[LayerGeometry]) -> None:
    """Raises Refused where the sections do not add up to half of the elements that are turned, or where a long rope has
    another number of factors.

    A head of 64 elements has 32 frequencies to share out: [11, 11, 10] fits, [16, 24, 24] does not.
    """
    rope = made.text.get("rope_parameters")
    first = next((layer for layer in layers if layer.kind in (Kind.ATTENTION, Kind.MLA)), None)
    if made.entry.module not in _TURNS_BY_CONFIG or first is None or not isinstance(rope, Mapping):
        return
    width = first.head_size if first.latent is None else first.latent.qk_rope_head_dim
    turned = rope.get("rope_dim") or int(width * (rope.get("partial_rotary_factor") or 1.0))
    if rope.get("rope_type") == "longrope":
        _check_factors(made, rope, -(-turned // 2))
    sections = rope.get("mrope_section")
    if rope.get("rope_type") not in _SECTIONED or not isinstance(sections, (list, tuple)) or not sections:
        return
    if sum(each for each in sections if isinstance(each, int)) != turned // 2:
        what = f"mrope_section of the config adds up to {turned // 2}"
        raise Refused(made.architecture, "", "AssertionError", "layers", what)


def _check_factors(made: Construction, rope: Mapping[str, object], frequencies: int) -> None:
    """A long rope multiplies frequencies and factors one by one; a single factor, or frequency, goes with all.

    The words are those of torch for tensors without data, with which golden records are made.
    """
    for name in ("short_factor", "long_factor"):
        factors = rope.get(name)
        if isinstance(factors, (list, tuple)) and 1 not in (len(factors), frequencies) and len(factors) != frequencies:
            message = (
                f"Attempting to broadcast a dimension of length {frequencies} at -1! Mismatching argument at index 1 "
                f"had torch.Size([{frequencies}]); but expected shape should be broadcastable to [{len(factors)}]"
            )
            raise Refused(made.architecture, message, "RuntimeError", "layers", f"{name} of the config")
