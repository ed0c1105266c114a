"""From a launch as it was found to a Launch that can be planned, with what had to be assumed said in remarks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kvplan.errors import InputError
from kvplan.files import Ground
from kvplan.launch.build import from_arguments
from kvplan.launch.configfile import MAX_BYTES
from kvplan.launch.found import FoundLaunch, Unreadable
from kvplan.launch.hardware import default_hardware
from kvplan.launch.locations import Location, OriginKind
from kvplan.launch.options import Option, OptionTable, lifetime_of, table_of
from kvplan.launch.parser import EntryPoint
from kvplan.launch.passages import Passage, Source
from kvplan.launch.tokens import Token
from kvplan.launch.values import Hardware, Launch, Remark, Setting
from kvplan.releases import NEWEST, Release, resolve

VALUE_NOT_KNOWN = "value_not_known"
RELEASE_ASSUMED = "release_assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the operator says about everything that the files leave open."""

    release: str | None = None
    gpu: Hardware | None = None
    available_kv_memory: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    """Model paths in containers, and what they are."""


def parse_model_map(texts: Sequence[str]) -> dict[str, str]:
    """The values of `--model-map PATH=MODEL`; raises InputError for one that is none."""
    found: dict[str, str] = {}
    for text in texts:
        path, equals, model = text.rpartition("=")
        if not equals or not path.strip() or not model.strip():
            raise InputError(f"--model-map {text[:80]!r} is not a pair: write it like /models/glm=zai-org/GLM-5.2-FP8")
        found[_path(path.strip())] = model.strip()
    return found


def resolved(
    found: FoundLaunch, answers: Answers, base: Path | None = None, ground: Ground | None = None
) -> Launch | Unreadable:
    """The launch to plan, or why there is none. `base` is the directory of the file it stands in, `ground` what may be
    read on its word (by default nothing)."""
    around = found.around
    if around.platform is not None:
        return _unreadable(found, f"it runs on {around.platform}; only NVIDIA GPUs are emulated")
    try:
        release, remarks = _release(found, answers)
    except InputError as error:
        return _unreadable(found, str(error).removeprefix("--vllm-version "))
    words = [_answered(word, answers) for word in _own_words(found)]
    if found.entry is EntryPoint.SERVE and found.wrapper is None:
        unknown_model = _unknown_model(words, answers)
        if unknown_model is not None:
            return _unreadable(found, unknown_model[0], unknown_model[1])
    words, asked = _known(words, table_of(release))
    for flag, name, place in asked:
        if flag == "--model":
            return _unreadable(found, _ask_for_model(name), place)
    words, files, missing = _config(words, found, base, ground)
    remarks += [
        Remark(VALUE_NOT_KNOWN, flag or name, _ask(flag, name), place) for flag, name, place in (*asked, *missing)
    ]
    environment, more = _environment(found)
    tokens = [Token(word.text, OriginKind.FLAG, word.location) for word in _masked(words)]
    try:
        launch = from_arguments(
            tokens,
            EntryPoint.MODULE if found.wrapper is not None else found.entry,
            release=release,
            hardware=_hardware(found, answers),
            available_kv_memory=answers.available_kv_memory,
            environment={name: value.text for name, value in environment.items()},
            base=base,
            files=files,
            closed=True,
        )
    except InputError as error:
        return _unreadable(found, str(error))
    model = _model(launch.model or "", answers)
    if model is None:
        return _unreadable(found, _ask_for_path(launch.model or ""))
    placed = tuple(_placed(remark, environment) for remark in launch.remarks)
    draft = _draft(launch.settings)
    settings = launch.settings
    if draft is not None:
        setting, name = draft
        mapped = _model(name, answers)
        if mapped is None:
            return _unreadable(found, _ask_for_path(name), setting.location)
        settings = {**settings, setting.name: _naming(setting, mapped)}
    return replace(launch, model=model, settings=settings, offline=found.offline, remarks=(*placed, *remarks, *more))


def _draft(settings: Mapping[str, Setting]) -> tuple[Setting, str] | None:
    """The option that names a draft model, and the name."""
    whole, named = settings.get("speculative_config"), settings.get("spec_model")
    if whole is not None and isinstance(whole.value, Mapping) and isinstance(whole.value.get("model"), str):
        return whole, whole.value["model"]
    return (named, named.value) if named is not None and isinstance(named.value, str) else None


def _naming(setting: Setting, model: str) -> Setting:
    """The option with another name for the draft."""
    return replace(setting, value={**setting.value, "model": model} if isinstance(setting.value, Mapping) else model)


def _unreadable(found: FoundLaunch, reason: str, location: Location | None = None) -> Unreadable:
    around = found.around
    title = f"{around.kind} {around.name}".strip()
    return Unreadable(found.location.file, f"{title}: {reason}", location or found.location)


