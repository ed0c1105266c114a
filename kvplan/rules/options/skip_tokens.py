"""Why a skip token matches nothing, and how it would have to be spelled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kvplan.engine.facade import Role
from kvplan.engine.values import Plan

_LIST = re.compile(r"[\[(]?\s*['\"]?[\w.:-]+['\"]?(\s*[,;\s]\s*['\"]?[\w.:-]+['\"]?)*\s*,?\s*[\])]?")
_RANGE = re.compile(r"(\d{1,5})\s*(?:-|:|\.\.+|–)\s*(\d{1,5})")
_NAMED = re.compile(r"(?:[\w.]*\.)?(?:layers?|blocks?|h|l)[._-]?(\d{1,5})(?:\..*)?", re.IGNORECASE)
_WINDOW_WORDS = frozenset(
    {"sliding_window", "sliding", "sliding_attention", "swa", "local", "local_attention", "window"}
)
_FULL_WORDS = frozenset({"full", "full_attention", "global", "global_attention"})
_ALL_WORDS = frozenset({"all", "*"})


@dataclass(frozen=True, slots=True)
class Reading:
    """What a token was probably meant to be: `reason` it matches nothing, and the tokens that say it."""

    reason: str
    spelled: tuple[str, ...] = ()


def read(token: str, plan: Plan) -> Reading:
    """Judge one unmatched token against the model's layers."""
    if plan.geometry is not None and not plan.geometry.layers:
        return Reading("this model keeps no KV cache")
    count = _layer_count(plan)
    text = token.strip()
    parts = [part.strip(" '\"[]()") for part in re.split(r"[,;\s]+", text)]
    if len(parts) > 1 and _LIST.fullmatch(text):
        spelled = [word for part in parts if part for word in _spell(part, plan, count)]
        return Reading("vLLM does not split at commas, so this is one token", _unique(spelled))
    if _RANGE.fullmatch(text):
        return Reading("vLLM does not expand ranges, so this is one token", _unique(_spell(text, plan, count)))
    if re.fullmatch(r"-\d{1,5}", text):
        return Reading("layers are not counted from the end", _unique(_spell(text, plan, count)))
    if text.isdecimal() and text.isascii():
        return _read_number(text, token, count)
    word = text.lower().replace("-", "_")
    if word in _WINDOW_WORDS:
        return _read_window(text, plan)
    spelled = _spell(text.strip("'\"[]()"), plan, count)
    if word in _FULL_WORDS | _ALL_WORDS:
        return Reading("the only word vLLM knows is sliding_window; other layers go by number", _unique(spelled))
    if spelled:
        return Reading("a layer is named by its number alone", _unique(spelled))
    return Reading("a token is a layer number or the word sliding_window")


def _read_number(text: str, token: str, count: int | None) -> Reading:
    """A token of digits only: it has leading zeros or blanks, or names a layer the model does not have."""
    plain = str(int(text))
    if count is not None and int(text) >= count:
        return Reading(f"the model's layers are 0 to {count - 1}")
    if plain != token:
        return Reading("tokens are compared as text, without leading zeros or blanks", (plain,))
    return Reading("no attention layer of this model has that number")


def _read_window(text: str, plan: Plan) -> Reading:
    """A word for sliding-window layers: misspelt, or for layers the model does not have."""
    if not any(layer.sliding_window for layer in plan.layers):
        return Reading("no layer of this model has a sliding window")
    if text == "sliding_window":
        return Reading("it reaches only layers of vLLM's Attention class that have a sliding window")
    return Reading("the word is spelled sliding_window", ("sliding_window",))


def _spell(part: str, plan: Plan, count: int | None) -> list[str]:
    """The tokens vLLM would understand for one part of what was written."""
    lowered = part.lower().replace("-", "_")
    if match := _RANGE.fullmatch(part):
        first, last = int(match[1]), int(match[2])
        last = min(last, first + 4096 if count is None else count - 1)
        return [str(index) for index in range(first, last + 1)]
    if re.fullmatch(r"-\d{1,5}", part):
        index = -1 if count is None else count + int(part)
        return [str(index)] if count is not None and 0 <= index < count else []
    if part.isdecimal() and part.isascii():
        return [str(int(part))] if count is None or int(part) < count else []
    if lowered in _WINDOW_WORDS:
        return ["sliding_window"] if any(layer.sliding_window for layer in plan.layers) else []
    if lowered in _FULL_WORDS | _ALL_WORDS:
        return [
            str(layer.index)
            for layer in plan.layers
            if layer.role is Role.ATTENTION and (lowered in _ALL_WORDS or not layer.sliding_window)
        ]
    if match := _NAMED.fullmatch(part):
        return _spell(match[1], plan, count)
    return []


def _layer_count(plan: Plan) -> int | None:
    """Decoder layers of the model, None while its shape is unknown."""
    if plan.geometry is not None:
        return plan.geometry.num_layers
    return max((layer.index for layer in plan.layers), default=-1) + 1 or None


def _unique(items: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))
