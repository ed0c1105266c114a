"""Parts of manifests that several formats share: word lists, environments, images, Kubernetes' own expansion."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping as Dictionary
from collections.abc import Sequence as List
from types import MappingProxyType

from kvplan.launch.passages import Passage, join
from kvplan.launch.sources import gpus
from kvplan.launch.sources.yamlfile import Mapping, Node, Scalar, Sequence
from kvplan.launch.values import Hardware

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)", re.ASCII)
_TEMPLATE = re.compile(r"\{\{[^{}]*\}\}|\$\{[A-Za-z_][A-Za-z0-9_]*\}", re.ASCII)
"""What Helm, envsubst and the like fill in."""

MAX_TEXT = 200_000
"""Characters of a value once variables in it are replaced."""

GPU_RESOURCES = ("nvidia.com/gpu", "gpu", "nvidia.com/gpu.shared", "nvidia.com/pgpu")


def words(node: Node | None, environment: Dictionary[str, Passage] | None = None) -> tuple[Passage, ...]:
    """The words of `command`/`args`; numbers and booleans are taken as they are written.

    With an `environment`, `$(NAME)` is replaced as Kubernetes does it.
    """
    items: List[Node] = node.items if isinstance(node, Sequence) else () if node is None else (node,)
    found: list[Passage] = []
    for item in items:
        if isinstance(item, Scalar):
            passage = templated(item.passage)
            found.append(passage if environment is None else expanded(passage, environment))
        else:
            found.append(Passage("", item.source.name, (_run(item),), ((0, "a value that is not text"),)))
    return tuple(found)


def _run(node: Node) -> tuple[int, int, int]:
    place = node.location
    return (0, place.line, place.column)


def templated(passage: Passage) -> Passage:
    """The text, with template expressions in it marked as unknown."""
    if "{{" not in passage.text and "${" not in passage.text:
        return passage
    marks = [(match.start(), " ".join(match.group().split())) for match in _TEMPLATE.finditer(passage.text)]
    return Passage(passage.text, passage.file, passage.runs, (*passage.unknown, *marks))


def expanded(passage: Passage, environment: Dictionary[str, Passage]) -> Passage:
    """`$(NAME)` replaced where the container's environment has NAME, `$$` by one dollar sign."""
    if "$" not in passage.text:
        return passage
    pieces: list[Passage] = []
    at = 0
    for match in _REFERENCE.finditer(passage.text):
        value = None if match[1] is None else environment.get(match[1])
        pieces.append(passage.cut(at, match.start()))
        if match[1] is None:
            pieces.append(passage.cut(match.start(), match.start() + 1))
        elif value is None or value.unknown:
            # Not set here, but perhaps by `envFrom`; or a command, where a shell reads it.
            pieces.append(passage.cut(match.start(), match.end()).marked(match.group()))
        else:
            pieces.append(value)
        at = match.end()
    if not pieces:
        return passage
    pieces.append(passage.cut(at, len(passage.text)))
    if sum(len(piece.text) for piece in pieces) > MAX_TEXT:
        return passage.marked("a value that grows without end")
    return join([piece for piece in pieces if piece.text] or [passage.cut(0, 0)])


Maps = Dictionary[str, Dictionary[str, Passage]]
"""The contents of ConfigMaps, by name and key."""


def environment_from(node: Node | None, maps: Maps) -> dict[str, Passage]:
    """`envFrom` as far as its ConfigMaps are at hand: every key is a variable, under the source's prefix."""
    found: dict[str, Passage] = {}
    for source in node.items if isinstance(node, Sequence) else ():
        if isinstance(source, Mapping):
            contents = maps.get(source.text("configMapRef", "name"), {})
            found |= {f"{source.text('prefix')}{name}": value for name, value in contents.items()}
    return found


