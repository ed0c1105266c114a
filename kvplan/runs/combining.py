"""From options with several values to the launches of a sweep: one a combination."""

from __future__ import annotations

import itertools
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kvplan.errors import InputError
from kvplan.launch.options import Kind, Option, lifetime_of, table_of
from kvplan.releases import KNOWN, Release, resolve
from kvplan.report.sweepvalues import Axis
from kvplan.runs.launching import LaunchRequest

MOST = 1000
"""Combinations of one sweep."""

RELEASE = "--vllm-version"
GPU = "--gpu"
MEMORY = "--available-kv-memory"

_WHOLE = frozenset(
    {
        Kind.BOOL,
        Kind.TRUE,
        Kind.HELP,
        Kind.JSON,
        Kind.PARSED_JSON,
        Kind.DATACLASS,
        Kind.JSON_OR_STR,
        Kind.DEVICE_IDS,
        Kind.LORA,
    }
)
"""Kinds of options without a value, or whose own values have commas."""

_COMMA = re.compile(r"(?<!\\),")


def split_values(flag: str, text: str) -> tuple[str, ...]:
    r"""The values in `text`, without repetitions: `auto,fp8` is two, `a\,b` is the one value `a,b`.

    What looks like JSON is one value. Raises InputError for an empty value.
    """
    if text.lstrip().startswith(("{", "[")):
        return (text,)
    values = [part.strip() for part in _COMMA.split(text)]
    if len(values) > 1 and not all(values):
        raise InputError(f"{flag} {text[:80]!r}: there is an empty value between the commas")
    return tuple(dict.fromkeys(value.replace("\\,", ",") for value in values))


def every_release(text: str) -> str:
    """`--releases` as values of --vllm-version: `all`, a list, or a span such as `0.19..0.26` (both inclusive)."""
    named: list[str] = []
    for part in split_values("--releases", text):
        first, dots, last = part.partition("..")
        if part.lower() == "all":
            named += KNOWN
        elif dots:
            start = KNOWN.index(resolve(first).acts_as) if first else 0
            end = KNOWN.index(resolve(last).acts_as) if last else len(KNOWN) - 1
            if end < start:
                raise InputError(f"--releases {part}: the span runs backwards")
            named += KNOWN[start : end + 1]
        else:
            named.append(part)
    return ",".join(dict.fromkeys(named))


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of the launch. With an axis, its value stands behind `text`; or, where there are `choices`, the words that
    its value stands for are in its place."""

    text: str
    axis: str | None = None
    choices: Mapping[str, tuple[str, ...]] | None = None

    def filled(self, options: Mapping[str, str]) -> tuple[str, ...]:
        if self.axis is None:
            return (self.text,)
        value = options[self.axis]
        return (self.text + value,) if self.choices is None else self.choices[value]


@dataclass(frozen=True, slots=True)
class Combinations:
    """The combinations of a sweep, the release varying fastest."""

    request: LaunchRequest
    axes: tuple[Axis, ...]
    words: tuple[_Word, ...]
    """The words in place of the request's options."""
    appended: tuple[_Word, ...] = ()
    """More words for its literal command."""

    def all(self) -> list[tuple[dict[str, str], LaunchRequest]]:
        """Each combination: the value of each axis, and the launch asked for."""
        names = [axis.name for axis in self.axes]
        combined = itertools.product(*(axis.values for axis in self.axes))
        chosen = (dict(zip(names, values, strict=True)) for values in combined)
        return [(options, self._asked(options)) for options in chosen]

    def _asked(self, options: dict[str, str]) -> LaunchRequest:
        request = self.request
        literal = request.literal
        return replace(
            request,
            options=_filled(self.words, options),
            literal=None if literal is None else (*literal, *_filled(self.appended, options)),
            vllm_version=options.get(RELEASE, request.vllm_version),
            gpu=options.get(GPU, request.gpu),
            available_kv_memory=options.get(MEMORY, request.available_kv_memory),
        )


