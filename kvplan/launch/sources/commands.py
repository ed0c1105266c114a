"""Commands: which of them start vLLM's server, directly or through a shell, a container or another program."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from kvplan.files import Ground
from kvplan.launch import prefixes
from kvplan.launch.command import PYTHON
from kvplan.launch.environment import split_assignment
from kvplan.launch.found import Found, FoundLaunch, Surroundings, Unreadable
from kvplan.launch.options import all_flags
from kvplan.launch.parser import EntryPoint
from kvplan.launch.passages import Passage, join
from kvplan.launch.sources import images
from kvplan.launch.sources.shelltext import MAX_COMMANDS, Command, Script, Unparsed

MARKER = re.compile(
    r"\bvllm['\",\s]+serve\b|vllm\.entrypoints|dynamo\.vllm|vllm/vllm-openai|python\S{0,60} -m vllm\b", re.ASCII
)
"""What a text that starts vLLM holds."""

_MANIFEST = re.compile(r"(?m)^(?:apiVersion|services):", re.ASCII)

MAX_NESTING = 8

ConfigMaps = Mapping[str, dict[str, Passage]]
"""ConfigMaps by name: their contents by key."""

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh"})
# fmt: off
_TALKERS = frozenset(
    (
        "echo",
        "printf",
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "pgrep",
        "pkill",
        "cat",
        "which",
        "type",
        "man",
        "alias",
        "sed",
        "awk",
        "tee",
        "test",
        "[",
        "[[",
        "export",
        "true",
        ":",
        "ps",
        "kill",
        "killall",
        "git",
        "helm",
        "apt",
        "apt-get",
        "yum",
        "pip-audit",
        "docker-compose",
        "touch",
        "rm",
        "mkdir",
        "ls",
        "cd",
        "curl",
        "wget",
    )
)
# fmt: on
"""Programs whose words are no command, whatever they hold."""
_MODULES: Mapping[str, EntryPoint] = {
    "vllm.entrypoints.openai.api_server": EntryPoint.MODULE,
    "vllm.entrypoints.api_server": EntryPoint.MODULE,
    "vllm.entrypoints.launcher": EntryPoint.MODULE,
    "vllm.entrypoints.cli.main": EntryPoint.SERVE,
    "vllm": EntryPoint.SERVE,
}
_WRAPPERS: Mapping[str, str] = {
    "dynamo.vllm": "dynamo.vllm",
    "huggingfaceserver": "huggingfaceserver",
}
"""Modules that take vLLM's engine options among their own."""
_OTHER_COMMANDS = frozenset({"bench", "chat", "complete", "collect-env", "run-batch", "--version", "-v", "--help"})
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
_FRONT = 6
"""Words among which the program is looked for that another one starts."""
_IDLE = frozenset({"sleep", "tail", "true", "nvidia-smi", "ray", "curl", "wget", "nginx", "date", "ls", "env"})
"""Programs that a container may run in place of vLLM and that do not start it."""


_NODE_SCRIPTS = frozenset({"multi-node-serving.sh", "run_cluster.sh"})
"""Scripts of vLLM's images that join a Ray cluster and start nothing."""


def surely_vllm(words: Sequence[Passage]) -> bool:
    """Whether bare arguments are vLLM's: a model and an option that only vLLM has."""
    flags = {_flag(word.text) for word in words}
    return "--model" in flags and not flags.isdisjoint(_telling())


def _telling() -> frozenset[str]:
    """Options that belong to vLLM rather than to any server of models."""
    wanted = (
        "--gpu-memory-utilization",
        "--kv-cache-dtype",
        "--max-model-len",
        "--tensor-parallel-size",
        "--pipeline-parallel-size",
        "--enable-prefix-caching",
        "--max-num-seqs",
        "--max-num-batched-tokens",
        "--served-model-name",
        "--enforce-eager",
        "--kv-transfer-config",
    )
    return frozenset(wanted) & frozenset(all_flags())


