"""YAML with the place of every value, for files that nobody vouches for.

libyaml's events are put together here rather than by PyYAML's composer: aliases count each time they are used, so
that a document that multiplies itself is refused before anything walks through it, and depth is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from kvplan.launch.locations import Location
from kvplan.launch.passages import Passage, Source

MAX_DEPTH = 100
MAX_WEIGHT = 200_000
"""Nodes of a document, those behind an alias as often as it is used."""
CHARACTERS_A_VALUE = 50
"""So many characters of a text count as one more node."""


class YamlProblem(Exception):  # noqa: N818 - says what it is, not that it is one
    """The text is no YAML, or no YAML that anybody would deploy."""

    def __init__(self, reason: str, location: Location | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.location = location


@dataclass(slots=True)
class Scalar:
    """One value. `text` is what YAML makes of it, `plain` whether it stands without quotes."""

    source: Source
    text: str
    style: str | None
    start: int
    end: int
    weight: int = 1

    @property
    def plain(self) -> bool:
        """Whether it is written without quotes, so that `true` and `8` are not strings."""
        return self.style is None

    @property
    def location(self) -> Location:
        """Where its first character stands."""
        return self.passage.location if self.style in ("|", ">") and self.text else self.source.location(self.start)

    @property
    def is_null(self) -> bool:
        """Whether YAML reads it as no value."""
        return self.plain and self.text in ("", "~", "null", "Null", "NULL")

    @property
    def boolean(self) -> bool | None:
        """True or False where YAML reads it so."""
        if not self.plain:
            return None
        return {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False}.get(self.text.lower())

    @property
    def whole(self) -> int | None:
        """The number of a whole number; Kubernetes takes it in quotes too."""
        text = self.text.strip()
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None

    @property
    def passage(self) -> Passage:
        """The text with the place of each character."""
        raw = self.source.text
        if raw.startswith(self.text, self.start) and "\n" not in self.text:
            return self.source.passage(self.start, self.start + len(self.text))
        return self.source.scattered(self.text, _alignment(self.text, raw, self.start, self.end, self.style))


@dataclass(slots=True)
class Sequence:
    """A list."""

    source: Source
    items: tuple[Node, ...]
    start: int
    weight: int

    @property
    def location(self) -> Location:
        """Where it begins."""
        return self.source.location(self.start)


@dataclass(slots=True)
class Mapping:
    """Keys and values in their order; a key that is no scalar is left out. `<<` is resolved."""

    source: Source
    pairs: dict[str, tuple[Scalar, Node]]
    start: int
    weight: int

    @property
    def location(self) -> Location:
        """Where it begins."""
        return self.source.location(self.start)

    def get(self, *path: str) -> Node | None:
        """The node below these keys."""
        node: Node | None = self
        for key in path:
            if not isinstance(node, Mapping):
                return None
            pair = node.pairs.get(key)
            node = None if pair is None else pair[1]
        return node

    def mapping(self, *path: str) -> Mapping | None:
        """The mapping below these keys."""
        node = self.get(*path)
        return node if isinstance(node, Mapping) else None

    def items(self, *path: str) -> tuple[Node, ...]:
        """The items of the list below these keys; none where there is no list."""
        node = self.get(*path)
        return node.items if isinstance(node, Sequence) else ()

    def scalar(self, *path: str) -> Scalar | None:
        """The value below these keys, unless it is null."""
        node = self.get(*path)
        return node if isinstance(node, Scalar) and not node.is_null else None

    def text(self, *path: str) -> str:
        """The text below these keys, empty where there is none."""
        node = self.scalar(*path)
        return "" if node is None else node.text

    def __contains__(self, key: str) -> bool:
        return key in self.pairs


Node = Scalar | Sequence | Mapping


def documents(source: Source, start: int = 0, end: int | None = None) -> Iterator[Node]:
    """The documents of a YAML or JSON text (or of the part of it from `start` to `end`).

    Raises YamlProblem at the first that cannot be read.
    """
    import yaml

    text = source.text[start:end] if start or end is not None else source.text
    if text.startswith("\ufeff"):
        text, start = text[1:], start + 1
    builder = _Builder(source, start)
    try:
        for event in yaml.parse(text, Loader=_loader()):
            done = builder.take(event)
            if done is not None:
                yield done
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = None if mark is None else source.location(min(start + mark.index, len(source.text)))
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise YamlProblem(f"not YAML: {problem}", place) from None


@cache
def _loader() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come yet."""

    mapping: bool
    start: int
    anchor: str | None
    children: list[Node]


