"""A vLLM argument list, read as that release's own parser reads it.

vLLM parses with a subclass of Python's argparse that first rewrites the words: the model moves to the front, a
`--config` file is inserted, underscores in option names become dashes, `-O3` becomes `--optimization-level 3`, and
dotted options are gathered into one JSON value each. Then argparse applies, with its abbreviations, lists and
error messages (those of Python 3.12, which vLLM's images run). Both steps are done here over words that remember
where they were written, so that the result does not depend on the Python that runs kvplan. Where vLLM would stop,
the refusal is noted and reading goes on, so that one run tells everything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from kvplan.errors import InputError
from kvplan.history import options as history
from kvplan.launch.configfile import ConfigFiles, ConfigRefusedError, config_tokens
from kvplan.launch.conversion import RefusedError, convert, human_int
from kvplan.launch.options import Kind, Option, OptionTable, lifetime_of, table_of
from kvplan.launch.passages import Passage
from kvplan.launch.tokens import Token
from kvplan.launch.values import PARSER_REFUSES, Refusal, Remark, Setting
from kvplan.releases import Release, Span


class EntryPoint(StrEnum):
    """Which of vLLM's two front doors reads the words."""

    SERVE = "vllm serve"
    MODULE = "python -m vllm.entrypoints.openai.api_server"


AMBIGUOUS = "ambiguous option"
"""How the refusal of an abbreviation of several options begins."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What the parser made of the words."""

    settings: dict[str, Setting]
    """Every option that was set, those that do not matter to the cache too."""
    model_tag: Token | None
    """The positional argument."""
    extras: tuple[Token, ...]
    """Words that no option of the release takes."""
    strays: tuple[Token, ...]
    """Those of them that are arguments and do not follow an unknown option: further positionals."""
    refusals: tuple[Refusal, ...]
    remarks: tuple[Remark, ...]


def parse(
    tokens: Sequence[Token],
    release: Release,
    entry: EntryPoint,
    base: Path | None = None,
    files: Mapping[str, Passage] | None = None,
    *,
    closed: bool = False,
) -> Parsed:
    """Read the words after `vllm serve` (or after the module's name).

    `base` is the directory in which a relative `--config` file lies, `files` are contents of such files that are
    at hand already; `closed` says that no other may be read. Raises InputError only for a file that
    kvplan cannot read and for `--help`, which starts nothing.
    """
    reading = _Reading(table_of(release), release)
    words = list(tokens)
    if entry is EntryPoint.SERVE:
        words = _model_to_front(words, reading)
    words = _insert_config(words, reading, entry, ConfigFiles(base, files or {}, closed))
    words = _rewrite_names(words)
    words = _gather_dotted(words, reading)
    _Argparse(reading, words).run()
    return reading.result()


@dataclass(slots=True)
class _Reading:
    """The state of one parse."""

    table: OptionTable
    release: Release
    settings: dict[str, Setting] = field(default_factory=dict)
    model_tag: Token | None = None
    extras: list[Token] = field(default_factory=list)
    strays: list[Token] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)

    def refuse(self, message: str, token: Token | None, option: str | None, exception: str = PARSER_REFUSES) -> None:
        location = None if token is None else token.location
        self.refusals.append(Refusal(option, message, exception, location))

    def remark(self, kind: str, option: str, detail: str, token: Token) -> None:
        self.remarks.append(Remark(kind, option, detail, token.location))

    def result(self) -> Parsed:
        if self.extras:
            listed = " ".join(token.text for token in self.extras)
            option = next((_name_of(token.text) for token in self.extras if token.text.startswith("-")), None)
            self.refuse(f"unrecognized arguments: {listed}", self.extras[0], option)
            for token in self.extras:
                self._remark_unknown(token)
        return Parsed(
            self.settings,
            self.model_tag,
            tuple(self.extras),
            tuple(self.strays),
            tuple(self.refusals),
            tuple(self.remarks),
        )

    def _remark_unknown(self, token: Token) -> None:
        if not token.text.startswith("-") or _NEGATIVE_NUMBER.match(token.text):
            return
        flag = _name_of(token.text)
        lifetime = lifetime_of(flag)
        if lifetime is None:
            self.remark("unknown_option", flag, "no vLLM release that kvplan knows has this option", token)
        elif self.release.within(Span(since=lifetime.last)):
            self.remark("removed_option", flag, f"vLLM has it up to {lifetime.last}", token)
        elif self.release.within(Span(until=lifetime.first)):
            self.remark("not_yet_option", flag, f"vLLM has it from {lifetime.first}", token)
        else:
            having = ", ".join(lifetime.releases)
            self.remark("unknown_option", flag, f"not in this release, only in {having}", token)


