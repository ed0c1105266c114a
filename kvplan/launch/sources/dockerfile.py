"""Dockerfiles: entry point, command and environment of each stage."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kvplan.launch.found import Found, FoundLaunch
from kvplan.launch.passages import Passage, Source, join
from kvplan.launch.sources import images
from kvplan.launch.sources.commands import Container, Reader, container_launches, json_words
from kvplan.launch.sources.shelltext import Command, Script

_HEAD = re.compile(r"\s*[A-Za-z]+[ \t]+")
_COMMENT = re.compile(r"(?m)^[ \t]*#[^\n]*\n")


@dataclass(slots=True)
class _Stage:
    """One build stage so far."""

    image: Passage
    name: str = ""
    environment: dict[str, Passage] = field(default_factory=dict)
    entry: tuple[Passage, ...] | None = None
    command: tuple[Passage, ...] = ()
    release: str | None = None
    own: bool = False
    """Whether this stage itself says what is started."""


def launches(source: Source, reader: Reader) -> Iterator[Found]:
    """The launch of every stage that has an entry point or a command of its own."""
    import logging

    from dockerfile_parse import DockerfileParser

    logging.getLogger("dockerfile_parse").setLevel(logging.ERROR)
    starts = _line_starts(source.text)
    parser = DockerfileParser(fileobj=io.BytesIO(source.text.encode("utf-8", "replace")))
    arguments: dict[str, Passage] = {}
    stages: list[_Stage] = []
    by_name: dict[str, _Stage] = {}
    for part in parser.structure:
        whole = source.passage(starts[part["startline"]], starts[min(part["endline"] + 1, len(starts) - 1)])
        head = _HEAD.match(whole.text)
        if head is None or part["instruction"] == "COMMENT":
            continue
        text = _without_comments(whole.cut(head.end(), len(whole.text)))
        if part["instruction"] == "FROM":
            stage = _from(text, arguments, by_name, reader)
            stages.append(stage)
            by_name[stage.name.lower()] = stage
        elif part["instruction"] == "ARG" and not stages:
            arguments |= _pairs(text, arguments, reader)
        elif stages:
            _instruction(part["instruction"], text, stages[-1], arguments, reader)
    for stage in stages:
        if stage.own:
            yield from _launches(stage, reader)


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for line in text.split("\n"):
        starts.append(min(starts[-1] + len(line) + 1, len(text)))
    return starts


def _without_comments(text: Passage) -> Passage:
    """Comment lines between continued lines, blanked."""
    if "#" not in text.text or "\n" not in text.text.rstrip():
        return text
    pieces, at = [], 0
    for match in _COMMENT.finditer(text.text):
        pieces.append(text.cut(at, match.start()))
        at = match.end()
    pieces.append(text.cut(at, len(text.text)))
    return join([piece for piece in pieces if piece.text] or [text.cut(0, 0)])


def _words(text: Passage, variables: dict[str, Passage], reader: Reader) -> list[Passage]:
    """The words of an instruction, with the variables known to the build."""
    script = Script(dict(variables), answers=reader.answers)
    found: list[Passage] = []
    for command in script.commands(_echoed(text)):
        if isinstance(command, Command):
            found += command.words[1:]
    return found


def _echoed(text: Passage) -> Passage:
    """As arguments of a command, so that `A=b` is a word and no assignment."""
    return join([text.replaced(":"), text], " ")


def _from(text: Passage, arguments: dict[str, Passage], by_name: dict[str, _Stage], reader: Reader) -> _Stage:
    words = [word for word in _words(text, arguments, reader) if not word.text.startswith("--")]
    image = words[0] if words else text
    name = words[2].text if len(words) > 2 and words[1].text.lower() == "as" else ""
    base = by_name.get(image.text.lower())
    if base is None:
        return _Stage(image, name)
    return replace(base, name=name, environment=dict(base.environment), own=False)


def _pairs(text: Passage, variables: dict[str, Passage], reader: Reader) -> dict[str, Passage]:
    """`A=b C="d e"`, or ENV's old form `A b c`."""
    words = _words(text, variables, reader)
    if words and "=" not in words[0].text:
        value = join(words[1:], " ") if len(words) > 1 else None
        return {} if value is None else {words[0].text: value}
    found: dict[str, Passage] = {}
    for word in words:
        name, equals, _ = word.text.partition("=")
        if equals:
            found[name] = word.cut(len(name) + 1, len(word.text))
    return found


def _instruction(name: str, text: Passage, stage: _Stage, arguments: dict[str, Passage], reader: Reader) -> None:
    if name in ("ENV", "ARG"):
        if name == "ARG" and "=" not in text.text:
            key = text.text.strip()
            if key in arguments:
                stage.environment[key] = arguments[key]
            return
        stage.environment |= _pairs(text, {**arguments, **stage.environment}, reader)
    elif name == "RUN" and "vllm" in text.text:
        for command in Script(dict(stage.environment)).commands(text):
            if isinstance(command, Command) and "install" in [word.text for word in command.words]:
                pinned = [images.required(word.text) for word in command.words]
                stage.release = next((release for release in pinned if release), stage.release)
    elif name == "ENTRYPOINT":
        stage.entry, stage.command, stage.own = _exec_words(text), (), True
    elif name == "CMD":
        stage.command, stage.own = _exec_words(text), True


def _exec_words(text: Passage) -> tuple[Passage, ...]:
    """The exec form as it stands; the shell form as `/bin/sh -c TEXT`."""
    start = len(text.text) - len(text.text.lstrip())
    trimmed = text.cut(start, len(text.text.rstrip()))
    if trimmed.text.startswith("["):
        flat = re.sub(r"\\[ \t]*\n", lambda match: " " * len(match.group()), trimmed.text)
        words = json_words(Passage(flat, trimmed.file, trimmed.runs))
        if words is not None:
            return words
    return (trimmed.replaced("/bin/sh"), trimmed.replaced("-c"), trimmed)


def _launches(stage: _Stage, reader: Reader) -> Iterator[Found]:
    around = replace(
        reader.around,
        kind="Dockerfile",
        name=stage.name,
        environment=stage.environment,
        release=stage.release,
    )
    image = stage.image
    container = Container(image=image, command=stage.entry, arguments=stage.command, location=image)
    for found in container_launches(replace(reader, around=around), container):
        if stage.release is not None and isinstance(found, FoundLaunch):
            yield replace(found, around=replace(found.around, release=stage.release, release_reason=""))
        else:
            yield found
