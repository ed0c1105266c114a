"""Amounts of memory as people write them."""

from __future__ import annotations

import re

from kvplan.errors import InputError

_SIZE = re.compile(r"(\d{1,20}(?:\.\d{1,12})?)\s*([a-z]{0,5})", re.ASCII | re.IGNORECASE)
_PREFIXES = "kmgtp"
_LIMIT = 2**60


def parse_size(text: str, option: str) -> int:
    """`text` in bytes: `60GiB`, `47.5 GiB` (binary), `60GB` (decimal), plain bytes.

    A bare letter follows vLLM's own convention: `60G` is binary, `60g` decimal. `option` is named in the
    InputError that anything else raises.
    """
    match = _SIZE.fullmatch(text.strip())
    factor = None if match is None else _factor(match[2])
    if match is None or factor is None:
        raise InputError(f"{option} {text[:80]!r} is not an amount of memory: write it like 60GiB, 64GB or 64424509440")
    size = int(match[1]) * factor if match[1].isdigit() else int(float(match[1]) * factor)
    if not 0 < size < _LIMIT:
        raise InputError(f"{option} {text[:80]!r}: the amount must be more than 0 and less than 1 EiB")
    return size


def _factor(unit: str) -> int | None:
    lower = unit.lower()
    if lower in ("", "b", "byte", "bytes"):
        return 1
    power = _PREFIXES.find(lower[0]) + 1
    if power == 0:
        return None
    if len(unit) == 1:
        return int(1024**power) if unit.isupper() else int(1000**power)
    if lower[1:] in ("i", "ib"):
        return int(1024**power)
    return int(1000**power) if lower[1:] == "b" else None