_NEGATIVE_NUMBER = re.compile(r"-\d+$|-\d*\.\d+$")
_MODEL_FLAG = re.compile(r"--model(=.+|$)")
_CONFIG_FLAG = re.compile(r"--config(=.+|$)")
_SERVED_NAME_FLAG = re.compile(r"--served[-_]model[-_]name(=.+|$)")


def _name_of(text: str) -> str:
    return text.partition("=")[0]


def _model_to_front(words: list[Token], reading: _Reading) -> list[Token]:
    """`vllm serve … --model X` is read as `vllm serve X …`."""
    for index, token in enumerate(words):
        if not _MODEL_FLAG.match(token.text):
            continue
        if "=" in token.text:
            words = [token.with_text(token.text.partition("=")[2]), *words[:index], *words[index + 1 :]]
        elif index + 1 < len(words):
            words = [words[index + 1], *words[:index], *words[index + 2 :]]
        else:
            reading.refuse("list index out of range", token, "--model", "IndexError")
            words = words[:index]
        break
    if (
        reading.release.has(history.SERVED_NAME_NEEDS_MODEL)
        and words
        and words[0].text.startswith("-")
        and not any(_CONFIG_FLAG.match(token.text) for token in words)
    ):
        named = next((token for token in words if _SERVED_NAME_FLAG.match(token.text)), None)
        if named is not None:
            message = "`model` should be provided as the first positional argument when using `vllm serve`."
            reading.refuse(message, named, "--served-model-name", "ValueError")
    return words


def _insert_config(words: list[Token], reading: _Reading, entry: EntryPoint, files: ConfigFiles) -> list[Token]:
    """Put the options of a `--config FILE` before those of the command line, which therefore win."""
    places = [index for index, token in enumerate(words) if token.text == "--config"]
    if not places:
        return words
    index = places[0]
    flag = words[index]
    if len(places) > 1:
        reading.refuse("More than one config file specified!", words[places[1]], "--config", "AssertionError")
        return [token for at, token in enumerate(words) if not {at, at - 1} & set(places)]
    if index == len(words) - 1:
        message = "No config file specified! Please check your command-line arguments."
        reading.refuse(message, flag, "--config", "ValueError")
        return words[:index]
    before, after = words[:index], words[index + 2 :]
    # `vllm serve` reads the file with its outermost parser, which has no options but help and version.
    known = reading.table.by_flag if entry is EntryPoint.MODULE else {}
    try:
        inserted = config_tokens(words[index + 1].text, reading.release, known, files)
    except ConfigRefusedError as refused:
        reading.refuse(refused.message, flag, "--config", refused.exception)
        return before + after
    if entry is EntryPoint.MODULE:
        if words[0].text.startswith("-"):
            return inserted + before + after
        return [before[0], *inserted, *before[1:], *after]
    if not words[0].text.startswith("-"):
        return [before[0], *inserted, *before[1:], *after]
    if not any(token.text == "--model" for token in inserted):
        message = "No model specified! Please specify model either as a positional argument or in a config file."
        reading.refuse(message, flag, "--config", "ValueError")
    return inserted + before + after


