"""Shell text: which commands it runs, with which words, as far as that can be told without running it.

tree-sitter's bash grammar takes the text apart. Assignments are followed in order, so that `vllm serve $MODEL`
knows its model; what only a run could tell (the output of a command, an argument, a variable that nothing sets)
stays in the word under its spelling and is marked as unknown.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from kvplan.launch.passages import Passage, join

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

PARSING = 2.0
"""Seconds of computing for the syntax of one text."""
_PIECE = 1 << 16

MAX_ROUNDS = 50
"""Rounds of a `for` loop that are followed."""
MAX_DEPTH = 150
"""Nesting of syntax that is followed."""

MAX_COMMANDS = 5_000
"""Commands of one text that are followed, rounds of loops counted each time."""
MAX_WORDS = 5_000
"""Words of one command."""
MAX_TEXT = 100_000
"""Characters of a word or a variable; one that grows beyond is not known."""

Value = Passage | tuple[Passage, ...]
"""A variable: text, or the elements of an array."""


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command with its variables worked out."""

    words: tuple[Passage, ...]
    environment: Mapping[str, Passage]
    """Variables that the command sees: exported ones and those written in front of it."""
    heredoc: Passage | None = None
    target: str | None = None
    """The file that its output goes to."""
    script: Script | None = field(default=None, compare=False)
    """The state of the script at this command, for what the command itself has a shell evaluate."""


@dataclass(frozen=True, slots=True)
class Unparsed:
    """A part that is no shell syntax."""

    passage: Passage


@dataclass(slots=True)
class Script:
    """The variables of a running script. `answers` are values that the operator gave for unknown ones."""

    variables: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    answers: Mapping[str, str] = field(default_factory=dict)
    budget: list[int] = field(default_factory=lambda: [MAX_COMMANDS])
    """Commands left to follow, shared with every copy."""

    def copy(self) -> Script:
        """The same state, to be changed on its own."""
        return Script(dict(self.variables), set(self.exported), self.answers, self.budget)

    def commands(self, text: Passage) -> Iterator[Command | Unparsed]:
        """The commands of `text` in the order in which they stand; assignments change this script's variables."""
        yield from _Run(self, text).run()

    def environment(self) -> dict[str, Passage]:
        """The exported variables."""
        found: dict[str, Passage] = {}
        for name in self.exported:
            value = self.variables.get(name)
            if isinstance(value, Passage):
                found[name] = value
        return found


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


_BRANCHES = frozenset({"if_statement", "while_statement", "case_statement", "c_style_for_statement"})
_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})


@dataclass(frozen=True, slots=True)
class _Fragment:
    """Part of a word. `splits` where blanks in it divide words; `fields` for an array's elements."""

    passage: Passage
    splits: bool = False
    fields: tuple[Passage, ...] | None = None


