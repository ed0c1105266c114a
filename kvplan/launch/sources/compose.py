"""Docker compose files: interpolation, env files, entry points, GPU reservations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Mapping as Dictionary
from dataclasses import replace
from pathlib import Path

from kvplan.files import Ground
from kvplan.launch.found import Found, Unreadable
from kvplan.launch.passages import Passage, join
from kvplan.launch.sources import containers
from kvplan.launch.sources.commands import Container, Reader, container_launches
from kvplan.launch.sources.kubernetes import role_of
from kvplan.launch.sources.shelltext import Command, Script
from kvplan.launch.sources.typed import Beside
from kvplan.launch.sources.yamlfile import Mapping, Node, Scalar, Sequence

MAX_NESTING = 20


def recognises(document: Node) -> bool:
    """Whether a document is a compose file: services with images or builds, and no Kubernetes kind."""
    if not isinstance(document, Mapping) or "apiVersion" in document:
        return False
    services = document.mapping("services")
    return services is not None and any(
        isinstance(service, Mapping) and ("image" in service or "build" in service or "extends" in service)
        for _, service in services.pairs.values()
    )


def launches(document: Node, reader: Reader, beside: Beside) -> Iterator[Found]:
    """Every service that starts vLLM."""
    base = beside.base
    services = document.mapping("services") if isinstance(document, Mapping) else None
    if services is None:
        return
    known = _env_file(base / ".env", reader.ground) if base is not None else {}
    known |= reader.answers
    for name, (key, service) in services.pairs.items():
        if isinstance(service, Mapping):
            yield from _service(name, key, service, services, reader, known, base)


def _service(
    name: str,
    key: Scalar,
    service: Mapping,
    services: Mapping,
    reader: Reader,
    known: Dictionary[str, str],
    base: Path | None,
) -> Iterator[Found]:
    merged = _extended(service, services)
    environment, foreign = _environment(merged, known, base, reader.ground)
    around = replace(
        reader.around,
        kind="compose service",
        name=name,
        environment=environment,
        count=_gpu_count(merged),
        gpu=containers.selected_gpu(merged) or reader.around.gpu,
        role=role_of(name),
    )
    image = containers.image(merged.get("image"))
    container = Container(
        image=None if image is None else interpolated(image, known),
        command=_words(merged.get("entrypoint"), known),
        arguments=_words(merged.get("command"), known) or (),
        location=key.passage,
    )
    found = list(container_launches(replace(reader, around=around), container))
    yield from found
    for path in foreign if found else ():
        reason = f"compose service {name}: the env_file {path.text} lies outside of what is scanned, so it is not read"
        yield Unreadable(path.file, reason, path.location)


def _extended(service: Mapping, services: Mapping) -> Mapping:
    """The service with what it extends in the same file."""
    for _ in range(MAX_NESTING):
        node = service.get("extends")
        parent = node.text if isinstance(node, Scalar) else service.text("extends", "service")
        base = services.mapping(parent) if parent else None
        if base is None or base is service:
            return service
        own = {name: pair for name, pair in service.pairs.items() if name != "extends"}
        service = Mapping(service.source, {**base.pairs, **own}, service.start, service.weight)
    return service


def _environment(
    service: Mapping, known: Dictionary[str, str], base: Path | None, ground: Ground | None
) -> tuple[dict[str, Passage], list[Passage]]:
    """The variables of a service, and its env files that are not to be read."""
    found: dict[str, Passage] = {}
    foreign: list[Passage] = []
    files = service.get("env_file")
    nodes = files.items if isinstance(files, Sequence) else () if files is None else (files,)
    for node in nodes:
        path = node.scalar("path") if isinstance(node, Mapping) else node
        if isinstance(path, Scalar) and base is not None:
            if ground is None or not ground.holds(base / path.text):
                foreign.append(path.passage)
                continue
            for name, value in _env_file(base / path.text, ground).items():
                found[name] = path.passage.replaced(value)
    given = service.get("environment")
    for name, written in containers.environment(given).items():
        found[name] = interpolated(written, known)
    if isinstance(given, Sequence):
        for item in given.items:
            if isinstance(item, Scalar) and "=" not in item.text:
                answer = known.get(item.text)
                found[item.text] = (
                    item.passage.replaced(answer) if answer is not None else item.passage.marked(f"${item.text}")
                )
    return found, foreign


_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.ASCII)
"""An assignment on a line without blanks at its ends."""
_MAX_ENV_FILE = 200_000


def _env_file(path: Path, ground: Ground | None) -> dict[str, str]:
    """The assignments of an env file; none where it cannot be read."""
    text = None if ground is None else ground.read(path, _MAX_ENV_FILE)
    found: dict[str, str] = {}
    for line in (text or "").splitlines():
        match = _LINE.fullmatch(line.strip())
        if match is not None:
            value = match[2]
            if value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1:
                value = value[1:-1]
            else:
                value = _without_comment(value)
            found[match[1]] = value
    return found


def _without_comment(value: str) -> str:
    """A value without what stands behind a blank and a `#`."""
    at = next((at for at in range(1, len(value)) if value[at] == "#" and value[at - 1].isspace()), len(value))
    return value[:at].rstrip()


def _words(node: Node | None, known: Dictionary[str, str]) -> tuple[Passage, ...] | None:
    """`command` or `entrypoint`: a list, or a text that is divided like a shell would, without running one."""
    if isinstance(node, Sequence):
        return tuple(interpolated(word, known) for word in containers.words(node))
    if not isinstance(node, Scalar) or node.is_null:
        return None
    passage = interpolated(containers.templated(node.passage), known)
    flat = re.sub(r"\\\n|\n", lambda match: " " * len(match.group()), passage.text)
    # What compose has not replaced is plain text to it: no shell sees the words.
    flat = flat.replace("`", "'")
    divided = Passage(flat, passage.file, passage.runs, passage.unknown)
    marked = {name for _, name in passage.unknown}
    found: list[Passage] = []
    for command in Script().commands(divided):
        for word in command.words if isinstance(command, Command) else ():
            left = tuple((offset, name) for offset, name in word.unknown if name in marked)
            found.append(Passage(word.text, word.file, word.runs, left))
    return tuple(found)


_VARIABLE = re.compile(r"\$(?:\$|([A-Za-z_][A-Za-z0-9_]*)|\{)", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def interpolated(passage: Passage, known: Dictionary[str, str], depth: int = 0) -> Passage:
    """The text with compose's variables replaced: `$A`, `${A}`, `${A:-b}` (nested too), `${A:?m}`, `$$`."""
    if "$" not in passage.text or depth > MAX_NESTING:
        return passage
    pieces: list[Passage] = []
    text, at = passage.text, 0
    while match := _VARIABLE.search(text, at):
        pieces.append(passage.cut(at, match.start()))
        if match.group() == "$$":
            pieces.append(passage.cut(match.start(), match.start() + 1))
            at = match.end()
            continue
        end = match.end() if match[1] else _closing(text, match.end())
        if end is None:
            pieces.append(passage.cut(match.start(), len(text)))
            at = len(text)
            break
        whole = passage.cut(match.start(), end)
        inner = match[1] or text[match.end() : end - 1]
        pieces.append(_value(whole, inner, known, depth, match.end() - match.start()))
        at = end
    pieces.append(passage.cut(at, len(text)))
    if sum(len(piece.text) for piece in pieces) > containers.MAX_TEXT:
        return passage.marked("a value that grows without end")
    return join([piece for piece in pieces if piece.text] or [passage.cut(0, 0)])


