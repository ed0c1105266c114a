"""A vLLM `--config FILE.yaml`, turned into the words that vLLM inserts into the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvplan.errors import InputError
from kvplan.files import read_bytes
from kvplan.history import options as history
from kvplan.launch.locations import Location, OriginKind
from kvplan.launch.passages import Passage
from kvplan.launch.tokens import Token
from kvplan.releases import Release

MAX_BYTES = 1_000_000
MAX_VALUES = 20_000
"""More values than any real file has; aliases count as often as they are used."""
MAX_DEPTH = 50
CHARACTERS_A_VALUE = 50
"""So many characters of a text count as one more value."""


@dataclass(frozen=True, slots=True)
class ConfigFiles:
    """Where `--config` files come from."""

    base: Path | None = None
    """The directory in which a relative one lies."""
    contents: Mapping[str, Passage] = field(default_factory=dict)
    """Those that are at hand already, by path."""
    closed: bool = False
    """Whether there are no others."""


class ConfigRefusedError(Exception):
    """vLLM itself fails on the file: the type of its exception and what it says."""

    def __init__(self, exception: str, message: str) -> None:
        super().__init__(message)
        self.exception = exception
        self.message = message


def config_tokens(
    path: str,
    release: Release,
    known_flags: Mapping[str, object],
    files: ConfigFiles | None = None,
) -> list[Token]:
    """The words for the file at `path`, in the file's order.

    A list becomes one flag with its items, an object JSON, `true` a bare flag. `false` is dropped, or becomes
    `--no-key` in the releases that do so where `known_flags`, the flags of the parser that reads the file, has
    it. Raises ConfigRefusedError where vLLM fails, InputError where kvplan cannot read the file.
    """
    extension = path.rsplit(".", maxsplit=1)[-1]
    if extension not in ("yaml", "yml"):
        raise ConfigRefusedError("ValueError", f"Config file must be of a yaml/yml type. {extension} supplied")
    files = files or ConfigFiles()
    given = files.contents.get(path)
    content, lines = _load(path, _read(path, files) if given is None else given.text, given)
    if not isinstance(content, dict):
        kind = type(content).__name__
        raise ConfigRefusedError("AttributeError", f"{kind!r} object has no attribute 'items' (the file {path})")
    negates = release.has(history.CONFIG_FILE_FALSE_NEGATES)
    tokens: list[Token] = []
    for key, value in content.items():
        if not isinstance(key, str):
            kind = type(key).__name__
            raise ConfigRefusedError(
                "TypeError", f'can only concatenate str (not "{kind}") to str (key {key!r} of {path})'
            )
        location = lines.get(key)
        words = _words(key, value, negates, known_flags)
        tokens += [Token(word, OriginKind.CONFIG_FILE, location) for word in words]
    return tokens


def _words(key: str, value: Any, negates: bool, known_flags: Mapping[str, object]) -> list[str]:
    flag = f"--{key}"
    try:
        return _spelled_out(flag, key, value, negates, known_flags)
    except (TypeError, ValueError) as error:
        # No JSON for a date, no decimal text for an integer of thousands of digits.
        raise ConfigRefusedError(type(error).__name__, f"{error} (key {key!r})") from None


def _spelled_out(flag: str, key: str, value: Any, negates: bool, known_flags: Mapping[str, object]) -> list[str]:
    if isinstance(value, bool):
        if value:
            return [flag]
        opposite = f"--no-{key}"
        return [opposite] if negates and opposite in known_flags else []
    if isinstance(value, list):
        return [flag, *(str(item) for item in value)] if value else []
    if isinstance(value, dict):
        return [flag, json.dumps(value)]
    return [flag, str(value)]


def _read(path: str, files: ConfigFiles) -> str:
    if files.closed:
        raise InputError(f"--config {path}: the file is not among what was scanned, so its options are not known")
    try:
        raw = read_bytes(path if files.base is None else files.base / path, MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"--config {path}: the file cannot be read ({reason}); give the path of a YAML file") from None
    if len(raw) > MAX_BYTES:
        raise InputError(f"--config {path}: larger than {MAX_BYTES} bytes, so hardly a list of vLLM options")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"--config {path}: not UTF-8 text") from None


def _load(path: str, text: str, given: Passage | None) -> tuple[Any, dict[str, Location]]:
    import yaml

    loader = None
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        _check_size(node, path)
        content = None if node is None else loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark is not None else path
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigRefusedError(type(error).__name__, f"{problem} ({where})") from None
    except RecursionError:
        raise InputError(f"--config {path}: nested too deeply") from None
    except (ValueError, TypeError, OverflowError) as error:
        # A date that is none, or an unhashable key: PyYAML lets Python's own error through, and vLLM stops on it.
        raise ConfigRefusedError(type(error).__name__, f"{error} ({path})") from None
    finally:
        if loader is not None:
            loader.dispose()
    return content, _lines(path, node, given)


def _lines(path: str, node: Any, given: Passage | None) -> dict[str, Location]:
    found: dict[str, Location] = {}
    if node is None or node.id != "mapping":
        return found
    for key, _ in node.value:
        if key.id == "scalar" and given is not None:
            found[key.value] = given.at(key.start_mark.index)
        elif key.id == "scalar":
            found[key.value] = Location(path, key.start_mark.line + 1, key.start_mark.column + 1)
    return found


def _check_size(node: Any, path: str) -> None:
    """Refuse aliases that multiply or refer to themselves before any value is made of them."""
    left = MAX_VALUES
    stack: list[tuple[Any, int]] = [] if node is None else [(node, 0)]
    while stack:
        current, depth = stack.pop()
        left -= 1 + len(current.value) // CHARACTERS_A_VALUE
        if left < 0 or depth > MAX_DEPTH:
            raise InputError(f"--config {path}: too many or too deeply nested values (aliases count each time)")
        if current.id == "sequence":
            stack += [(item, depth + 1) for item in current.value]
        elif current.id == "mapping":
            stack += [(item, depth + 1) for pair in current.value for item in pair]
