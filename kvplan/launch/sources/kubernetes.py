"""Kubernetes manifests, and every YAML that embeds containers, word lists or shell text with a launch in it.

The walk looks for what a container is, not for the kinds that have one: Deployment, LeaderWorkerSet and a custom
resource nobody has heard of are read alike. What applies to everything below a mapping (node selectors, roles,
accelerators) is carried down.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kvplan.launch.found import Found, Surroundings
from kvplan.launch.passages import Passage
from kvplan.launch.sources import containers, images
from kvplan.launch.sources.commands import MARKER, Container, Reader, container_launches, surely_vllm
from kvplan.launch.sources.shelltext import Command, Script
from kvplan.launch.sources.yamlfile import Mapping, Node, Scalar, Sequence

_ROLE = re.compile(r"(?:^|[^a-z])(prefill|decode)(?:$|er|r|[^a-z]|worker)", re.IGNORECASE)
_CONTAINER_KEYS = frozenset({"command", "args", "image", "env", "resources", "entrypoint"})
_PROSE = frozenset({"description", "message", "title", "summary", "help", "annotations", "notes"})
"""Keys under which a command is talked about, not given."""


def role_of(text: str) -> str | None:
    """`prefill` or `decode` where a name says so; the last one counts."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", text)
    found = _ROLE.findall(split)
    return found[-1].lower() if found else None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the walk is: the reader with what applies here, and the volumes of the pod."""

    reader: Reader
    volumes: dict[str, dict[str, Passage]]

    @property
    def around(self) -> Surroundings:
        return self.reader.around

    def with_around(self, around: Surroundings) -> _Place:
        return replace(self, reader=replace(self.reader, around=around))


def config_maps(documents: list[Node]) -> dict[str, dict[str, Passage]]:
    """The contents of the ConfigMaps among `documents`, by name and key."""
    found: dict[str, dict[str, Passage]] = {}
    for document in documents:
        if isinstance(document, Mapping) and document.text("kind") == "ConfigMap":
            data = document.mapping("data")
            pairs = {} if data is None else data.pairs
            found[document.text("metadata", "name")] = {
                key: value.passage for key, (_, value) in pairs.items() if isinstance(value, Scalar)
            }
    return found


def launches(document: Node, reader: Reader, maps: dict[str, dict[str, Passage]]) -> Iterator[Found]:
    """Every launch in one document."""
    kind = document.text("kind") if isinstance(document, Mapping) else ""
    name = document.text("metadata", "name") if isinstance(document, Mapping) else ""
    around = replace(reader.around, kind=kind or reader.around.kind, name=name)
    place = _Place(replace(reader, around=around), {})
    yield from _walk(document, place, maps, "")


def _walk(node: Node, place: _Place, maps: dict[str, dict[str, Passage]], key: str) -> Iterator[Found]:
    if isinstance(node, Scalar):
        yield from _text(node, place, key)
    elif isinstance(node, Sequence):
        yield from _list(node, place, maps, key)
    else:
        yield from _mapping(node, place, maps, key)


def _text(node: Scalar, place: _Place, key: str) -> Iterator[Found]:
    """A text that holds a command line."""
    if key not in _PROSE and " " in node.text and MARKER.search(node.text):
        yield from place.reader.deeper().shell(containers.templated(node.passage))


def _list(node: Sequence, place: _Place, maps: dict[str, dict[str, Passage]], key: str) -> Iterator[Found]:
    if node.items and all(isinstance(item, Scalar) for item in node.items):
        found = containers.words(node)
        if key not in _PROSE and _starts(found):
            yield from place.reader.deeper().words(found)
            return
    for item in node.items:
        yield from _walk(item, place, maps, key)


def _starts(words: tuple[Passage, ...]) -> bool:
    """Whether a list of words is a command rather than a list of commands."""
    texts = [word.text for word in words]
    return (
        any(text.rpartition("/")[2] == "vllm" for text in texts[:-1]) or "vllm.entrypoints.openai.api_server" in texts
    )


def _mapping(node: Mapping, place: _Place, maps: dict[str, dict[str, Passage]], key: str) -> Iterator[Found]:
    place = _entered(node, place, maps, key)
    container = _container(node, place, maps)
    skipped: frozenset[str] = frozenset()
    if container is not None:
        inner, found = container
        results = list(container_launches(inner, found))
        yield from results
        skipped = _CONTAINER_KEYS
        place = replace(place, reader=inner)
    for name, (_, value) in node.pairs.items():
        if name not in skipped and not (node.text("kind") == "ConfigMap" and name == "metadata"):
            below = _named(place, name) if key == "services" else place
            yield from _walk(value, below, maps, name)


def _named(place: _Place, name: str) -> _Place:
    """The place below one of several named services."""
    around = place.around
    return place.with_around(replace(around, name="/".join(part for part in (around.name, name) if part)))


def _entered(node: Mapping, place: _Place, maps: dict[str, dict[str, Passage]], key: str) -> _Place:
    """The place below this mapping, with what it says about everything in it."""
    around = place.around
    gpu = containers.selected_gpu(node)
    if gpu is not None:
        around = replace(around, gpu=gpu, count=around.count if gpu.count is None else gpu.count)
    role = role_of(key) or role_of(node.text("name")) or role_of(node.text("metadata", "name"))
    labels = node.mapping("metadata", "labels") or node.mapping("labels")
    if labels is not None:
        said = [value.text for _, (_, value) in labels.pairs.items() if isinstance(value, Scalar)]
        role = next((found for found in map(role_of, said) if found), None) or role
    if role is not None:
        around = replace(around, role=role)
    if "resources" in node and "image" not in node:
        count = containers.gpu_count(node.get("resources"))
        around = around if count is None else replace(around, count=count)
    template = node.get("image")
    if isinstance(template, Scalar | Mapping) and "containers" not in node:
        image = containers.image(template)
        read = None if image is None else images.read(image.text)
        if read is not None and read.serves and read.release is not None:
            around = replace(around, release=read.release, release_reason="")
    volumes = place.volumes
    if "volumes" in node and "containers" in node:
        volumes = _volumes(node, maps)
    return replace(place.with_around(around), volumes=volumes)


def _volumes(pod: Mapping, maps: dict[str, dict[str, Passage]]) -> dict[str, dict[str, Passage]]:
    """The files of a pod's volumes that come from ConfigMaps, by volume and file name."""
    found: dict[str, dict[str, Passage]] = {}
    for volume in pod.items("volumes"):
        if not isinstance(volume, Mapping):
            continue
        contents = maps.get(volume.text("configMap", "name"))
        if contents is None:
            continue
        renamed = dict(contents)
        for item in volume.items("configMap", "items"):
            if isinstance(item, Mapping) and item.text("key") in contents:
                renamed[item.text("path")] = contents[item.text("key")]
        found[volume.text("name")] = renamed
    return found


