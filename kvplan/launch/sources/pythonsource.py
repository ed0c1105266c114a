"""Python that builds an engine: `LLM(…)`, `EngineArgs(…)`, `AsyncEngineArgs(…)` with arguments that are literal,
and commands handed to subprocess."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from kvplan.launch.found import Found, FoundLaunch, Unreadable
from kvplan.launch.options import lifetime_of
from kvplan.launch.parser import EntryPoint
from kvplan.launch.passages import Passage, Source
from kvplan.launch.sources.commands import MARKER, Reader

_BUILDERS = frozenset({"LLM", "EngineArgs", "AsyncEngineArgs"})
_RUNNERS = frozenset({"run", "Popen", "call", "check_call", "check_output", "system", "create_subprocess_exec"})
MAX_DEPTH = 200


def launches(source: Source, reader: Reader) -> Iterator[Found]:
    """Every engine that the module builds and every vLLM command that it runs."""
    if "LLM" not in source.text and "EngineArgs" not in source.text and not MARKER.search(source.text):
        return
    try:
        with warnings.catch_warnings():
            # What the compiler thinks of the code is its author's business.
            warnings.simplefilter("ignore")
            tree = ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if MARKER.search(source.text) or "from vllm" in source.text:
            line = getattr(error, "lineno", None)
            where = f" (line {line})" if line else ""
            yield Unreadable(source.name, f"not Python{where}: {getattr(error, 'msg', None) or error}")
        return
    module = _Module(source, tree)
    try:
        for call in module.calls:
            yield from _call(call, module, reader)
    except RecursionError:
        yield Unreadable(source.name, "Python nested too deeply")


@dataclass(frozen=True)
class _Module:
    """A parsed module with its constants."""

    source: Source
    tree: ast.Module

    @cached_property
    def calls(self) -> list[ast.Call]:
        """The calls in the order in which they are written."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        return sorted(found, key=lambda node: (node.lineno, node.col_offset))

    @cached_property
    def constants(self) -> dict[str, ast.expr]:
        """Names that one assignment gives a value to, and nothing else does."""
        values: dict[str, ast.expr | None] = {}
        for node in ast.walk(self.tree):
            targets: list[ast.expr] = []
            value: ast.expr | None = None
            if isinstance(node, ast.Assign):
                targets, value = node.targets, node.value
            elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
                targets = [node.target]
                value = None if isinstance(node, ast.AugAssign) else node.value
            elif isinstance(node, ast.For | ast.comprehension):
                targets = [node.target]
            elif isinstance(node, ast.arg):
                values[node.arg] = None
            for target in targets:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name):
                        values[name.id] = None if name.id in values or name is not target else value
        return {name: value for name, value in values.items() if value is not None}

    @cached_property
    def imports_vllm(self) -> bool:
        """Whether the builders are vLLM's."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "vllm":
                return True
            if isinstance(node, ast.Import) and any(name.name.split(".")[0] == "vllm" for name in node.names):
                return True
        return False

    @cached_property
    def _lines(self) -> list[tuple[int, str]]:
        found, at = [], 0
        for line in self.source.text.split("\n"):
            found.append((at, line))
            at += len(line) + 1
        return found

    def offset(self, line: int, column: int) -> int:
        """The offset of a place that ast gives: its columns count bytes."""
        start, text = self._lines[min(line, len(self._lines)) - 1]
        if not text.isascii():
            column = len(text.encode("utf-8", "replace")[:column].decode("utf-8", "replace"))
        return start + column

    def at(self, node: ast.AST) -> Passage:
        """The text of a node."""
        start = self.offset(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))
        end = self.offset(getattr(node, "end_lineno", 1) or 1, getattr(node, "end_col_offset", 0) or 0)
        return self.source.passage(start, max(start, end))

    def value(self, node: ast.expr) -> tuple[object, ast.expr] | None:
        """The literal that an expression is, with the node that holds it; None where it is no literal."""
        for _ in range(5):
            if not isinstance(node, ast.Name) or node.id not in self.constants:
                break
            node = self.constants[node.id]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
            pairs = {item.arg: self.value(item.value) for item in node.keywords if item.arg}
            if len(pairs) != len(node.keywords) or any(pair is None for pair in pairs.values()):
                return None
            return {name: pair[0] for name, pair in pairs.items() if pair is not None}, node
        try:
            return ast.literal_eval(node), node
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None


def _call(call: ast.Call, module: _Module, reader: Reader) -> Iterator[Found]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if name in _BUILDERS and module.imports_vllm:
        found = _engine(name, call, module, reader)
        if found is not None:
            yield found
    elif name in _RUNNERS and call.args:
        yield from _command(call, module, reader)


def _engine(name: str, call: ast.Call, module: _Module, reader: Reader) -> Found | None:
    words: list[Passage] = []
    options: list[Passage] = []
    if call.args:
        words = _texts(call.args[0], module)
    for keyword in call.keywords:
        if keyword.arg is None:
            given = module.value(keyword.value)
            if given is None or not isinstance(given[0], dict):
                spelling = " ".join(module.at(keyword.value).text.split())[:60]
                options.append(module.at(keyword.value).marked(f"**{spelling}"))
            else:
                for key, value in given[0].items():
                    options += option_words(str(key), value, module.at(given[1]))
        elif keyword.arg == "model" and not words:
            words = _texts(keyword.value, module)
        else:
            known = module.value(keyword.value)
            place = module.at(keyword)
            if known is None:
                spelling = " ".join(module.at(keyword.value).text.split())[:60]
                flag = f"--{keyword.arg.replace('_', '-')}="
                whole = place.replaced(flag + spelling)
                options.append(Passage(whole.text, whole.file, whole.runs, ((len(flag), spelling),)))
            else:
                options += option_words(keyword.arg, known[0], place)
    if (not words or words[0].unknown) and all(option.unknown for option in options):
        # Library code that hands on what it is given.
        return None
    around = replace(reader.around, kind="Python", name=f"{name}(…)")
    return FoundLaunch(
        entry=EntryPoint.SERVE,
        words=(*words, *options),
        location=module.at(call).location,
        offline=name == "LLM",
        around=around,
    )


def _texts(node: ast.expr, module: _Module) -> list[Passage]:
    known = module.value(node)
    if known is None or not isinstance(known[0], str):
        place = module.at(node)
        return [place.marked(" ".join(place.text.split())[:60])]
    place = module.at(known[1])
    inner = place.cut(1, len(place.text) - 1)
    return [inner if inner.text == known[0] else place.replaced(known[0])]


def option_words(name: str, value: object, place: Passage) -> list[Passage]:
    """A field of vLLM's engine arguments as the words of its option; `place` is where it is written."""
    flag = f"--{name.replace('_', '-')}"
    if value is None:
        return []
    if isinstance(value, bool):
        if value:
            return [place.replaced(flag)]
        opposite = f"--no-{flag[2:]}"
        return [place.replaced(opposite)] if lifetime_of(opposite) is not None else []
    if isinstance(value, list | tuple):
        return [place.replaced(flag), *(place.replaced(str(item)) for item in value)] if value else []
    if isinstance(value, dict):
        return [place.replaced(flag), place.replaced(json.dumps(value, default=str))]
    return [place.replaced(f"{flag}={value}")]


def _command(call: ast.Call, module: _Module, reader: Reader) -> Iterator[Found]:
    """A command given as a text or as a list of words."""
    argument = call.args[0]
    for _ in range(5):
        if isinstance(argument, ast.Name) and argument.id in module.constants:
            argument = module.constants[argument.id]
    around = replace(reader.around, kind="Python", name="")
    inner = replace(reader, around=around)
    if isinstance(argument, ast.List | ast.Tuple):
        words = [word for item in argument.elts for word in _texts(item, module)]
        if any("vllm" in word.text for word in words):
            yield from inner.words(words)
        return
    known = module.value(argument)
    if known is not None and isinstance(known[0], str) and MARKER.search(known[0]):
        place = module.at(known[1])
        text = place.cut(1, len(place.text) - 1)
        yield from inner.shell(text if text.text == known[0] else place.replaced(known[0]))