@dataclass(frozen=True, slots=True)
class Reader:
    """What it takes to follow commands: what stands around them, and the operator's answers."""

    around: Surroundings
    answers: Mapping[str, str] = field(default_factory=dict)
    nested_yaml: Callable[[Passage], Iterator[Found]] | None = None
    """Reads manifests that a script hands to kubectl."""
    depth: int = 0
    maps: ConfigMaps = field(default_factory=dict)
    """ConfigMaps of files beside this one."""
    ground: Ground | None = None
    """What may be read on this file's word; None for nothing."""

    def within(self, around: Surroundings) -> Reader:
        """The same reader with other surroundings, one level deeper."""
        return replace(self, around=around, depth=self.depth + 1)

    def deeper(self) -> Reader:
        """The same reader one level deeper."""
        return replace(self, depth=self.depth + 1)

    # Whole texts

    def shell(self, text: Passage, script: Script | None = None) -> Iterator[Found]:
        """Every launch of a shell text."""
        if script is None:
            script = self._called(())
            # What a script file is called with is its caller's business.
            del script.variables["@"]
        if self.depth > MAX_NESTING:
            yield Unreadable(text.file, "commands within commands are nested too deeply", text.location)
            return
        reader = self
        broken: list[Passage] = []
        launches = 0
        for command in script.commands(text):
            if isinstance(command, Unparsed):
                broken.append(command.passage)
                continue
            pinned = _pinned(command)
            if pinned is not None:
                around = replace(reader.around, release=pinned, release_reason="")
                reader = replace(reader, around=around)
                continue
            for found in reader.command(command):
                launches += 1
                yield found
        if script.budget[0] <= 0:
            yield Unreadable(
                text.file, f"more than {MAX_COMMANDS:,} commands: the rest was not followed", text.location
            )
        marked = [passage for passage in broken if MARKER.search(passage.text)]
        if marked and not launches:
            yield Unreadable(text.file, "the shell text around this launch has a syntax error", marked[0].location)

    def command(self, command: Command) -> Iterator[Found]:
        """Every launch of one command of a script."""
        around = self.around
        environment = {**around.environment, **command.environment}
        reader = replace(self, around=replace(around, environment=environment))
        yield from reader.words(command.words, command.script)
        if command.heredoc is not None:
            yield from reader.heredoc(command)

    def heredoc(self, command: Command) -> Iterator[Found]:
        """Launches in the text that a command is fed with."""
        text, program = command.heredoc, PurePosixPath(command.words[0].text).name
        if text is None or not (MARKER.search(text.text) or _MANIFEST.search(text.text)):
            return
        if (
            _MANIFEST.search(text.text)
            or program in ("kubectl", "oc")
            or (command.target or "").endswith((".yaml", ".yml"))
        ):
            if self.nested_yaml is not None:
                yield from self.nested_yaml(text)
        elif program in _SHELLS or program == "ssh" or (command.target or "").endswith((".sh", ".bash")):
            yield from self.deeper().shell(text)

    # Words

    def words(self, words: Sequence[Passage], script: Script | None = None) -> Iterator[Found]:
        """Every launch that these words start."""
        rest, assigned = prefixes.strip(words, split=Passage.split)
        if not rest or self.depth > MAX_NESTING:
            return
        reader = self
        if assigned:
            values = {name: word.cut(len(name) + 1, len(word.text)) for name, word in assigned.items()}
            around = replace(self.around, environment={**self.around.environment, **values})
            reader = replace(self, around=around)
        yield from reader._program(rest, script)

    def _program(self, words: list[Passage], script: Script | None) -> Iterator[Found]:
        program = PurePosixPath(words[0].text).name
        if program in _TALKERS:
            return
        if program in _SHELLS:
            yield from self._shell_program(words)
            return
        if program == "eval":
            if len(words) > 1:
                yield from self.deeper().shell(join(words[1:], " "), script)
            return
        for index, word in enumerate(words[:-1][:_FRONT]):
            # Behind sudo, timeout, srun and the like too.
            if PurePosixPath(word.text).name in _CONTAINERS:
                yield from _container_command(self, words[index:])
                return
        if words[0].text in self.around.files:
            yield from self.deeper().shell(self.around.files[words[0].text], self._called(words))
            return
        start = self._start(words)
        if start is not None:
            yield start
            return
        for word in words[1:]:
            # ssh, tmux, su, srun, supervisors: a word that is itself a command line.
            if " " in word.text.strip() and MARKER.search(word.text):
                yield from self.deeper().shell(word, None if script is None else script.copy())

    def _start(self, words: Sequence[Passage]) -> Found | None:
        """The launch, where the words (perhaps behind another program's) start vLLM."""
        for index, word in enumerate(words):
            program = PurePosixPath(word.text).name
            following = words[index + 1].text if index + 1 < len(words) else ""
            if program == "vllm" and "=" not in word.text:
                if following == "serve":
                    return self._launch(EntryPoint.SERVE, words[index + 2 :], word, words[:index])
                if index == 0 and words[1:2] and words[1].unknown:
                    return Unreadable(
                        word.file, f"what vllm is to do depends on {words[1].unknown[0][1]}", words[1].location
                    )
                if index == 0 and following not in _OTHER_COMMANDS and following:
                    return None
            if word.text == "-m" or (word.text.startswith("-m") and word.text[2:] in {*_MODULES, *_WRAPPERS}):
                module = following if word.text == "-m" else word.text[2:]
                rest = words[index + (2 if word.text == "-m" else 1) :]
                if module in _WRAPPERS:
                    return self._launch(EntryPoint.SERVE, rest, word, words[:index], _WRAPPERS[module])
                entry = _MODULES.get(module)
                if entry is EntryPoint.MODULE:
                    return self._launch(entry, rest, word, words[:index])
                if entry is EntryPoint.SERVE and rest and rest[0].text == "serve":
                    return self._launch(entry, rest[1:], word, words[:index])
            if word.text.endswith("vllm/entrypoints/openai/api_server.py"):
                return self._launch(EntryPoint.MODULE, words[index + 1 :], word, words[:index])
        return None

    def _launch(
        self,
        entry: EntryPoint,
        words: Sequence[Passage],
        at: Passage,
        before: Sequence[Passage],
        wrapper: str | None = None,
    ) -> FoundLaunch:
        around = self.around
        for word in before:
            # `uv run --with vllm==0.25.1 vllm serve`
            pinned = images.required(word.text)
            flag, _, value = word.text.partition("=")
            if flag == "--container-image":
                # Slurm's containers.
                pinned = images.read(value.replace("#", "/")).release or pinned
            if pinned is not None:
                around = replace(around, release=pinned, release_reason="")
        first = before[0] if before and PurePosixPath(before[0].text).name != "env" else at
        return FoundLaunch(entry=entry, words=tuple(words), location=first.location, around=around, wrapper=wrapper)

    def _shell_program(self, words: list[Passage]) -> Iterator[Found]:
        """`bash -lc TEXT [$0 $1 …]`, or a script file that is not at hand."""
        index = 1
        while index < len(words) and words[index].text.startswith(("-", "+")):
            flag = words[index].text
            if not flag.startswith("--") and "c" in flag:
                if index + 1 < len(words):
                    yield from self.deeper().shell(words[index + 1], self._called(words[index + 2 :]))
                return
            index += 2 if flag in ("-o", "-O", "+o", "--rcfile") else 1
        text = self.around.files.get(words[index].text) if index < len(words) else None
        if text is not None:
            yield from self.deeper().shell(text, self._called(words[index:]))

    def _called(self, words: Sequence[Passage]) -> Script:
        """The state of a shell that is called with these words, `$0` first."""
        visible = {name: value for name, value in self.around.environment.items() if not _is_hidden(value)}
        script = Script(dict(visible), set(visible), self.answers)
        for position, word in enumerate(words):
            script.variables[str(position)] = word
        script.variables["@"] = tuple(words[1:])
        return script


