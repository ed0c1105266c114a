"""Sizes, layers and releases in words: what every format for people needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from kvplan.releases import KNOWN, Behaviour
from kvplan.words import ranges

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


def size(count: int) -> str:
    """A number of bytes in the unit that suits it, exact besides: `60.00 GiB (64,424,509,440 B)`."""
    scaled, unit = float(count), ""
    for candidate in _UNITS:
        if abs(scaled) < 1024:
            break
        scaled, unit = scaled / 1024, candidate
    return f"{scaled:,.2f} {unit} ({count:,} B)" if unit else f"{count:,} B"


def layer_list(numbers: Iterable[int], most: int = 4) -> str:
    """Layer numbers as briefly as they can be said: `0-1, 4`, `1-35 step 2`, `0-4, 6-10, …, 60-61`."""
    values = sorted(set(numbers))
    runs = ranges(values)
    if len(runs) <= most:
        return ", ".join(runs)
    steps = {later - earlier for earlier, later in pairwise(values)}
    if len(steps) == 1:
        return f"{values[0]}-{values[-1]} step {steps.pop()}"
    return ", ".join([*runs[: most - 2], "…", runs[-1]])


def layers_named(numbers: Iterable[int]) -> str:
    """`layer 0`, `layers 0-1, 4`."""
    values = sorted(set(numbers))
    return f"layer{'s' if len(values) != 1 else ''} {layer_list(values)}"


def printable(text: str) -> str:
    """The text with what would steer a terminal spelled out: names and messages may hold anything."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def shortened(text: str, most: int) -> str:
    """The text on one line, cut at a word before `most` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[:most].rsplit(' ', 1)[0]} …"


def span(behaviour: Behaviour) -> str:
    """The releases of a history entry: `since 0.26.0`, `until 0.25.1`, `0.25.1 to 0.30.0`."""
    since, until = behaviour.since, behaviour.until
    if since is not None and until is not None:
        return since if since == until else f"{since} to {until}"
    if since is not None:
        return f"since {since}"
    return f"until {until}" if until is not None else "every known release"


def lifetime(releases: Sequence[str]) -> str:
    """Known releases, in order and without gaps, as a span: `all`, `since 0.23.0`, `until 0.22.1`."""
    first, last = releases[0], releases[-1]
    if first == KNOWN[0]:
        return "all" if last == KNOWN[-1] else f"until {last}"
    if last == KNOWN[-1]:
        return f"since {first}"
    return f"{first} to {last}" if first != last else f"{first} only"