def _value(whole: Passage, inner: str, known: Dictionary[str, str], depth: int, opening: int) -> Passage:
    name = _NAME.match(inner)
    if name is None:
        return whole.marked(whole.text)
    rest, value = inner[name.end() :], known.get(name.group())
    empty = value is None or (rest.startswith(":") and value == "")
    operator = rest.lstrip(":")[:1]
    if value is not None and not (empty and operator == "-"):
        if operator == "+" and not empty:
            start = opening + name.end() + len(rest) - len(rest.lstrip(":")) + 1
            return interpolated(whole.cut(start, len(whole.text) - 1), known, depth + 1)
        return whole.replaced(value)
    if operator == "-":
        start = opening + name.end() + len(rest) - len(rest.lstrip(":")) + 1
        return interpolated(whole.cut(start, len(whole.text) - 1), known, depth + 1)
    if operator == "+":
        return whole.cut(0, 0)
    return whole.marked(whole.text)


def _closing(text: str, at: int) -> int | None:
    """The offset behind the brace that closes the one before `at`."""
    depth = 1
    for index in range(at, len(text)):
        if text[index] == "{":
            depth += 1
        elif text[index] == "}":
            depth -= 1
            if depth == 0:
                return index + 1
    return None


def _gpu_count(service: Mapping) -> int | None:
    for device in service.items("deploy", "resources", "reservations", "devices"):
        if isinstance(device, Mapping):
            count = device.scalar("count")
            if count is not None and count.whole is not None:
                return count.whole
            ids = device.items("device_ids")
            if ids:
                return len(ids)
    gpus = service.get("gpus")
    if isinstance(gpus, Sequence):
        for device in gpus.items:
            count = device.scalar("count") if isinstance(device, Mapping) else None
            if count is not None:
                return count.whole
    return None