def _is_hidden(value: Passage) -> bool:
    return bool(value.unknown)


def _flag(text: str) -> str:
    return text.partition("=")[0].replace("_", "-")


def _pinned(command: Command) -> str | None:
    """The vLLM release that a `pip install` command installs."""
    texts = [word.text for word in command.words]
    if "install" not in texts or not any("pip" in PurePosixPath(text).name for text in texts[:5]):
        return None
    return next((found for found in map(images.required, texts) if found is not None), None)


# Containers


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container as any format describes it."""

    image: Passage | None
    command: tuple[Passage, ...] | None = None
    """What replaces the image's entry point; None keeps it."""
    arguments: tuple[Passage, ...] = ()
    location: Passage
    """Where the container begins."""


def container_launches(reader: Reader, container: Container) -> Iterator[Found]:
    """The launches of a container: its words, or its image's own entry point with the arguments."""
    image = images.read(_image_text(container.image))
    around = reader.around
    if container.image is not None and container.image.unknown:
        image = replace(image, release=None, reason=f"the image depends on {container.image.unknown[0][1]}")
    if image.release is not None or around.release is None:
        around = replace(around, release=image.release, release_reason=image.reason)
    if image.platform is not None and (image.serves or around.platform is None):
        around = replace(around, platform=image.platform if image.serves else around.platform)
    inner = replace(reader, around=around)
    if container.command is None:
        yield from _at_entry_point(inner, container, image)
        return
    if container.command[:1] and container.command[0].text.startswith("-") and image.serves:
        # Formats after Docker's fashion call the arguments the command.
        whole = replace(container, command=None, arguments=(*container.command, *container.arguments))
        yield from _at_entry_point(inner, whole, image)
        return
    words = (*container.command, *container.arguments)
    found = list(inner.words(words))
    yield from found
    if found or not image.serves or not words:
        return
    unfollowed = _unfollowed(words)
    if unfollowed is not None:
        yield Unreadable(words[0].file, f"{_titled(around)}: {unfollowed}", words[0].location)


