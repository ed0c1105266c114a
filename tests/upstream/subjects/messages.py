"""The texts that kvplan quotes: which of them a release's sources hold.

Quoted are the messages of refusals below kvplan/engine. Of each, the pieces between inserted values, sentence ends,
brackets and digits are looked for in the texts of the release; kvplan may insert what vLLM writes out and the other way
round, so more than half of them, by length, is enough. An extract holds nothing of vLLM's texts but what kvplan says
itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files

from tests.upstream.facts import Facts, Subject
from tests.upstream.sources import Sources, python_files

_PYTHON = "Python's own words"
_LIBRARY = "the words of pydantic, torch or Transformers"
_ASSERTION = "kvplan's words for a bare assertion or a missing attribute"
_PART = "part of a sentence that kvplan builds"
_INSERTED = "vLLM builds it of short pieces"

OWN_WORDS: Mapping[str, str] = {
    "'DeepseekV41Config' object has no attribute 'max_position_embeddings'": _PYTHON,
    "'DeepseekV4Config' object has no attribute 'compress_ratios': this release reads the ratios from there, not from "
    "layer_types and compress_rates": _PYTHON,
    "'Glm5NextTextConfig' object has no attribute '{}'": _PYTHON,
    "'NoneType' object has no attribute 'keys'": _PYTHON,
    "'NoneType' object is not subscriptable": _PYTHON,
    "'{}' object has no attribute 'lower'": _PYTHON,
    "module 'torch' has no attribute '{}'": _PYTHON,
    "not enough values to unpack (expected 2, got 1)": _PYTHON,
    "object has no attribute 'pooling'": _PYTHON,
    "object of type 'NoneType' has no len()": _PYTHON,
    "unsupported operand type(s) for ** or pow(): 'str' and 'Tensor'": _LIBRARY,
    "Assertion failed": _LIBRARY,
    "Input should be a valid integer": _LIBRARY,
    "Input should be greater than 0": _LIBRARY,
    "Trying to create tensor with negative dimension {}: [{}, {}]": _LIBRARY,
    "Unexpected keyword argument": _LIBRARY,
    "argument --attention-config/-ac: 1 validation error for AttentionConfig\n  Value error, "
    "use_fp4_indexer_cache=True conflicts with indexer_kv_dtype={}. Set only indexer_kv_dtype.": _INSERTED,
    "no index_topk without MLA": _ASSERTION,
    "DCP requires attention implementations to return the softmax LSE during decode, but {} does not": _INSERTED,
    "bad operand type for unary -: 'NoneType'": _PYTHON,
    "integer division or modulo by zero": _PYTHON,
    "cannot convert float NaN to integer": _PYTHON,
    "cannot convert float infinity to integer": _PYTHON,
    "integer modulo by zero": _PYTHON,
    "list index out of range": _PYTHON,
    "{} is not a valid QuantizationStrategy": _PYTHON,
    "{} is not in list": _PYTHON,
    "{}.__init__() missing required positional arguments": _PYTHON,
    "shape '[{}]' is invalid for input of size {}": _LIBRARY,
    "HiSparse keeps part of the cache in host memory, which kvplan does not plan": "kvplan's limit",
    "MLAAttention does not support PCP+DCP.": _ASSERTION,
    "nvfp4_ds_mla needs the V4.1 KV records, which FlashMLA reads on SM100 only": _ASSERTION,
    "the cache supports tp_size <= num_kv_heads ({}), got {}": _ASSERTION,
    "architectures of the language model's own section": _PART,
    "num_bits and type": _PART,
    "that an EAGLE head has neither experts nor YOCO layers": _PART,
    "that an MTP layer is sliding, as indexed ones get no buffer for what they select": _PART,
    "the layer types": _PART,
    "{} of the config, which its class reads": _PART,
    "{}\n{}\n  Value error, {}": _PART,
    "Argument position_ids not found in the forward method of the decoder of the wrapped Transformers "
    "class.": _INSERTED,
    "Concurrent Partial Prefill is not supported. We recommend to remove Concurrent Partial Prefill from your "
    "config.": _INSERTED,
    'kv_cache_dtype="{}" is incompatible with dtype="{}". Please set `--kv-cache-dtype` to `auto` or `{}`.': _INSERTED,
    "max_model_len must be a positive integer, got int: {}. Example: max_model_len=2048": _INSERTED,
}
"""Texts of refusals that no release holds as they are, with reasons."""

REFUSING = frozenset(
    {
        "stop",
        "config_refuses",
        "refused",
        "_refused",
        "Refused",
        "_refusal",
        "object_if",
        "Objection",
        "StartupError",
        "FormatRefused",
    }
)
"""The calls of kvplan's whose texts are vLLM's words."""

SHORTEST = 12
"""Characters a piece must have to say anything."""

PLACE = "{}"

_BREAKS = re.compile(r"\{\}|\. |\.$|[()\[\]0-9]")
_JOINTS = re.compile(r"""["']\s*[rRfF]?["']|\\(?=["'])""")


@cache
def quoted() -> tuple[str, ...]:
    """kvplan's quotations, with `{}` for inserted values."""
    found: set[str] = set()
    for file in python_files(files("kvplan") / "engine"):
        tree = ast.parse(file.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in REFUSING:
                found.update(text for argument in node.args if pieces(text := skeleton(argument)))
    return tuple(sorted(found))


def skeleton(node: ast.expr) -> str:
    """A text with `{}` for what is inserted; empty for other expressions."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=values):
            return "".join(skeleton(value) if isinstance(value, ast.Constant) else PLACE for value in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return (skeleton(left) or PLACE) + (skeleton(right) or PLACE)
        case _:
            return ""


def pieces(text: str) -> tuple[str, ...]:
    """The parts of a skeleton that are worth looking for: several words each."""
    parts = (part.strip(" '\"`,:;=<>") for part in _BREAKS.split(text))
    return tuple(part for part in parts if len(part) >= SHORTEST and " " in part)


def read(sources: Sources) -> Facts:
    """Quotation by quotation that the release holds: true."""
    wanted = {piece for text in quoted() for piece in pieces(text)}
    texts = "\0".join(_texts(sources, wanted))
    held = {piece for piece in wanted if piece in texts}
    return {text: True for text in quoted() if _mostly(pieces(text), held)}


def _mostly(parts: tuple[str, ...], held: set[str]) -> bool:
    return 2 * sum(len(part) for part in parts if part in held) > sum(map(len, parts))


def _texts(sources: Sources, wanted: set[str]) -> Iterator[str]:
    """The texts of the files that may hold a wanted piece."""
    for file in sources.files():
        code = file.read_text("utf-8")
        # Texts that stand side by side are one: only then is it worth while to parse the file.
        if any(piece in joined for joined in (_JOINTS.sub("", code),) for piece in wanted):
            for node in ast.walk(ast.parse(code)):
                if isinstance(node, (ast.JoinedStr, ast.BinOp, ast.Constant)) and " " in (text := skeleton(node)):
                    yield text


SUBJECT = Subject(
    name="messages",
    table="the texts of refusals below engine/",
    read=read,
    told=None,
    row=lambda name, value, since: name,
)
