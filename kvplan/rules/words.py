"""How the rules put numbers, layers and lists into one line of plain words; `kvplan.words` has those that all share."""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.engine.values import Plan
from kvplan.releases import KNOWN, Behaviour
from kvplan.words import counted, listed, number, ranges

__all__ = [
    "counted",
    "gib",
    "gpu_name",
    "layers",
    "listed",
    "number",
    "one_line",
    "percent",
    "release_after",
    "release_name",
    "tokens",
]

_SHOWN_TOKENS = 64


def release_name(plan: Plan) -> str:
    """`vLLM 0.25.1`."""
    return f"vLLM {plan.release.name}"


def release_after(behaviour: Behaviour) -> str:
    """The first known release in which a behaviour that came to an end is gone."""
    last = behaviour.until
    return KNOWN[-1] if last is None else KNOWN[min(KNOWN.index(last) + 1, len(KNOWN) - 1)]


def gpu_name(plan: Plan) -> str:
    """`h200 (compute capability 9.0)`."""
    hardware = plan.launch.hardware
    return f"{hardware.name} (compute capability {hardware.capability_text})"


def gib(size: float) -> str:
    """Bytes as GiB with two decimals, as vLLM's log prints them; smaller sizes in MiB or bytes."""
    if size >= 2**30 / 100:
        return f"{size / 2**30:,.2f} GiB"
    if size >= 2**20:
        return f"{size / 2**20:,.1f} MiB"
    return f"{number(int(size))} bytes"


def percent(part: float, whole: float) -> str:
    """`15.4%`."""
    return f"{100 * part / whole:.1f}%"


def layers(indices: Iterable[int]) -> str:
    """`layer 3`, `layers 0-1, 5`; a long enumeration is cut with its count."""
    numbers = set(indices)
    shown = ranges(numbers)
    more = f", … ({len(numbers)} in all)" if len(shown) > 6 else ""
    return f"layer{'s' if len(numbers) != 1 else ''} {', '.join(shown[:6])}{more}"


def tokens(items: Iterable[str]) -> str:
    """Skip tokens as one would type them."""
    found = list(items)
    if len(found) > _SHOWN_TOKENS:
        return " ".join([*found[:_SHOWN_TOKENS], "…"])
    return " ".join(found)


def one_line(text: str) -> str:
    """An error text of vLLM on one line, without the tail that pydantic adds."""
    flat = " ".join(text.split())
    for tail in (" [type=", " For further information visit", " See https://"):
        flat = flat.split(tail, 1)[0]
    return flat
