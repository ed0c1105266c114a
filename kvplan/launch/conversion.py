"""Reading the text of one option value as vLLM's parser reads it.

A `RefusedError` carries what the parser says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from kvplan.history import options as history
from kvplan.launch import fieldvalues
from kvplan.launch.options import Kind, Option, fields_of
from kvplan.launch.values import PARSER_REFUSES
from kvplan.releases import Release

_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_HUMAN_IN_JSON = re.compile(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b")
_JSON_STRINGS = re.compile(r'("(?:[^"\\]|\\.)*")')
_LOOKS_LIKE_OBJECT = re.compile(r"(?s)^\s*{.*}\s*$")
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class RefusedError(Exception):
    """The value is not one: `message` as the parser words it, `exception` where it crashes instead.

    `complete` messages stand alone; the others follow `argument NAME: `.
    """

    def __init__(self, message: str, exception: str = PARSER_REFUSES, *, complete: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.exception = exception
        self.complete = complete or exception != PARSER_REFUSES


class _ExplainedError(ValueError):
    """A failure that says itself what is wrong (argparse's ArgumentTypeError)."""


def human_int(text: str) -> int:
    """`25.6k` is 25600, `1K` is 1024; raises ValueError for anything that is no such number."""
    text = text.strip()
    match = _HUMAN.fullmatch(text)
    if match is None:
        return int(text)
    number, suffix = match.groups()
    if suffix in _DECIMAL:
        return int(float(number) * _DECIMAL[suffix])
    if "." in number:
        raise _ExplainedError(
            f"Decimals are not allowed with binary suffixes like {suffix}. "
            f"Did you mean to use {number}{suffix.lower()} instead?"
        )
    return int(number) * _BINARY[suffix]


def convert(text: str, option: Option, release: Release) -> Any:
    """The value that `text` has for `option`; raises RefusedError where vLLM's parser refuses it."""
    value = None if option.optional and text in ("", "None") else _typed(text, option, release)
    if option.choices is not None and value not in option.choices:
        listed = ", ".join(map(repr, option.choices))
        raise RefusedError(f"invalid choice: {value!r} (choose from {listed})")
    return value


def _typed(text: str, option: Option, release: Release) -> Any:
    if option.kind is Kind.DATACLASS:
        return _config_object(text, option, release)
    if option.kind is Kind.LORA:
        return _lora_module(text, option)
    if option.kind is Kind.JSON_OR_STR and not _LOOKS_LIKE_OBJECT.match(text):
        return text
    reader, name = _READERS.get(option.kind, (str, "str"))
    try:
        return reader(text)
    except _ExplainedError as error:
        raise RefusedError(str(error)) from None
    except RecursionError:
        raise RefusedError("maximum recursion depth exceeded", "RecursionError") from None
    except OverflowError as error:
        raise RefusedError(str(error), "OverflowError") from None
    except ValueError:
        if option.optional or option.kind in (Kind.PARSED_JSON, Kind.JSON_OR_STR):
            shown = f"<class '{name}'>" if name in ("int", "float", "str") else f"<function {name}>"
            raise RefusedError(f"Value {text} cannot be converted to {shown}.") from None
        raise RefusedError(f"invalid {name} value: {text!r}") from None


def _config_object(text: str, option: Option, release: Release) -> Any:
    try:
        expanded = _expand_numbers(text) if release.has(history.JSON_NUMBERS_MAY_BE_HUMAN) else text
        value = json.loads(expanded)
    except RecursionError:
        raise _of_class(option, "  Invalid JSON: recursion limit exceeded") from None
    except OverflowError as error:
        raise RefusedError(str(error), "OverflowError") from None
    except ValueError as error:
        raise _of_class(option, f"  Invalid JSON: {error}") from None
    if not isinstance(value, dict):
        raise _of_class(option, "  Input should be an object")
    known = fields_of(option.name, release)
    unknown = [] if known is None else [field for field in value if field not in known]
    objections = [f"{field}\n  Unexpected keyword argument" for field in unknown]
    for field in value:
        if field not in unknown:
            judged = fieldvalues.objections(option.name, field, value[field], release)
            objections += [f"{field}\n  {objection}" for objection in judged]
    if objections:
        raise _of_class(option, *objections)
    return value


def _of_class(option: Option, *objections: str) -> RefusedError:
    """Pydantic's text for the class of a whole config."""
    words = option.name.split("_")
    name = _CLASSES.get(option.name, "".join(word.capitalize() for word in words))
    listed = "\n".join(objections)
    return RefusedError(f"{len(objections)} validation error{'s' if len(objections) > 1 else ''} for {name}\n{listed}")


_CLASSES = {
    "kv_transfer_config": "KVTransferConfig",
    "kv_events_config": "KVEventsConfig",
    "ec_transfer_config": "ECTransferConfig",
    "ec_manager_config": "EncoderCacheManagerConfig",
    "eplb_config": "EPLBConfig",
    "ir_op_priority": "IrOpPriorityConfig",
    "quantization_config": "QuantizationConfigArgs",
}
"""Classes whose names do not follow from that of the option."""


def _lora_module(text: str, option: Option) -> str:
    """`name=path`, or a JSON object; kept as text, for nothing here depends on it."""
    if text and not ("=" in text and "," not in text):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise RefusedError(f"Invalid JSON format for {option.flag}: {text}", complete=True) from None
        if not isinstance(value, dict):
            raise RefusedError(f"Invalid fields for {option.flag}: {text}", complete=True)
    return text


def _expand_numbers(text: str) -> str:
    parts = _JSON_STRINGS.split(text)
    parts[::2] = [_HUMAN_IN_JSON.sub(lambda match: str(human_int(match[0])), part) for part in parts[::2]]
    return "".join(parts)


def _human_int_or_auto(text: str) -> int:
    text = text.strip()
    return -1 if text == "-1" or text.lower() == "auto" else human_int(text)


def _device_ids(text: str) -> list[int | str]:
    parts = [part.strip() for part in text.split(",")]
    return [int(part) if part.isdigit() else part for part in parts]


_READERS: Mapping[Kind, tuple[Callable[[str], Any], str]] = {
    Kind.INT: (int, "int"),
    Kind.FLOAT: (float, "float"),
    Kind.LOWER: (lambda text: text.lower().replace("-", "_"), "<lambda>"),
    Kind.HUMAN_INT: (human_int, "human_readable_int"),
    Kind.HUMAN_INT_OR_AUTO: (_human_int_or_auto, "human_readable_int_or_auto"),
    Kind.JSON: (json.loads, "loads"),
    Kind.PARSED_JSON: (json.loads, "loads"),
    Kind.JSON_OR_STR: (json.loads, "loads"),
    Kind.DEVICE_IDS: (_device_ids, "<lambda>"),
    Kind.REASONING_PARSER: (lambda text: "" if text.lower() == "none" else text, "parse_reasoning_parser"),
}
"""How each kind reads its text, and the name that the parser's messages give the reader."""
