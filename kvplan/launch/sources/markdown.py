"""Markdown: the fenced blocks that hold commands, manifests, Dockerfiles and Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from kvplan.launch.found import Found, Unreadable
from kvplan.launch.passages import Passage, Source
from kvplan.launch.sources.commands import MARKER, Reader

_LANGUAGES = {
    "": "shell",
    "bash": "shell",
    "sh": "shell",
    "shell": "shell",
    "zsh": "shell",
    "console": "shell",
    "shell-session": "shell",
    "shellsession": "shell",
    "text": "shell",
    "terminal": "shell",
    "yaml": "yaml",
    "yml": "yaml",
    "json": "yaml",
    "dockerfile": "dockerfile",
    "docker": "dockerfile",
    "python": "python",
    "py": "python",
    "ini": "systemd",
    "systemd": "systemd",
}
_PROMPT = re.compile(r"(?m)^[ \t]*(?:\([\w.-]+\)[ \t]*)?(?:[\w.@~:/-]*[$#%>]|\$)[ \t]+(?=\S)")
_PLACEHOLDER = re.compile(r"<([A-Za-z][\w ./-]*)>")

Readers = Callable[[str, Source, Reader], Iterator[Found]]


def launches(source: Source, reader: Reader, read: Readers) -> Iterator[Found]:
    """The launches of every fenced block; `read` reads a text of a given kind."""
    from markdown_it import MarkdownIt

    lines = source.text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    for token in MarkdownIt("commonmark").disable("inline").parse(source.text):
        if token.type != "fence" or token.map is None:
            continue
        language = (token.info.split() or [""])[0].strip("{}.").lower()
        kind = _LANGUAGES.get(language)
        if kind is None or not (MARKER.search(token.content) or kind in ("yaml", "python")):
            continue
        passage = _content(source, token.content, lines, starts, token.map[0] + 1)
        if kind == "shell":
            passage = _typed(passage)
        around = replace(reader.around, kind="Markdown")
        inner = Source(source.name, passage.text, passage)
        for found in read(kind, inner, replace(reader, around=around)):
            if not isinstance(found, Unreadable) or MARKER.search(token.content):
                yield found


def _content(source: Source, content: str, lines: list[str], starts: list[int], first: int) -> Passage:
    """The block's text: what stands behind the indent of its lines."""
    pairs: list[tuple[int, int]] = []
    inner = 0
    for number, line in enumerate(content.split("\n"), first):
        if number >= len(lines) or inner >= len(content):
            break
        pairs.append((inner, starts[number] + max(len(lines[number]) - len(line), 0)))
        inner += len(line) + 1
    return source.scattered(content, pairs)


def _typed(passage: Passage) -> Passage:
    """What somebody types: without prompts, and with placeholders as the variables they stand for."""
    text = _PROMPT.sub(lambda match: " " * len(match.group()), passage.text)
    text = _PLACEHOLDER.sub(lambda match: "$" + re.sub(r"\W", "_", match[1]) + " ", text)
    return Passage(text, passage.file, passage.runs)