def environment(node: Node | None, maps: Maps = MappingProxyType({})) -> dict[str, Passage]:
    """`env` as a list of name and value, as a mapping, or as a list of `NAME=VALUE`; values may be keys of `maps`."""
    found: dict[str, Passage] = {}
    if isinstance(node, Mapping):
        for name, (key, value) in node.pairs.items():
            _set(found, name, key, value)
    elif isinstance(node, Sequence):
        for item in node.items:
            if isinstance(item, Mapping):
                named = item.scalar("name")
                kept = maps.get(item.text("valueFrom", "configMapKeyRef", "name"), {})
                referred = kept.get(item.text("valueFrom", "configMapKeyRef", "key"))
                if named is not None and referred is not None:
                    found[named.text] = referred
                elif named is not None:
                    _set(found, named.text, named, item.get("value"))
            elif isinstance(item, Scalar) and "=" in item.text:
                name = item.text.partition("=")[0]
                found[name] = item.passage.cut(len(name) + 1, len(item.text))
    return found


def _set(found: dict[str, Passage], name: str, key: Scalar, value: Node | None) -> None:
    if isinstance(value, Scalar):
        text = value.passage if value.text else key.passage.replaced("")
        found[name] = templated(expanded(text, found))
    else:
        # valueFrom: a secret, a field of the pod, a key of a ConfigMap that is not at hand.
        found[name] = key.passage.marked(f"${name}")


def image(node: Node | None) -> Passage | None:
    """`image: name` or Helm's `image: {repository, tag}`."""
    if isinstance(node, Scalar) and not node.is_null:
        return templated(node.passage)
    if isinstance(node, Mapping):
        parts = [part for part in (node.scalar("registry"), node.scalar("repository") or node.scalar("name")) if part]
        if not parts or (node.scalar("repository") is None and node.scalar("name") is None):
            return None
        named = join([part.passage for part in parts], "/")
        tag = node.scalar("tag")
        return templated(join([named, tag.passage], ":") if tag is not None and tag.text else named)
    return None


def gpu_count(resources: Node | None) -> int | None:
    """The GPUs in `resources: {limits, requests}`."""
    if not isinstance(resources, Mapping):
        return None
    for part in (resources.mapping("limits"), resources.mapping("requests"), resources):
        for name in GPU_RESOURCES:
            number = None if part is None else part.scalar(name)
            if number is not None:
                return number.whole
    return None


def foreign_platform(resources: Node | None) -> str | None:
    """The platform of accelerators that are not NVIDIA's, where `resources` ask for them."""
    if not isinstance(resources, Mapping):
        return None
    for part in (resources.mapping("limits"), resources.mapping("requests")):
        if part is not None:
            for name in part.pairs:
                if name in gpus.FOREIGN_RESOURCES:
                    return gpus.FOREIGN_RESOURCES[name]
    return None


_FIELD = re.compile(
    r"(?:accelerators?|accelerator_?(?:type|name)|gpu_?(?:type|model|name)|requestGPUType|instance_?types?|machine_?type"
    r"|vm_?size|resourceProfile)",
    re.IGNORECASE,
)


def selected_gpu(mapping: Mapping) -> Hardware | None:
    """The GPU that node selectors, affinities or accelerator fields of this mapping name."""
    for name, (_, value) in mapping.pairs.items():
        if name == "nodeSelector" and isinstance(value, Mapping):
            for label, (_, node) in value.pairs.items():
                gpu = gpus.named_by(label, node.text) if isinstance(node, Scalar) else None
                if gpu is not None:
                    return gpu
        elif name in ("affinity", "nodeAffinity"):
            gpu = next(_affine(value), None)
            if gpu is not None:
                return gpu
        elif _FIELD.fullmatch(name):
            scalar = value.items[0] if isinstance(value, Sequence) and value.items else value
            gpu = gpus.read(scalar.text) if isinstance(scalar, Scalar) else None
            if gpu is not None:
                return gpu
    return None


def _affine(node: Node) -> Iterator[Hardware]:
    """GPUs named by the match expressions of a node affinity."""
    if isinstance(node, Mapping):
        key, values = node.text("key"), node.items("values")
        if key and node.text("operator") in ("In", "") and values and isinstance(values[0], Scalar):
            gpu = gpus.named_by(key, values[0].text)
            if gpu is not None:
                yield gpu
            return
        for name, (_, value) in node.pairs.items():
            if not name.startswith(("pod", "preferred")):
                yield from _affine(value)
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from _affine(item)