def _image_text(image: Passage | None) -> str:
    return "" if image is None else image.text


def _titled(around: Surroundings) -> str:
    return f"{around.kind} {around.name}".strip()


def _at_entry_point(reader: Reader, container: Container, image: images.Image) -> Iterator[Found]:
    """Arguments without a command."""
    words = container.arguments
    if image.serves or surely_vllm(words):
        if words and PurePosixPath(words[0].text).name in _SHELLS | {"vllm", "python", "python3"}:
            # Left to the entry point, which would take the program for a model: images with a shell entry point
            # run it, and vLLM's own would not start.
            found = list(reader.words(words))
            if found:
                yield from found
                return
        around = reader.around
        location = words[0].location if words else container.location.location
        if words and words[0].text.split()[:1] in (["serve"], ["vllm"]):
            reason = f"the image's entry point is `vllm serve`, which takes {_brief(words[0].text)!r} for the model"
            yield Unreadable(words[0].file, f"{_titled(around)}: {reason}", location)
            return
        if "dynamo" in image.name or "huggingfaceserver" in image.name:
            return
        yield FoundLaunch(entry=EntryPoint.SERVE, words=words, location=location, around=around)
        return
    yield from reader.words(words)


def _unfollowed(words: Sequence[Passage]) -> str | None:
    """Why the command of a vLLM image cannot be followed, None where it plainly starts something else."""
    program = PurePosixPath(words[0].text).name
    given = [word.text for word in words[1:] if not word.text.startswith("-")]
    if words[0].unknown:
        return f"the command depends on {words[0].unknown[0][1]}"
    if program in _IDLE or program in _TALKERS or program == "vllm":
        return None
    if program in _SHELLS:
        return _unfollowed_shell(words, given)
    if PYTHON.fullmatch(program):
        other = not given or given[0].startswith("dynamo.") or (_is_text(words) and "vllm" not in given[0])
        return None if other else f"the command runs Python code that is not at hand: {_brief(given[0])}"
    return f"the command starts {_brief(words[0].text)}, which is not at hand"


def _unfollowed_shell(words: Sequence[Passage], given: Sequence[str]) -> str | None:
    if not given:
        return None
    if not _is_text(words):
        return f"the command runs a script that is not at hand: {_brief(given[0])}"
    pieces = [PurePosixPath(piece.strip(";&'\"")) for piece in given[0].split()]
    runs = [piece for piece in pieces if piece.suffix in (".sh", ".py", ".bash") and piece.name not in _NODE_SCRIPTS]
    return f"the command runs a script that is not at hand: {_brief(given[0])}" if runs else None


def _is_text(words: Sequence[Passage]) -> bool:
    """Whether the program is given its code as a word (`-c`, `-lc`)."""
    return any(word.text.startswith("-") and not word.text.startswith("--") and "c" in word.text for word in words[1:3])


