"""systemd units: the command of `ExecStart=` with the `Environment=` that it sees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from kvplan.launch.found import Found
from kvplan.launch.passages import Passage, Source, join
from kvplan.launch.sources.commands import MARKER, Reader
from kvplan.launch.sources.shelltext import Command, Script

_ASSIGNMENT = re.compile(r"([A-Za-z]+)\s*=[ \t]*")
_PREFIX = re.compile(r"[-@:+!|]*")


def launches(source: Source, reader: Reader) -> Iterator[Found]:
    """Every command of the `[Service]` section that starts vLLM."""
    name = PurePosixPath(source.name).name
    environment: dict[str, Passage] = {}
    commands: list[Passage] = []
    for key, value in _settings(source):
        if key == "Environment":
            for word in _words(value, {}):
                variable, equals, _ = word.text.partition("=")
                if equals:
                    environment[variable] = word.cut(len(variable) + 1, len(word.text))
        elif key in ("ExecStart", "ExecStartPre"):
            commands.append(value)
    around = replace(reader.around, kind="systemd unit", name=name, environment=environment)
    inner = replace(reader, around=around)
    for command in commands:
        prefix = _PREFIX.match(command.text)
        text = command.cut(0 if prefix is None else prefix.end(), len(command.text))
        if "vllm" in text.text or MARKER.search(text.text):
            yield from inner.words(_words(text, environment, reader))


def _settings(source: Source) -> Iterator[tuple[str, Passage]]:
    """The assignments of a unit file, with continued lines."""
    offset = 0
    lines = [f"{line}\n" for line in source.text.split("\n")]
    index = 0
    while index < len(lines):
        start, line = offset, lines[index]
        offset += len(line)
        index += 1
        if line.lstrip().startswith(("#", ";", "[")):
            continue
        while line.rstrip("\n").endswith("\\") and index < len(lines):
            line = lines[index]
            offset += len(line)
            index += 1
        whole = source.passage(start, offset)
        match = _ASSIGNMENT.match(whole.text)
        if match is not None:
            yield match[1], whole.cut(match.end(), len(whole.text.rstrip()))


def _words(text: Passage, environment: dict[str, Passage], reader: Reader | None = None) -> list[Passage]:
    """The words of a value: systemd's quoting is the shell's, without its operators."""
    flat = re.sub(r"[;&|<>()`#]", "_", re.sub(r"\$\$", "_d", text.text))
    shaped = Passage(flat, text.file, text.runs)
    script = Script(dict(environment), answers={} if reader is None else reader.answers)
    found: list[Passage] = []
    # A colon in front: an assignment is then a word like any other.
    front = Passage(": ", text.file, text.runs[:1])
    for command in script.commands(join([front, shaped])):
        if isinstance(command, Command):
            found += command.words[1:]
    original = text.text
    if flat == original:
        return found
    return [_restored(word, original, flat) for word in found]


def _restored(word: Passage, original: str, flat: str) -> Passage:
    """The word with the signs that were covered up."""
    at = flat.find(word.text)
    if at < 0 or word.unknown:
        return word
    return Passage(original[at : at + len(word.text)], word.file, word.runs)