def _release(found: FoundLaunch, answers: Answers) -> tuple[Release, list[Remark]]:
    named = found.around.release or answers.release
    if named is not None:
        return resolve(named), []
    detail = f"{found.around.release_reason}; {NEWEST}, the newest known, is assumed"
    return resolve(NEWEST), [Remark(RELEASE_ASSUMED, "--vllm-version", detail, found.location)]


def _hardware(found: FoundLaunch, answers: Answers) -> Hardware:
    around = found.around
    hardware = around.gpu or answers.gpu or default_hardware()
    counts = [count for count in (around.count, _visible(around.environment.get("CUDA_VISIBLE_DEVICES"))) if count]
    return replace(hardware, count=min(counts)) if counts else hardware


def _visible(devices: Passage | None) -> int | None:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves."""
    if devices is None or devices.unknown or not re.fullmatch(r"[\w-]+(?:,[\w-]+)*", devices.text.strip()):
        return None
    return len(devices.text.split(","))


# Words that are not known


def _answered(word: Passage, answers: Answers) -> Passage:
    """The word with the operator's values in place of variables that the file leaves open."""
    left: list[tuple[int, str]] = []
    text = word.text
    for offset, name in word.unknown:
        value = answers.environment.get(_variable(name) or "")
        if value is None:
            left.append((offset, name))
        else:
            text = text.replace(name, value, 1)
    return word if text == word.text else Passage(text, word.file, word.runs, tuple(left))


def _unknown_model(words: Sequence[Passage], answers: Answers) -> tuple[str, Location] | None:
    """Why the model cannot be told: the positional is unknown, or everything is."""
    if not words or not words[0].unknown or words[0].text.startswith("-"):
        return None
    if _path(words[0].text) in answers.models:
        return None
    if any(_flag(word.text) == "--model" for word in words):
        return None
    return _ask_for_model(words[0].unknown[0][1]), words[0].location


def _ask_for_model(name: str) -> str:
    if name in ("$@", "$*", "${@}"):
        return "the arguments are those that the script is called with"
    variable = _variable(name)
    how = f"--env {variable}=…" if variable else f"--model-map '{name}=ORGANISATION/NAME'"
    return f"the model is {name}, which nothing here sets: give it with {how}"


def _ask_for_path(path: str) -> str:
    return f"the model is the path {path}: say which model lies there with --model-map {path}=ORGANISATION/NAME"


def _ask(flag: str | None, name: str) -> str:
    """What is not known, what was assumed, and behind the last semicolon how to give it."""
    variable = _variable(name)
    how = f"--env {variable}=…" if variable else "put the value in its place"
    if flag is None:
        return f"{name} may add options; none are assumed; {how}"
    if flag == "--config":
        return (
            f"the file {name} is not among what was scanned; its options are left out; scan it together with this file"
        )
    return f"{name} is not set here; vLLM's default is assumed; {how}"


_VARIABLE = re.compile(r"\$\{?\(?([A-Za-z_][A-Za-z0-9_]*)\)?(?:[:?+-].*)?\}?", re.ASCII | re.DOTALL)


def _variable(name: str) -> str | None:
    match = _VARIABLE.fullmatch(name)
    return None if match is None or (name.startswith("$(") and not name.endswith(")")) else match[1]


def _flag(text: str) -> str:
    return text.partition("=")[0].replace("_", "-")


def _is_flag(text: str) -> bool:
    return text.startswith("-") and len(text) > 1 and not text[1].isdigit()


Asked = tuple[str | None, str, Location]


def _known(words: Sequence[Passage], table: OptionTable) -> tuple[list[Passage], list[Asked]]:
    """The words without the options whose values are not known, and what to ask for."""
    kept: list[Passage] = []
    asked: list[Asked] = []
    position = 0
    while position < len(words):
        end = position + 1
        word = words[position]
        if _is_flag(word.text):
            option = _option(table, _flag(word.text))
            if "=" not in word.text and not word.unknown:
                end = _end_of_values(words, position, option)
            part = words[position:end]
            unknown = next((piece for piece in part if piece.unknown), None)
            if unknown is None:
                kept += part
            else:
                flag = _flag(word.text) if not word.unknown or "=" in word.text[: word.unknown[0][0]] else None
                if option is None or option.matters or flag is None:
                    asked.append((flag, unknown.unknown[0][1], unknown.location))
        elif word.unknown and kept:
            asked.append((None, word.unknown[0][1], word.location))
        else:
            kept.append(word)
        position = end
    return kept, asked


def _option(table: OptionTable, flag: str) -> Option | None:
    return table.by_flag.get(flag)


