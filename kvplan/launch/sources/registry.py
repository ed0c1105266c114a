"""The formats: one table from kinds of files to readers, and one of document formats within YAML."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from kvplan.launch.found import Found, Surroundings, Unreadable
from kvplan.launch.passages import Passage, Source
from kvplan.launch.resolving import Answers
from kvplan.launch.sources import compose, kubernetes, optionfile
from kvplan.launch.sources.commands import Reader
from kvplan.launch.sources.yamlfile import Node, YamlProblem, documents


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """A format of YAML documents: whether a document is of it, and its launches."""

    name: str
    recognises: Callable[[Node], bool]
    launches: Callable[[Node, Reader, Path | None], Iterator[Found]]


DOCUMENTS: tuple[DocumentFormat, ...] = (
    DocumentFormat("compose", compose.recognises, compose.launches),
    DocumentFormat("vLLM options", optionfile.recognises, optionfile.launches),
)
"""Formats with a reading of their own, the first that recognises a document reads it; every other YAML is walked
for containers, word lists and shell text."""


def read(kind: str, source: Source, around: Surroundings, answers: Answers, base: Path | None) -> Iterator[Found]:
    """The launches of a file of this kind."""
    reader = Reader(around, answers.environment)
    yield from _FILES[kind](source, reader, base)


def _yaml(source: Source, reader: Reader, base: Path | None) -> Iterator[Found]:
    read_documents: list[Node] = []
    problem: YamlProblem | None = None
    try:
        for document in documents(source):
            read_documents.append(document)
    except YamlProblem as found:
        problem = found
    yield from _documents(read_documents, reader, base)
    if problem is not None:
        reason = problem.reason
        if "{{" in source.text:
            reason = "a Go template, not YAML: scan the output of `helm template` instead (`helm template … | kvplan scan -`)"
        yield Unreadable(source.name, reason, problem.location)


def _documents(read_documents: list[Node], reader: Reader, base: Path | None) -> Iterator[Found]:
    maps = kubernetes.config_maps(read_documents)
    for document in read_documents:
        known = next((form for form in DOCUMENTS if form.recognises(document)), None)
        if known is not None:
            yield from known.launches(document, replace(reader, around=replace(reader.around, kind=known.name)), base)
        else:
            yield from kubernetes.launches(document, replace(reader, around=replace(reader.around, kind="YAML")), maps)


def _nested_yaml(base: Path | None, reader: Reader) -> Callable[[Passage], Iterator[Found]]:
    """Reads a manifest that stands inside another text, with its places in the outer file."""

    def read_passage(passage: Passage) -> Iterator[Found]:
        source = Source(passage.file, passage.text, passage)
        yield from _yaml(source, reader.deeper(), base)

    return read_passage


def _shell(source: Source, reader: Reader, base: Path | None) -> Iterator[Found]:
    around = replace(reader.around, kind="shell")
    reader = replace(reader, around=around, nested_yaml=_nested_yaml(base, reader))
    yield from reader.shell(source.passage())


def _dockerfile(source: Source, reader: Reader, _base: Path | None) -> Iterator[Found]:
    from kvplan.launch.sources import dockerfile

    yield from dockerfile.launches(source, reader)


_FILES: dict[str, Callable[[Source, Reader, Path | None], Iterator[Found]]] = {
    "yaml": _yaml,
    "shell": _shell,
    "dockerfile": _dockerfile,
}