def _rewrite_names(words: list[Token]) -> list[Token]:
    """Dashes for underscores in option names, up to the first dot; `-O` in its short forms spelled out."""
    result: list[Token] = []
    for index, token in enumerate(words):
        text = token.text
        if text.startswith("--"):
            name, equals, value = text.partition("=")
            first, dot, rest = name.partition(".")
            result.append(token.with_text(first.replace("_", "-") + dot + rest + equals + value))
        elif text.startswith("-O") and text != "-O":
            level = text[3:] if text[2] == "=" else text[2:]
            result += [token.with_text("--optimization-level"), token.with_text(level)]
        elif text == "-O" and index + 1 < len(words) and words[index + 1].text in {"0", "1", "2", "3"}:
            result.append(token.with_text("--optimization-level"))
        else:
            result.append(token)
    return result


def _gather_dotted(words: list[Token], reading: _Reading) -> list[Token]:
    """`--x.y 1 --x.z+ a,b` becomes `--x '{"y": 1, "z": ["a", "b"]}'` at the end of the line."""
    gathered: dict[str, tuple[Token, dict[str, Any]]] = {}
    kept: list[Token] = []
    skip = False
    for index, token in enumerate(words):
        if skip:
            skip = False
            continue
        name, equals, value = token.text.partition("=")
        if not token.text.startswith("-") or "." not in name:
            kept.append(token)
            continue
        if not equals:
            if index + 1 == len(words):
                reading.refuse("list index out of range", token, name, "IndexError")
                continue
            value = words[index + 1].text
            skip = True
        if name.endswith("+"):
            name = name[:-1]
            value = json.dumps(value.split(","))
        key, *path = name.split(".")
        nested: Any = _dotted_value(value, reading.release)
        for step in reversed(path):
            nested = {step: nested}
        _, target = gathered.setdefault(key, (token, {}))
        _merge(target, nested)
    for key, (token, content) in gathered.items():
        kept += [token.with_text(key), token.with_text(json.dumps(content))]
    return kept


def _dotted_value(text: str, release: Release) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if release.has(history.DOTTED_VALUES_MAY_BE_HUMAN):
        try:
            return human_int(text)
        except (ValueError, OverflowError):
            pass
    return text


def _merge(target: dict[str, Any], update: dict[str, Any]) -> None:
    for key, value in update.items():
        present = target.get(key)
        if isinstance(value, dict) and isinstance(present, dict):
            _merge(present, value)
        elif isinstance(value, list) and isinstance(present, list):
            present += value
        else:
            target[key] = value


@dataclass(frozen=True, slots=True)
class _Match:
    """A reading of one word as an option: which, under which spelling, and a value in the same word."""

    option: Option | None
    flag: str
    separator: str | None = None
    value: str | None = None