class _Builder:
    """Events to nodes, without recursion."""

    def __init__(self, source: Source, offset: int) -> None:
        self._source = source
        self._offset = offset
        self._open: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._names: dict[str, str] = {}
        self._count = 0

    def take(self, event: Any) -> Node | None:
        """One event; the document's root when it is complete."""
        kind = type(event).__name__
        if kind == "ScalarEvent":
            start, end = event.start_mark.index + self._offset, event.end_mark.index + self._offset
            weight = 1 + len(event.value) // CHARACTERS_A_VALUE
            return self._add(Scalar(self._source, event.value, _style(event.style), start, end, weight), event.anchor)
        if kind in ("MappingStartEvent", "SequenceStartEvent"):
            start = event.start_mark.index + self._offset
            if len(self._open) >= MAX_DEPTH:
                raise YamlProblem(f"nested deeper than {MAX_DEPTH} levels", self._source.location(start))
            self._open.append(_Open(kind == "MappingStartEvent", start, event.anchor, []))
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            opened = self._open.pop()
            return self._add(self._closed(opened), opened.anchor)
        elif kind == "AliasEvent":
            return self._add(self._anchored(event), None)
        elif kind == "DocumentStartEvent":
            self._anchors = {}
        return None

    def _anchored(self, event: Any) -> Node:
        node = self._anchors.get(event.anchor)
        if node is not None:
            return node
        place = self._source.location(event.start_mark.index + self._offset)
        if any(opened.anchor == event.anchor for opened in self._open):
            raise YamlProblem(f"the anchor {event.anchor[:40]!r} contains itself", place)
        raise YamlProblem(f"the anchor {event.anchor[:40]!r} is not defined", place)

    def _add(self, node: Node, anchor: str | None) -> Node | None:
        self._count += 1
        if self._count > MAX_WEIGHT:
            raise YamlProblem(f"more than {MAX_WEIGHT:,} values", self._source.location(node.start))
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._open:
            return node
        self._open[-1].children.append(node)
        return None

    def _closed(self, opened: _Open) -> Node:
        weight = 1 + sum(child.weight for child in opened.children)
        if weight > MAX_WEIGHT:
            place = self._source.location(opened.start)
            raise YamlProblem(f"more than {MAX_WEIGHT:,} values, counting aliases each time", place)
        if not opened.mapping:
            return Sequence(self._source, tuple(opened.children), opened.start, weight)
        pairs: dict[str, tuple[Scalar, Node]] = {}
        merged: list[Node] = []
        for key, value in zip(opened.children[::2], opened.children[1::2], strict=True):
            if not isinstance(key, Scalar):
                continue
            if key.text == "<<" and key.plain:
                merged += value.items if isinstance(value, Sequence) else (value,)
            else:
                # A few hundred distinct keys make up every manifest: one copy of each.
                pairs[self._names.setdefault(key.text, key.text)] = (key, value)
        for base in merged:
            if isinstance(base, Mapping):
                pairs = {**base.pairs, **pairs}
        return Mapping(self._source, pairs, opened.start, weight)


def _style(style: str | None) -> str | None:
    return None if style in (None, "") else style


_ESCAPED = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)


def _alignment(text: str, raw: str, start: int, end: int, style: str | None) -> Iterator[tuple[int, int]]:
    """Pairs of offsets in the value and in the file, one for each stretch that stands there as it is.

    Folding and unquoting change only blanks, line breaks, doubled quotes and escapes: everything else of the value
    stands in the file in the same order.
    """
    at = start + 1 if style in ("'", '"') else start
    if style in ("|", ">"):
        # Behind the indicator, and a comment on its line.
        at = raw.find("\n", start) + 1 or end
    inner, length, previous = 0, len(text), -2
    while inner < length:
        character = text[inner]
        if character.isspace():
            inner += 1
            continue
        while at < end and raw[at].isspace():
            at += 1
        step = 1
        if style == '"' and raw[at : at + 1] == "\\":
            escape = _ESCAPED.match(raw, at)
            written = escape.group() if escape is not None else "\\"
            if written[1:2] in ("\n", "\r", "n", "t", "r", " ", "0", "a", "b", "e", "f", "v", "_", "N", "L", "P"):
                at += len(written)
                continue
            step = len(written)
        elif style == "'" and raw.startswith("''", at):
            step = 2
        if at != previous + 1 or inner == 0 or text[inner - 1].isspace():
            yield inner, min(at, max(end - 1, 0))
        previous = at if step == 1 else -2
        at += step
        inner += 1
