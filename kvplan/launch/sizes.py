"""Amounts of memory as people write them."""

from __future__ import annotations

import re

from kvplan.errors import InputError

_SIZE = re.compile(r"(\d{1,20}(?:\.\d{1,12})?)\s*([a-z]{0,5})", re.ASCII | re.IGNORECASE)
_LOGGED = re.compile(r"Available KV cache memory:\s*(?P<amount>-?\d{1,9}(?:\.\d{1,9})?\s*GiB)", re.ASCII)
_PREFIXES = "kmgtp"
_LIMIT = 2**60
_DOUBTED = range(2, 4096)
"""Bytes that nobody means who writes a number without a unit; one byte is what a test of an empty pool asks for."""


def parse_size(text: str, option: str) -> int:
    """`text` in bytes: `60GiB`, `47.5 GiB` (binary), `60GB` (decimal), plain bytes.

    A bare letter follows vLLM's own convention: `60G` is binary, `60g` decimal. `option` is named in the
    InputError that anything else raises, and a number so small that its unit was forgotten (`60`).
    """
    digits = text.strip()
    if digits.isdecimal() and digits.isascii() and len(digits) < 6 and int(digits) in _DOUBTED:
        raise InputError(f"{option} {digits} is {digits} bytes: write the unit, such as {digits}GiB")
    match = _SIZE.fullmatch(text.strip())
    factor = None if match is None else _factor(match[2])
    if match is None or factor is None:
        raise InputError(f"{option} {text[:80]!r} is not an amount of memory: write it like 60GiB, 64GB or 64424509440")
    size = int(match[1]) * factor if match[1].isdigit() else int(float(match[1]) * factor)
    if not 0 < size < _LIMIT:
        raise InputError(f"{option} {text[:80]!r}: the amount must be more than 0 and less than 1 EiB")
    return size


def parse_available(text: str, option: str) -> int:
    """Memory for the cache in bytes: an amount as `parse_size` takes it, or the line in which vLLM logs it, pasted.

    vLLM's own figure may be 0 or negative (`Available KV cache memory: -3.21 GiB`), where weights and activations take
    more than it may use. Raises InputError as `parse_size` does.
    """
    logged = _LOGGED.search(text)
    amount = logged["amount"] if logged is not None else text.strip()
    if amount in ("0", "-0"):
        return 0
    size = parse_size(amount.removeprefix("-"), option)
    return -size if amount.startswith("-") else size


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
