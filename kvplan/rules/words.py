"""How the rules put numbers, layers and lists into one line of plain words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvplan.engine.values import Plan
from kvplan.releases import KNOWN, Behaviour

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


def number(value: float) -> str:
    """`1,048,576`; a fraction only where there is one."""
    return f"{int(value):,}" if value == int(value) else f"{value:,}"


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


def spans(indices: Iterable[int]) -> list[tuple[int, int]]:
    """Runs of consecutive numbers, first and last of each."""
    runs: list[tuple[int, int]] = []
    for index in sorted(set(indices)):
        if runs and index == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return runs


def layers(indices: Iterable[int]) -> str:
    """`layer 3`, `layers 0-1, 5`; a long enumeration is cut with its count."""
    runs = spans(indices)
    count = sum(last - first + 1 for first, last in runs)
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs[:6])
    if len(runs) > 6:
        shown += f", … ({count} in all)"
    return f"layer{'s' if count != 1 else ''} {shown}"


def tokens(items: Iterable[str]) -> str:
    """Skip tokens as one would type them."""
    found = list(items)
    if len(found) > _SHOWN_TOKENS:
        return " ".join([*found[:_SHOWN_TOKENS], "…"])
    return " ".join(found)


def either(items: Sequence[str], word: str = "or") -> str:
    """`a`, `a or b`, `a, b or c`."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {word} {items[-1]}"


def plural(count: int, singular: str, many: str | None = None) -> str:
    """`1 layer`, `2 layers`."""
    return f"{number(count)} {singular if count == 1 else many or singular + 's'}"


def one_line(text: str) -> str:
    """An error text of vLLM on one line, without the tail that pydantic adds."""
    flat = " ".join(text.split())
    for tail in (" [type=", " For further information visit", " See https://"):
        flat = flat.split(tail, 1)[0]
    return flat