def _brief(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else f"{flat[:57]}…"


# fmt: off
_BARE = frozenset(
    (
        "--rm",
        "--init",
        "--detach",
        "--interactive",
        "--tty",
        "--privileged",
        "--read-only",
        "--publish-all",
        "--no-healthcheck",
        "--quiet",
        "--oom-kill-disable",
        "--sig-proxy",
        "--disable-content-trust",
        "--replace",
        "--tls-verify",
        "--no-hosts",
        "--rmi",
        "--systemd",
    )
)
# fmt: on
_BARE_LETTERS = frozenset("itdPq")


def _container_command(reader: Reader, words: list[Passage]) -> Iterator[Found]:
    """`docker run [options] IMAGE [arguments]`."""
    index = 1
    while index < len(words) and words[index].text not in ("run", "create"):
        if words[index].text in ("compose", "exec", "build", "pull", "push", "stop", "logs", "ps", "rm", "service"):
            if words[index].text == "exec":
                yield from _after_exec(reader, words[index + 1 :])
            return
        index += 1
    index += 1
    environment: dict[str, Passage] = {}
    entry: tuple[Passage, ...] | None = None
    around = replace(reader.around, kind=f"{PurePosixPath(words[0].text).name} run")
    while index < len(words) and words[index].text.startswith("-"):
        word = words[index]
        flag, equals, _ = word.text.partition("=")
        value: Passage | None = None
        if equals:
            value = word.cut(len(flag) + 1, len(word.text))
        elif flag in _BARE or (not flag.startswith("--") and set(flag[1:]) <= _BARE_LETTERS):
            pass
        elif not flag.startswith("--") and len(flag) > 2 and flag[1] not in _BARE_LETTERS:
            value, flag = word.cut(2, len(word.text)), flag[:2]
        elif index + 1 < len(words):
            index += 1
            value = words[index]
        index += 1
        if value is None:
            continue
        if flag in ("-e", "--env"):
            pair = split_assignment(value.text)
            if pair is not None:
                environment[pair[0]] = value.cut(len(pair[0]) + 1, len(value.text))
            elif value.text in reader.around.environment:
                environment[value.text] = reader.around.environment[value.text]
        elif flag == "--entrypoint":
            entry = (value,) if value.text else ()
        elif flag == "--name":
            around = replace(around, name=value.text)
        elif flag == "--gpus":
            around = replace(around, count=_device_count(value.text))
    if index >= len(words):
        return
    image = words[index]
    around = replace(around, environment=environment)
    container = Container(image=image, command=entry, arguments=tuple(words[index + 1 :]), location=words[0])
    yield from container_launches(reader.within(around), container)


def _after_exec(reader: Reader, words: Sequence[Passage]) -> Iterator[Found]:
    """`docker exec [options] NAME COMMAND …`."""
    for index, word in enumerate(words):
        if PurePosixPath(word.text).name in _SHELLS | {"vllm", "python", "python3"}:
            yield from reader.deeper().words(words[index:])
            return


def _device_count(text: str) -> int | None:
    """`--gpus 2`, `--gpus '"device=0,1"'`, `--gpus count=2`; `all` says nothing."""
    plain = text.strip("\"'")
    if plain.isdigit():
        return int(plain)
    devices = re.search(r"device=([\w,:-]+)", plain)
    if devices:
        return len(devices[1].split(","))
    count = re.search(r"count=(\d{1,4})", plain)
    return int(count[1]) if count else None


def json_words(text: Passage) -> tuple[Passage, ...] | None:
    """The strings of a JSON array (`["vllm", "serve"]`), None where it is none."""
    try:
        values = json.loads(text.text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return None
    found, at = [], 0
    for value in values:
        written = json.dumps(value, ensure_ascii=False)
        start = text.text.find(written, at)
        if start < 0:
            found.append(text.replaced(value))
            continue
        if "\\" in written:
            found.append(text.cut(start + 1, start + 2).replaced(value))
        else:
            found.append(text.cut(start + 1, start + len(written) - 1))
        at = start + len(written)
    return tuple(found)