class _Run:
    """One pass over one text."""

    def __init__(self, script: Script, text: Passage) -> None:
        self._script = script
        self._text = text
        self._bytes = text.text.encode("utf-8", "surrogatepass")
        self._nesting = 0
        self._offsets: list[int] | None = None
        if len(self._bytes) != len(text.text):
            offsets, at = [], 0
            for character in text.text:
                offsets.append(at)
                at += len(character.encode("utf-8", "surrogatepass"))
            self._offsets = [*offsets, at]

    def run(self) -> Iterator[Command | Unparsed]:
        tree = self._parsed()
        if tree is None:
            yield Unparsed(self._text)
        else:
            yield from self._statement(tree.root_node, 0)

    def _parsed(self) -> Tree | None:
        """The syntax tree; None where the grammar takes too long, as it does on what is no shell text at all."""
        until = time.process_time() + PARSING
        late = False

        def pieces(offset: int, _point: object) -> bytes:
            nonlocal late
            late = late or time.process_time() > until
            return b"" if late else self._bytes[offset : offset + _PIECE]

        tree = _parser().parse(pieces)
        return None if late else tree

    def _at(self, byte: int) -> int:
        return byte if self._offsets is None else bisect_right(self._offsets, byte) - 1

    def _cut(self, start: int, end: int) -> Passage:
        return self._text.cut(self._at(start), self._at(end))

    def _of(self, node: Node) -> Passage:
        return self._cut(node.start_byte, node.end_byte)

    def _spelling(self, node: Node) -> str:
        return self._bytes[node.start_byte : node.end_byte].decode("utf-8", "replace")

    # Statements

    def _statement(self, node: Node, depth: int) -> Iterator[Command | Unparsed]:
        kind = node.type
        if self._script.budget[0] <= 0:
            return
        if depth > MAX_DEPTH:
            yield Unparsed(self._of(node))
        elif kind == "ERROR":
            yield Unparsed(self._of(node))
            yield from self._children(node, depth)
        elif kind == "command" and node.named_child_count > MAX_WORDS:
            yield Unparsed(self._of(node))
        elif kind == "command":
            yield from self._command(node, None, None)
        elif kind == "redirected_statement":
            yield from self._redirected(node, depth)
        elif kind == "variable_assignment":
            self._assign(node)
        elif kind == "variable_assignments":
            for child in node.named_children:
                self._assign(child)
        elif kind == "declaration_command":
            self._declare(node)
        elif kind == "unset_command":
            for child in node.named_children:
                self._script.variables.pop(self._spelling(child), None)
        elif kind in _BRANCHES:
            yield from self._branches(node, depth)
        elif kind == "for_statement":
            yield from self._loop(node, depth)
        elif kind in ("subshell", "function_definition"):
            yield from self._apart(self._script.copy(), node, depth)
        elif kind == "list":
            yield from self._list(node, depth)
        elif kind not in ("comment", "heredoc_body", "test_command"):
            yield from self._children(node, depth)

    def _children(self, node: Node, depth: int) -> Iterator[Command | Unparsed]:
        for child in node.named_children:
            yield from self._statement(child, depth + 1)

    def _apart(self, script: Script, node: Node, depth: int) -> Iterator[Command | Unparsed]:
        """A part whose assignments stay inside."""
        outer, self._script = self._script, script
        yield from self._children(node, depth)
        self._script = outer

    def _list(self, node: Node, depth: int) -> Iterator[Command | Unparsed]:
        """`a && b || c`: what `||` guards may not run, so its assignments are not counted on."""
        optional = False
        for child in node.children:
            if child.type == "||":
                optional = True
            elif child.is_named:
                before = dict(self._script.variables)
                yield from self._statement(child, depth + 1)
                if optional:
                    self._forget_changes(before)

    def _branches(self, node: Node, depth: int) -> Iterator[Command | Unparsed]:
        """Each branch begins with what was known before; afterwards only that holds which none of them changes."""
        before = dict(self._script.variables)
        changed: set[str] = set()
        parts = node.named_children
        for part in parts:
            if part.type in ("elif_clause", "else_clause", "case_item"):
                changed |= self._changes(before)
                self._script.variables = dict(before)
            yield from self._statement(part, depth + 1)
        changed |= self._changes(before)
        self._script.variables = {name: value for name, value in before.items() if name not in changed}

    def _changes(self, before: Mapping[str, Value]) -> set[str]:
        now = self._script.variables
        return {name for name in {*before, *now} if before.get(name) != now.get(name)}

    def _forget_changes(self, before: Mapping[str, Value]) -> None:
        for name in self._changes(before):
            self._script.variables.pop(name, None)

    def _loop(self, node: Node, depth: int) -> Iterator[Command | Unparsed]:
        """A `for` loop over words that are known is followed round by round."""
        variable = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        if variable is None or body is None:
            return
        values = [
            word
            for child in node.named_children
            if child not in (variable, body)
            for word in self._fields(self._fragments(child))
        ]
        name = self._spelling(variable)
        if not values or len(values) > MAX_ROUNDS:
            values = [self._of(variable).marked(f"${name}")]
        for value in values:
            # A round costs as much as a command, whatever it does: loops within loops multiply.
            self._script.budget[0] -= 1
            if self._script.budget[0] <= 0:
                return
            if value.unknown:
                self._script.variables.pop(name, None)
            else:
                self._script.variables[name] = value
            yield from self._statement(body, depth + 1)

    def _redirected(self, node: Node, depth: int) -> Iterator[Command | Unparsed]:
        heredoc, target = None, None
        for child in node.named_children:
            if child.type == "heredoc_redirect":
                body = next((part for part in child.named_children if part.type == "heredoc_body"), None)
                quoted = any(
                    part.type == "heredoc_start" and self._spelling(part)[:1] in ("'", '"', "\\")
                    for part in child.named_children
                )
                heredoc = None if body is None else self._of(body) if quoted else self._filled(body)
                for part in child.named_children:
                    if part.type == "file_redirect":
                        target = self._target(part)
            elif child.type == "herestring_redirect":
                fields = [word for part in child.named_children for word in self._fields(self._fragments(part))]
                heredoc = join(fields, " ") if fields else None
            elif child.type == "file_redirect":
                target = self._target(child) or target
        for child in node.named_children:
            if child.type == "command":
                yield from self._command(child, heredoc, target)
            elif not child.type.endswith("_redirect"):
                yield from self._statement(child, depth + 1)

    def _filled(self, body: Node) -> Passage:
        """A here-document with its variables replaced; blanks and quotes in it stay."""
        pieces: list[Passage] = []
        at = body.start_byte
        for child in body.named_children:
            if child.type in _FRAGMENTS and child.start_byte >= at and "expansion" in child.type:
                pieces.append(self._cut(at, child.start_byte))
                pieces += [one.passage for one in self._fragments(child, True) if one.fields is None]
                at = child.end_byte
        pieces.append(self._cut(at, body.end_byte))
        kept = [piece for piece in pieces if piece.text]
        return join(kept) if kept and sum(map(_length, kept)) <= MAX_TEXT else self._of(body)

    def _target(self, node: Node) -> str | None:
        if not any(child.type in (">", ">>", "&>", ">|") for child in node.children):
            return None
        named = [child for child in node.named_children if child.type != "file_descriptor"]
        return self._spelling(named[-1]).strip("\"'") if named else None

    # Assignments

    def _assign(self, node: Node) -> str | None:
        if node.type != "variable_assignment":
            return None
        name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name_node is None or name_node.type != "variable_name":
            return None
        name = self._spelling(name_node)
        value = self._value(value_node, node)
        if any(child.type == "+=" for child in node.children):
            value = _appended(self._script.variables.get(name), value)
        if _length(value) > MAX_TEXT:
            value = None
        if value is None:
            self._script.variables.pop(name, None)
        else:
            self._script.variables[name] = value
        return name

    def _value(self, node: Node | None, assignment: Node) -> Value | None:
        if node is None:
            return self._cut(assignment.end_byte, assignment.end_byte)
        if node.type == "array":
            return tuple(
                word
                for child in node.named_children
                if child.type != "comment"
                for word in self._fields(self._fragments(child))
            )
        return self._whole(node)

    def _whole(self, node: Node) -> Passage:
        """A word that is not divided, as on the right of an assignment."""
        fragments = self._fragments(node)
        pieces: list[Passage] = []
        for fragment in fragments:
            if fragment.fields is not None:
                pieces += [join(fragment.fields, " ")] if fragment.fields else []
            else:
                pieces.append(fragment.passage)
        return join(pieces) if pieces else self._cut(node.start_byte, node.start_byte)

    def _declare(self, node: Node) -> None:
        export = any(child.type in _DECLARING and child.type == "export" for child in node.children)
        flags = [self._spelling(child) for child in node.named_children if child.type == "word"]
        export = export or any(flag.startswith("-") and "x" in flag for flag in flags)
        for child in node.named_children:
            if child.type == "variable_assignment":
                name = self._assign(child)
            else:
                name = self._spelling(child) if child.type == "variable_name" else None
            if name is not None and export:
                self._script.exported.add(name)

    # Commands

    def _command(self, node: Node, heredoc: Passage | None, target: str | None) -> Iterator[Command]:
        self._script.budget[0] -= 1
        words: list[Passage] = []
        local: dict[str, Passage] = {}
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, value = child.child_by_field_name("name"), child.child_by_field_name("value")
                given = self._value(value, child)
                if name is not None and isinstance(given, Passage):
                    local[self._spelling(name)] = given
            elif child.type == "command_name":
                for part in child.named_children:
                    words += self._fields(self._fragments(part))
            elif child.type == "herestring_redirect":
                parts = [word for part in child.named_children for word in self._fields(self._fragments(part))]
                heredoc = join(parts, " ") if parts else heredoc
            elif not child.type.endswith("_redirect") and child.type != "comment":
                words += self._fields(self._fragments(child))
        if words:
            environment = {**self._script.environment(), **local}
            yield Command(tuple(words), environment, heredoc, target, self._script)

    # Words

    def _fields(self, fragments: list[_Fragment]) -> list[Passage]:
        """The words that fragments make once they are split."""
        found: list[Passage] = []
        current: list[Passage] = []
        for fragment in fragments:
            if fragment.fields is not None:
                for position, item in enumerate(fragment.fields):
                    if position and current:
                        found.append(join(current))
                        current = []
                    current.append(item)
            elif fragment.splits and not fragment.passage.unknown:
                pieces = list(fragment.passage.split())
                text = fragment.passage.text
                if current and text[:1].isspace():
                    found.append(join(current))
                    current = []
                for position, piece in enumerate(pieces):
                    if position:
                        found.append(join(current))
                        current = []
                    current.append(piece)
                if pieces and text[-1:].isspace():
                    found.append(join(current))
                    current = []
            elif fragment.splits:
                found, current = _split_unknown(fragment.passage, found, current)
            else:
                current.append(fragment.passage)
        if current:
            found.append(join(current))
        return found

    def _fragments(self, node: Node, quoted: bool = False) -> list[_Fragment]:
        make = _FRAGMENTS.get(node.type)
        if make is not None and self._nesting > MAX_DEPTH:
            return self._unknown(node, quoted)
        if make is not None:
            self._nesting += 1
            fragments = make(self, node, quoted)
            self._nesting -= 1
            if sum(_length(one.passage if one.fields is None else one.fields) for one in fragments) > MAX_TEXT:
                return [_Fragment(self._cut(node.start_byte, node.start_byte + 1).marked("a word without end"))]
            return fragments
        return [_Fragment(self._unescaped(node.start_byte, node.end_byte, quoted))]

    def _raw(self, node: Node, _quoted: bool) -> list[_Fragment]:
        return [_Fragment(self._cut(node.start_byte + 1, node.end_byte - 1))]

    def _ansi(self, node: Node, _quoted: bool) -> list[_Fragment]:
        inner = self._cut(node.start_byte + 2, node.end_byte - 1)
        if "\\" not in inner.text:
            return [_Fragment(inner)]
        text = re.sub(r"\\(n|t|\\|'|\")", lambda match: {"n": "\n", "t": "\t"}.get(match[1], match[1]), inner.text)
        return [_Fragment(inner.replaced(text))]

    def _string(self, node: Node, _quoted: bool) -> list[_Fragment]:
        start = node.start_byte + (2 if self._bytes[node.start_byte : node.start_byte + 1] == b"$" else 1)
        return self._mixed(node, start, node.end_byte - 1, True)

    def _concatenation(self, node: Node, quoted: bool) -> list[_Fragment]:
        return [fragment for child in node.children for fragment in self._fragments(child, quoted)]

    def _mixed(self, node: Node, start: int, end: int, quoted: bool) -> list[_Fragment]:
        """Literal text with expansions in it."""
        found: list[_Fragment] = []
        at = start
        for child in node.named_children:
            if child.type in ("string_content", "comment") or child.start_byte < at:
                continue
            if child.start_byte > at:
                found.append(_Fragment(self._unescaped(at, child.start_byte, quoted)))
            found += self._fragments(child, quoted)
            at = child.end_byte
        if end > at:
            found.append(_Fragment(self._unescaped(at, end, quoted)))
        return found or [_Fragment(self._cut(start, start))]

    def _unescaped(self, start: int, end: int, quoted: bool) -> Passage:
        passage = self._cut(start, end)
        if "\\" not in passage.text:
            return passage
        pieces, at = [], 0
        for match in re.finditer(r"\\(\n|[\\$`\"])" if quoted else r"\\(\n|.)", passage.text, re.DOTALL):
            pieces.append(passage.cut(at, match.start()))
            if match[1] != "\n":
                pieces.append(passage.cut(match.start() + 1, match.end()))
            at = match.end()
        pieces.append(passage.cut(at, len(passage.text)))
        return join([piece for piece in pieces if piece.text] or [passage.cut(0, 0)])

    def _unknown(self, node: Node, quoted: bool) -> list[_Fragment]:
        spelling = " ".join(self._spelling(node).split())
        return [_Fragment(self._of(node).marked(spelling), splits=not quoted)]

    def _known(self, name: str, node: Node, quoted: bool) -> list[_Fragment] | None:
        """The fragments of a variable's value, None where nothing sets it."""
        value = self._script.variables.get(name)
        if value is None:
            answer = self._script.answers.get(name)
            if answer is None:
                return None
            return [_Fragment(self._of(node).replaced(answer), splits=not quoted)]
        if isinstance(value, tuple):
            return [_Fragment(value[0] if value else self._cut(node.start_byte, node.start_byte), splits=not quoted)]
        return [_Fragment(value, splits=not quoted)]

    def _simple(self, node: Node, quoted: bool) -> list[_Fragment]:
        name = self._spelling(node)[1:]
        if name in ("@", "*"):
            given = self._script.variables.get("@")
            if isinstance(given, tuple):
                return [_Fragment(self._of(node), fields=given)]
        return self._known(name, node, quoted) or self._unknown(node, quoted)

    def _expansion(self, node: Node, quoted: bool) -> list[_Fragment]:
        """`${NAME}`, `${NAME:-default}` and their kin, `${NAME[@]}`."""
        subscript = next((child for child in node.named_children if child.type == "subscript"), None)
        if subscript is not None:
            return self._elements(subscript, node, quoted)
        name_node = next((child for child in node.named_children if child.type == "variable_name"), None)
        operator = next((child.type for child in node.children if not child.is_named and child.type not in "${}"), "")
        if name_node is None or self._spelling(node)[2:3] in "!#":
            return self._unknown(node, quoted)
        known = self._known(self._spelling(name_node), node, quoted)
        if operator == "":
            return known or self._unknown(node, quoted)
        rest = [child for child in node.named_children if child.start_byte >= name_node.end_byte]
        if operator in (":-", "-", ":=", "="):
            if known is not None and (not operator.startswith(":") or known[0].passage.text):
                return known
            fragments = [fragment for child in rest for fragment in self._fragments(child, quoted)]
            if not fragments:
                return [_Fragment(self._cut(node.end_byte - 1, node.end_byte - 1), splits=not quoted)]
            # A default without quotes of its own is divided like the variable's value.
            return [_Fragment(one.passage, not quoted, one.fields) for one in fragments]
        if operator in (":+", "+"):
            if known is None or (operator == ":+" and not known[0].passage.text):
                return self._unknown(node, quoted) if known is None else known
            return [fragment for child in rest for fragment in self._fragments(child, quoted)]
        if operator in (":?", "?") and known is not None:
            return known
        return self._unknown(node, quoted)

    def _elements(self, subscript: Node, node: Node, quoted: bool) -> list[_Fragment]:
        name_node = subscript.child_by_field_name("name")
        value = None if name_node is None else self._script.variables.get(self._spelling(name_node))
        index = subscript.child_by_field_name("index")
        which = "" if index is None else self._spelling(index)
        if isinstance(value, Passage):
            value = (value,)
        if value is None:
            return self._unknown(node, quoted)
        if which in ("@", "*"):
            return [_Fragment(self._of(node), fields=value)]
        if which.isdigit() and int(which) < len(value):
            return [_Fragment(value[int(which)], splits=not quoted)]
        return self._unknown(node, quoted)