def _end_of_values(words: Sequence[Passage], position: int, option: Option | None) -> int:
    """The index behind the values of the option at `position`."""
    if option is not None and not option.takes_value:
        return position + 1
    end = position + 1
    most = len(words) if option is not None and option.is_list else end + 1
    while end < min(most, len(words)) and not _is_flag(words[end].text):
        if words[end].unknown and end > position + 1:
            # `--list 0 1 $EXTRA`: what follows known values is as likely to be further options.
            break
        end += 1
    return end


# What is kept apart


def _own_words(found: FoundLaunch) -> list[Passage]:
    """vLLM's words among those of a wrapper; all of them where there is none."""
    if found.wrapper is None:
        return list(found.words)
    kept: list[Passage] = []
    taking = True
    for word in found.words:
        if _is_flag(word.text):
            flag = _flag(word.text)
            if flag in ("--model-id", "--model-dir"):
                _, equals, _ = word.text.partition("=")
                kept.append(word.replaced("--model" + word.text[len(flag) :] if equals else "--model"))
                taking = True
                continue
            lifetime = lifetime_of(flag)
            taking = lifetime is not None
        if taking:
            kept.append(word)
    return kept


def _config(
    words: list[Passage], found: FoundLaunch, base: Path | None, ground: Ground | None
) -> tuple[list[Passage], Mapping[str, Passage], list[Asked]]:
    """The words with the text of the file behind `--config`, or without it where that is not at hand."""
    files = found.around.files
    if sum(word.text == "--config" for word in words) > 1:
        # vLLM refuses that before it reads one of them.
        return words, files, []
    for index, word in enumerate(words[:-1]):
        if word.text != "--config":
            continue
        path = words[index + 1]
        if path.text in files:
            return words, files, []
        beside = _beside(path.text, base, ground)
        if beside is not None:
            return words, {path.text: beside}, []
        return [*words[:index], *words[index + 2 :]], files, [("--config", path.text, path.location)]
    return words, files, []


def _beside(path: str, base: Path | None, ground: Ground | None) -> Passage | None:
    """The text that a relative path leads to from the file that names it."""
    if base is None or ground is None or path.startswith(("/", "~")):
        return None
    text = ground.read(base / path, MAX_BYTES)
    return None if text is None else Source(str(base / path), text).passage()


_SECRET_FLAG = re.compile(r"--(?:api-key|.*token|.*password|.*secret)", re.ASCII)
_SECRET_WORD = re.compile(r"(?:hf_|sk-|nvapi-|ghp_|github_pat_|AKIA)[A-Za-z0-9_-]{8,}", re.ASCII)


def _masked(words: Sequence[Passage]) -> list[Passage]:
    """The words without what must not be repeated."""
    kept: list[Passage] = []
    hide = False
    for word in words:
        flag = _flag(word.text)
        if _is_flag(word.text):
            hide = _SECRET_FLAG.fullmatch(flag) is not None and flag != "--hf-token-file"
            kept.append(word.replaced(f"{flag}=***") if hide and "=" in word.text else word)
        else:
            kept.append(word.replaced("***") if hide or _SECRET_WORD.search(word.text) else word)
    return kept


def _environment(found: FoundLaunch) -> tuple[dict[str, Passage], list[Remark]]:
    """vLLM's variables among those of the launch."""
    kept: dict[str, Passage] = {}
    remarks: list[Remark] = []
    for name, value in found.around.environment.items():
        if not name.startswith("VLLM_") or "KEY" in name or "TOKEN" in name:
            continue
        if value.unknown:
            detail = f"{name} is set to {value.unknown[0][1]}, which is not known here; it is left out; --env {name}=…"
            remarks.append(Remark(VALUE_NOT_KNOWN, name, detail, value.location))
        else:
            kept[name] = value
    return kept, remarks


def _placed(remark: Remark, environment: Mapping[str, Passage]) -> Remark:
    """The remark with the place of the variable that it is about."""
    value = environment.get(remark.option)
    return remark if value is None or remark.location is not None else replace(remark, location=value.location)


# The model

_ELSEWHERE = re.compile(r"(?:/|\.{1,2}/|~|[a-z0-9]+://)", re.ASCII)


def _path(text: str) -> str:
    return text.rstrip("/") or text


def _model(reference: str, answers: Answers) -> str | None:
    """The model that the operator says it is, the reference itself, or None where that is a path of the container."""
    mapped = answers.models.get(_path(reference))
    if mapped is not None:
        return mapped
    if reference.startswith("hf://"):
        return reference.removeprefix("hf://")
    # `-` would be standard input to kvplan, and a way up the directories a file of this machine.
    if not reference.strip() or reference == "-" or ".." in reference.split("/") or _ELSEWHERE.match(reference):
        return None
    return reference
