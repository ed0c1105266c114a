"""What formats with fields of their own for vLLM's options share: fields to words, model references, accelerators."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, field
from pathlib import Path

from kvplan.launch.options import lifetime_of
from kvplan.launch.passages import Passage
from kvplan.launch.sources import containers
from kvplan.launch.sources.yamlfile import Mapping, Node, Scalar, Sequence


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside a document: the directory of its file, and the file's other documents."""

    base: Path | None = None
    documents: tuple[Node, ...] = ()
    maps: Dictionary[str, dict[str, Passage]] = field(default_factory=dict)
    """ConfigMaps by name: their contents by key."""

    def named(self, kinds: Iterable[str], name: str) -> Mapping | None:
        """The resource of one of these kinds and this name."""
        wanted = frozenset(kinds)
        for document in self.documents:
            if (
                isinstance(document, Mapping)
                and document.text("kind") in wanted
                and document.text("metadata", "name") == name
            ):
                return document
        return None


def place(node: Node) -> Passage:
    """An empty passage where the node begins, to hang words on."""
    found = node.location
    return Passage("", node.source.name, ((0, found.line, found.column),))


def option(flag: str, node: Node | None) -> list[Passage]:
    """A field of vLLM's option `flag` (`--max-model-len`) as words; none where the field is absent or null."""
    if node is None or (isinstance(node, Scalar) and node.is_null):
        return []
    at = place(node)
    if isinstance(node, Scalar):
        if node.boolean is not None and node.text.lower() in ("true", "false"):
            opposite = f"--no-{flag[2:]}"
            if node.boolean:
                return [at.replaced(flag)]
            return [at.replaced(opposite)] if lifetime_of(opposite) is not None else []
        value = containers.templated(node.passage)
        return [at.replaced(flag), value]
    if isinstance(node, Sequence):
        items = containers.words(node)
        return [at.replaced(flag), *items] if items else []
    import json

    return [at.replaced(flag), at.replaced(json.dumps(plain(node)))]


def fields(node: Mapping | None, skipped: Iterable[str] = ()) -> list[Passage]:
    """Every field of a mapping of vLLM's arguments (`max_model_len`, `max-model-len`) as words."""
    if node is None:
        return []
    left_out = frozenset(skipped)
    return [
        word
        for name, (_, value) in node.pairs.items()
        if name not in left_out
        for word in option(f"--{name.replace('_', '-')}", value)
    ]


def plain(node: Node) -> object:
    """The value as JSON has it."""
    if isinstance(node, Mapping):
        return {name: plain(value) for name, (_, value) in node.pairs.items()}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    if node.is_null:
        return None
    if node.plain and node.text.lower() in ("true", "false"):
        return node.text.lower() == "true"
    if node.plain:
        for read in (int, float):
            try:
                return read(node.text)
            except ValueError:
                continue
    return node.text


_SCHEME = re.compile(r"(hf|pvc\+hf)://", re.ASCII)


def model(node: Scalar | None) -> Passage | None:
    """The model that a URI names: `hf://organisation/name`, or the URI itself where it is a place."""
    if node is None:
        return None
    passage = containers.templated(node.passage)
    match = _SCHEME.match(passage.text)
    if match is None:
        return passage
    rest = passage.cut(match.end(), len(passage.text))
    if match[1] == "hf":
        # A revision behind a colon belongs to the download.
        colon = rest.text.find(":")
        return rest if colon < 0 else rest.cut(0, colon)
    parts = rest.text.split("/")
    length = len("/".join(parts[-2:]))
    return rest.cut(len(rest.text) - length, len(rest.text))