def _container(node: Mapping, place: _Place, maps: containers.Maps) -> tuple[Reader, Container] | None:
    """The container that this mapping is, None where it is something else."""
    image = containers.image(node.get("image"))
    command, arguments = node.get("command"), node.get("args")
    if "entrypoint" in node and command is None and image is not None:
        command = node.get("entrypoint")
    if isinstance(command, Mapping) or isinstance(arguments, Mapping):
        return None
    if not _is_container(node, image, command, arguments):
        return None
    around = place.around
    environment = {
        **around.environment,
        **containers.environment_from(node.get("envFrom"), maps),
        **containers.environment(node.get("env"), maps),
    }
    name = node.text("name")
    resources = node.get("resources")
    count = containers.gpu_count(resources)
    files = _mounted(node, place)
    around = replace(
        around,
        name="/".join(part for part in (around.name, name if name != around.name else "") if part),
        environment=environment,
        count=around.count if count is None else count,
        platform=containers.foreign_platform(resources) or around.platform,
        files={**around.files, **files},
    )
    reader = replace(place.reader, around=around)
    given = None
    if isinstance(command, Sequence) and command.items:
        given = containers.words(command, environment)
    elif isinstance(command, Scalar) and not command.is_null:
        given = _of_text(command, environment)
    if isinstance(arguments, Scalar) and not arguments.is_null:
        rest = _of_text(arguments, environment)
    else:
        rest = containers.words(arguments, environment)
    at = Passage("", node.source.name, ((0, node.location.line, node.location.column),))
    return reader, Container(image=image, command=given, arguments=rest, location=at)


def _of_text(node: Scalar, environment: dict[str, Passage]) -> tuple[Passage, ...]:
    """A command written as one text: a shell's words."""
    passage = containers.expanded(containers.templated(node.passage), environment)
    if "\n" in passage.text.strip() or any(sign in passage.text for sign in (";", "&&", "|")):
        shell = passage.replaced("sh"), passage.replaced("-c")
        return (*shell, passage)
    found: list[Passage] = []
    for command in Script(dict(environment)).commands(passage):
        found += command.words if isinstance(command, Command) else ()
    return tuple(found)


def _is_container(node: Mapping, image: Passage | None, command: Node | None, arguments: Node | None) -> bool:
    if image is not None:
        if command is not None or arguments is not None:
            return True
        # A pod's container without words; values files name images beside other things.
        return "name" in node and images.read(image.text).serves and ("env" in node or "resources" in node)
    if isinstance(command, Sequence):
        return all(isinstance(item, Scalar) for item in command.items) and _leads_to_vllm(command, arguments)
    if command is None and isinstance(arguments, Sequence):
        return surely_vllm(containers.words(arguments))
    return False


def _leads_to_vllm(command: Sequence, arguments: Node | None) -> bool:
    texts = [word.text for word in (*containers.words(command), *containers.words(arguments))]
    return bool(MARKER.search(" ".join(texts))) or "vllm" in {text.rpartition("/")[2] for text in texts}


def _mounted(node: Mapping, place: _Place) -> dict[str, Passage]:
    """Files that the container sees, by path, as far as their contents are known."""
    found: dict[str, Passage] = {}
    for mount in node.items("volumeMounts"):
        if not isinstance(mount, Mapping):
            continue
        path, part = mount.text("mountPath").rstrip("/"), mount.text("subPath")
        contents = place.volumes.get(mount.text("name"), {})
        if part:
            if part in contents:
                found[path] = contents[part]
            continue
        for name, passage in contents.items():
            found[f"{path}/{name}"] = passage
    return found