def _filled(words: Sequence[_Word], options: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(text for word in words for text in word.filled(options))


def combinations(request: LaunchRequest, vary: Sequence[str] = ()) -> Combinations:
    """The combinations that the commas in `request` and the alternatives of `vary` (`WORDS | WORDS`) mean.

    Axes come in the order GPU, memory, vLLM's options as written, alternatives, release. Raises InputError for an
    empty value, alternatives to a literal command, or more than `MOST` combinations.
    """
    if vary and request.literal is not None:
        raise InputError("--vary adds to options before --; a command after -- is left as it is")
    axes: list[Axis] = []
    request = replace(
        request,
        gpu=_own(axes, GPU, request.gpu),
        available_kv_memory=_own(axes, MEMORY, request.available_kv_memory),
    )
    words = _words(axes, request.options)
    for text in vary:
        values = tuple(dict.fromkeys(part.strip() for part in text.split("|")))
        if len(values) < 2:
            raise InputError(f"--vary {text[:80]!r}: give alternatives with | between, such as '--enforce-eager | '")
        name = "--vary" if len(vary) == 1 else f"--vary {len(axes) + 1}"
        axes.append(Axis(name, values))
        words.append(_Word("", name, {value: _split(value) for value in values}))
    release = _own(axes, RELEASE, request.vllm_version)
    return _counted(Combinations(replace(request, vllm_version=release or "latest"), tuple(axes), tuple(words)))


def varied(
    request: LaunchRequest, own: Mapping[str, Sequence[str]], words: Mapping[str, Mapping[str, Sequence[str]]]
) -> Combinations:
    """The combinations of a literal command: of several values for kvplan's own options, by flag, and of words that
    stand at its end, by axis and value.

    Axes come in the order GPU, memory, words, release. Raises InputError for more than `MOST` combinations.
    """
    axes = [Axis(flag, tuple(own[flag])) for flag in (GPU, MEMORY) if flag in own]
    axes += [Axis(name, tuple(choices)) for name, choices in words.items()]
    axes += [Axis(flag, tuple(own[flag])) for flag in (RELEASE,) if flag in own]
    appended = tuple(
        _Word("", name, {value: tuple(filling) for value, filling in choices.items()})
        for name, choices in words.items()
    )
    return _counted(Combinations(request, tuple(axes), (), appended))


def _counted(wanted: Combinations) -> Combinations:
    """The same. Raises InputError for too many."""
    count = math.prod(len(axis.values) for axis in wanted.axes)
    if count > MOST:
        product = " x ".join(f"{len(axis.values)} of {axis.name}" for axis in wanted.axes)
        raise InputError(f"{count:,} combinations ({product}) are more than {MOST:,}: give fewer values at once")
    return wanted


def _split(value: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise InputError(f"--vary {value[:80]!r}: {error}") from None


def _own(axes: list[Axis], flag: str, text: str | None) -> str | None:
    """One of kvplan's own options: its only value, or an axis."""
    if text is None:
        return None
    values = split_values(flag, text)
    if len(values) > 1:
        axes.append(Axis(flag, values))
    return values[0]


def _words(axes: list[Axis], options: Sequence[str]) -> list[_Word]:
    """The launch's words, those with several values as axes."""
    told: list[_Word] = []
    flag: str | None = None
    for word in options:
        if flag is not None and not word.startswith("--"):
            told.append(_value(axes, flag, "", word))
            flag = None
            continue
        flag = None
        name, equals, value = word.partition("=")
        if not name.startswith("-") or not _splits(name):
            told.append(_Word(word))
        elif equals:
            told.append(_value(axes, name, f"{name}=", value))
        else:
            told.append(_Word(word))
            flag = name
    return told


def _value(axes: list[Axis], flag: str, prefix: str, text: str) -> _Word:
    values = split_values(flag, text)
    if len(values) == 1:
        return _Word(prefix + values[0])
    taken = {axis.name for axis in axes}
    name = flag if flag not in taken else f"{flag} ({len(axes) + 1})"
    axes.append(Axis(name, values))
    return _Word(prefix, name)


def _splits(flag: str) -> bool:
    """Whether a comma in the value of `flag` separates values: not in lists and JSON, which have commas."""
    spelled = f"--{flag[2:].replace('_', '-')}" if flag.startswith("--") else flag
    whole, dot, _ = spelled.partition(".")
    option = _option(whole)
    if option is None:
        return False
    return bool(dot) or (option.kind not in _WHOLE and not option.is_list and not option.append)


def _option(flag: str) -> Option | None:
    """The option as the newest release that has it knows it."""
    lifetime = lifetime_of(flag)
    return None if lifetime is None else table_of(Release(lifetime.last, lifetime.last)).by_flag.get(flag)