class _Argparse:
    """argparse over the rewritten words.

    Each word is an option or an argument before anything is consumed; a positional takes one argument, an option
    as many as it needs, and what is left over is unrecognised.
    """

    def __init__(self, reading: _Reading, words: list[Token]) -> None:
        self.reading = reading
        self.words = words
        self.flags = reading.table.by_flag
        self.matches: list[tuple[_Match, ...] | None] = []
        self.separators: set[int] = set()
        only_arguments = False
        for index, token in enumerate(words):
            if not only_arguments and token.text == "--":
                only_arguments = True
                self.separators.add(index)
            self.matches.append(None if only_arguments else self._match(token.text))

    def run(self) -> None:
        """Consume all words."""
        index = 0
        positional_free = True
        while index < len(self.words):
            if self.matches[index] is not None:
                index = self._option(index)
            elif positional_free:
                index = self._positional(index)
                positional_free = False
            else:
                self._stray(index)
                index += 1

    def _stray(self, index: int) -> None:
        extras = self.reading.extras
        follows_unknown = index > 0 and bool(extras) and extras[-1] is self.words[index - 1]
        follows_stray = bool(self.reading.strays) and extras[-1] is self.reading.strays[-1]
        if not follows_unknown or follows_stray:
            self.reading.strays.append(self.words[index])
        extras.append(self.words[index])

    def _match(self, text: str) -> tuple[_Match, ...] | None:
        """The options that a word may be; None for an argument."""
        if not text.startswith("-"):
            return None
        if text in self.flags:
            return (_Match(self.flags[text], text),)
        if len(text) == 1:
            return None
        name, equals, value = text.partition("=")
        separator, explicit = (equals, value) if equals else (None, None)
        if equals and name in self.flags:
            return (_Match(self.flags[name], name, separator, explicit),)
        abbreviated = self._abbreviated(text, name, separator, explicit)
        if abbreviated:
            return abbreviated
        if _NEGATIVE_NUMBER.match(text) or " " in text:
            return None
        return (_Match(None, text),)

    def _abbreviated(self, text: str, name: str, separator: str | None, explicit: str | None) -> tuple[_Match, ...]:
        found: list[_Match] = []
        short = text[:2] if text[1] != "-" else None
        for flag, option in self.flags.items():
            if flag == short:
                found.append(_Match(option, flag, "", text[2:]))
            elif flag.startswith(name):
                found.append(_Match(option, flag, separator, explicit))
        return tuple(found)

    def _positional(self, index: int) -> int:
        """Give the model argument its word; separators beside it go with it."""
        while index in self.separators:
            index += 1
        if index < len(self.words) and self.matches[index] is None:
            self.reading.model_tag = self.words[index]
            index += 1
        while index in self.separators:
            index += 1
        return index

    def _option(self, index: int) -> int:
        """Consume the option at `index` with its values; the index of the word after them."""
        token = self.words[index]
        matches = self.matches[index] or ()
        if len(matches) > 1:
            listed = ", ".join(match.flag for match in matches)
            message = f"{AMBIGUOUS}: {token.text} could match {listed}"
            self.reading.refuse(message, token, _name_of(token.text))
            return index + 1
        match = matches[0]
        if match.option is None:
            self.reading.extras.append(token)
            return index + 1
        if match.option.kind is Kind.HELP:
            raise InputError(f"{token.text}: this command prints vLLM's help and starts nothing; leave it out")
        if _name_of(token.text) != match.flag and match.separator != "":
            self.reading.remark("abbreviated_option", match.flag, f"written as {_name_of(token.text)}", token)
        option = match.option
        if match.value is not None:
            if option.takes_value:
                self._store(option, match.flag, [token.with_text(match.value)], token)
            else:
                self._refuse(option, f"ignored explicit argument {match.value!r}", token)
            return index + 1
        arguments = self._arguments_after(index)
        if not option.takes_value:
            self._store(option, match.flag, [], token)
            return index + 1
        count = len(arguments) if option.is_list else min(1, len(arguments))
        if count == 0 and option.nargs not in {"?", "*"}:
            expected = "at least one argument" if option.nargs == "+" else "one argument"
            self._refuse(option, f"expected {expected}", token)
            return index + 1
        self._store(option, match.flag, arguments[:count], token)
        return index + 1 + count

    def _arguments_after(self, index: int) -> list[Token]:
        end = index + 1
        while end < len(self.words) and self.matches[end] is None and end not in self.separators:
            end += 1
        return self.words[index + 1 : end]

    def _store(self, option: Option, flag: str, arguments: list[Token], token: Token) -> None:
        try:
            value = self._value(option, flag, arguments)
        except RefusedError as refused:
            prefix = "" if refused.complete else f"argument {option.label}: "
            self.reading.refuse(prefix + refused.message, token, option.flag, refused.exception)
            return
        earlier = self.reading.settings.get(option.name)
        if earlier is not None and option.append:
            value = [*earlier.value, *value]
        elif earlier is not None and earlier.origin is token.origin:
            written = "all of its values" if option.is_list else "its value"
            detail = f"given more than once; the last one counts with {written}"
            self.reading.remark("repeated_option", option.flag, detail, token)
        self.reading.settings[option.name] = Setting(
            option.name, value, token.origin, _name_of(token.text), token.location
        )

    def _value(self, option: Option, flag: str, arguments: list[Token]) -> Any:
        if option.kind is Kind.BOOL:
            return not option.negates(flag)
        if option.kind is Kind.TRUE:
            return True
        if option.nargs == "?" and not arguments:
            return option.const
        values = [convert(argument.text, option, self.reading.release) for argument in arguments]
        return values if option.is_list or option.append else values[0]

    def _refuse(self, option: Option, problem: str, token: Token) -> None:
        self.reading.refuse(f"argument {option.label}: {problem}", token, option.flag)
