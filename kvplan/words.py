"""Numbers and lists in plain English, for everything that kvplan says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def number(value: float, digits: int | None = None) -> str:
    """`1,048,576`; a fraction only where there is one, with as many digits as it has, or with `digits` of them."""
    if isinstance(value, int) or value.is_integer():
        return f"{int(value):,}"
    return f"{value:,}" if digits is None else f"{value:,.{digits}f}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 layer`, `2 layers`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def listed(items: Sequence[str], word: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {word} {items[-1]}"


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending runs of neighbours, first and last of each."""
    found: list[tuple[int, int]] = []
    for value in sorted(set(numbers)):
        if found and value == found[-1][1] + 1:
            found[-1] = (found[-1][0], value)
        else:
            found.append((value, value))
    return found


def ranges(numbers: Iterable[int]) -> list[str]:
    """The same in words: `0-1`, `4`, `7-9`."""
    return [str(first) if first == last else f"{first}-{last}" for first, last in runs(numbers)]
