"""Which known releases have an option or accept a value, in words."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.facade import cache_dtypes, is_packed, serves
from kvplan.launch.options import choices_of, lifetime_of
from kvplan.releases import KNOWN, Release, resolve


def with_option(flag: str) -> tuple[str, ...]:
    """The known releases whose parser has `flag`, oldest first."""
    lifetime = lifetime_of(flag)
    return () if lifetime is None else lifetime.releases


def with_value(option: str, value: str) -> tuple[str, ...]:
    """The known releases in which option `option` (underscores) accepts `value`, as far as choices are listed."""
    return tuple(name for name in KNOWN if value in accepted(option, resolve(name)))


def with_architecture(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The known releases of vLLM that support the model's architecture, whether kvplan emulates it or not."""
    return tuple(name for name in KNOWN if serves(checkpoint, resolve(name)))


def accepted(option: str, release: Release) -> tuple[str, ...]:
    """The values that `release` lists for an option; empty where it lists none."""
    if option == "kv_cache_dtype":
        return cache_dtypes(release)
    return tuple(str(choice) for choice in choices_of(option, release) or ())


def common(option: str, release: Release) -> tuple[str, ...]:
    """The accepted values without the cache dtypes of special layouts."""
    return tuple(name for name in accepted(option, release) if option != "kv_cache_dtype" or not is_packed(name))


def nearest(value: str, among: Sequence[str]) -> str | None:
    """The listed value that `value` was probably meant to be."""
    folded = {name.lower(): name for name in among}
    close = get_close_matches(value.lower().replace("-", "_"), folded, n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def span(releases: Sequence[str]) -> str:
    """`0.20.2 and later`, `0.16.0 to 0.27.1`, `0.18.1 only`; the releases are neighbours in almost all cases."""
    first, last = releases[0], releases[-1]
    if last == KNOWN[-1]:
        return f"{first} and later" if first != last else first
    return f"{first} only" if first == last else f"{first} to {last}"
