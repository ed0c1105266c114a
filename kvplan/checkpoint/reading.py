"""Reading JSON that may be anything: too large, not UTF-8, broken, nested without end.

Every way it can be wrong ends in one InputError that names the file, the place and the fix.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from kvplan import files
from kvplan.checkpoint.fields import shown
from kvplan.errors import InputError

CONFIG_FILE = "config.json"
QUANT_FILE = "hf_quant_config.json"
"""Where older ModelOpt checkpoints keep their quantisation section."""
INDEX_FILE = "model.safetensors.index.json"

MAX_BYTES = 64 * 1024 * 1024
"""Largest file read. Published configs are below 1 MiB; indexes of the largest models below 20 MiB."""
TAG = "__float__"
"""How transformers writes infinite numbers: as an object with this one field."""
_TAGGED: Mapping[str, float] = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}

MAX_DEPTH = 100
"""Deepest nesting accepted. Published configs nest at most about ten levels."""


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON object as read, with the digest of its bytes."""

    data: Mapping[str, Any]
    sha256: str
    file: str


def read_file(path: Path, *, file: str | None = None) -> Document:
    """Read `path`; `file` is what messages call it (default: the path as given)."""
    name = file or str(path)
    return parse(read_bytes(path, file=name), file=name)


def read_bytes(path: Path, *, file: str) -> bytes:
    """The bytes of a regular file (or pipe) that is not too large."""
    try:
        data = files.read_bytes(path, MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(f"{file}: there is no such file: check the path") from None
    except IsADirectoryError:
        raise InputError(f"{file}: is a directory: give a file") from None
    except PermissionError:
        raise InputError(f"{file}: may not be read: give yourself permission (chmod +r)") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{file}: cannot be read ({reason}): check the path") from None
    return _not_too_large(data, file)


def read_stream(stream: TextIO, *, file: str) -> Document:
    """Read a JSON object from an open text stream such as standard input."""
    binary = getattr(stream, "buffer", None)
    try:
        if binary is not None:
            data = binary.read(MAX_BYTES + 1)
        else:
            data = stream.read(MAX_BYTES + 1).encode("utf-8", "surrogatepass")
    except (OSError, UnicodeError, ValueError) as error:
        raise InputError(f"{file}: cannot be read ({error}): pipe a config.json in UTF-8") from None
    return parse(_not_too_large(data, file), file=file)


def parse(data: bytes, *, file: str) -> Document:
    """Parse the bytes of a JSON file whose top level must be an object."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file}: is not UTF-8 (byte {error.start} is 0x{data[error.start]:02x}): save it as UTF-8"
        ) from None
    if not text.strip():
        raise InputError(f"{file}: is empty: give a model's config.json")
    try:
        value = json.loads(text, object_pairs_hook=_value, parse_int=_parse_int, parse_float=_parse_float)
    except json.JSONDecodeError as error:
        raise InputError(f"{file}:{error.lineno}:{error.colno}: is not JSON ({error.msg}): correct it there") from None
    except _RefusedError as error:
        raise InputError(f"{file}: {error}") from None
    except RecursionError:
        raise _too_deep(file) from None
    if not isinstance(value, dict):
        raise InputError(f"{file}: the top level is {_kind(value)}: a config.json holds one object ({{…}})")
    _check_depth(value, file)
    return Document(data=value, sha256=hashlib.sha256(data).hexdigest(), file=file)


class _RefusedError(Exception):
    """A part of the text that the JSON grammar allows and this reader does not."""


def _value(pairs: list[tuple[str, Any]]) -> Any:
    """An object, or the number that transformers writes as one because JSON has no word for it."""
    result = _unique(pairs)
    tagged = result.get(TAG) if len(result) == 1 else None
    return _TAGGED.get(tagged, result) if isinstance(tagged, str) else result


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose repeated keys agree; Python (and so vLLM) would silently keep the last of them."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result and result[key] != value:
            raise _RefusedError(f"field {shown(key)} is given twice with different values: keep one of them")
        result[key] = value
    return result


def _parse_int(digits: str) -> int:
    if len(digits) > 100:
        raise _RefusedError(f"number {digits[:12]}… has {len(digits)} digits: correct the value")
    return int(digits)


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _RefusedError(f"number {shown(text)} is out of range: correct the value")
    return value


def _check_depth(value: Any, file: str) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise _too_deep(file)


def _too_deep(file: str) -> InputError:
    return InputError(f"{file}: is nested more than {MAX_DEPTH} levels deep: give a model's config.json")


def _not_too_large(data: bytes, file: str) -> bytes:
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{file}: is larger than {MAX_BYTES // 1024**2} MiB: give a model's config.json, not its weights"
        )
    return data


def _kind(value: object) -> str:
    names = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