_FRAGMENTS: Mapping[str, Callable[[_Run, Node, bool], list[_Fragment]]] = {
    "raw_string": _Run._raw,
    "ansi_c_string": _Run._ansi,
    "string": _Run._string,
    "translated_string": _Run._string,
    "concatenation": _Run._concatenation,
    "simple_expansion": _Run._simple,
    "expansion": _Run._expansion,
    "command_substitution": _Run._unknown,
    "process_substitution": _Run._unknown,
    "arithmetic_expansion": _Run._unknown,
}


def _split_unknown(
    passage: Passage, found: list[Passage], current: list[Passage]
) -> tuple[list[Passage], list[Passage]]:
    """A value with unknown parts, divided at its blanks outside them."""
    marks = dict(passage.unknown)
    if list(marks) == [0] and passage.text and marks[0].replace(" ", "") == passage.text.replace(" ", ""):
        return found, [*current, passage]
    for position, piece in enumerate(passage.split()):
        if position:
            found = [*found, join(current)]
            current = []
        current = [*current, piece]
    return found, current


def _length(value: Value | None) -> int:
    if isinstance(value, tuple):
        return sum(len(item.text) + 1 for item in value)
    return 0 if value is None else len(value.text)


def _appended(before: Value | None, value: Value | None) -> Value | None:
    if before is None or value is None:
        return value if before is None else None
    if isinstance(before, tuple) or isinstance(value, tuple):
        first = before if isinstance(before, tuple) else (before,)
        return (*first, *(value if isinstance(value, tuple) else (value,)))
    return join([before, value])
