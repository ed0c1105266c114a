"""From words to a Launch: literal vLLM commands, bare argument lists, and kvplan's own options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kvplan.errors import InputError
from kvplan.launch.command import split_command
from kvplan.launch.environment import remarks_on
from kvplan.launch.hardware import default_hardware
from kvplan.launch.locations import Location
from kvplan.launch.options import Option, all_flags, default_of, lifetime_of, table_of
from kvplan.launch.parser import AMBIGUOUS, EntryPoint, Parsed, parse
from kvplan.launch.passages import Passage
from kvplan.launch.tokens import Token, tokens_of
from kvplan.launch.values import Hardware, Launch, Refusal, Remark, Setting
from kvplan.launch.written import Written
from kvplan.releases import Release

SKIP_LAYERS = "--skip-layers"
VLLM_SKIP_LAYERS = "--kv-cache-dtype-skip-layers"
MAX_SKIPPED = 10_000

_SKIP_RANGE = re.compile(r"(\d{1,6})-(\d{1,6})", re.ASCII)
_SKIP_WORD = re.compile(r"\d[\d,-]*", re.ASCII)


def from_command(
    words: Sequence[str],
    *,
    release: Release,
    hardware: Hardware | None = None,
    available_kv_memory: int | None = None,
    environment: Mapping[str, str] | None = None,
    locations: Sequence[Location | None] | None = None,
    base: Path | None = None,
) -> Launch:
    """A literal command, `[VLLM_X=1] vllm serve MODEL …` or the module form, parsed as vLLM parses it.

    `environment` is what was given beside the command (`--env`, a manifest); assignments in the command itself
    override it. `locations` tells where each word stands in a file, `base` where a relative `--config` file lies.
    Raises InputError where the command does not start vLLM's server.
    """
    command = split_command(tokens_of(words, locations))
    return from_arguments(
        command.arguments,
        command.entry,
        release=release,
        hardware=hardware,
        available_kv_memory=available_kv_memory,
        environment={**(environment or {}), **command.environment},
        base=base,
    )


def from_arguments(
    arguments: Sequence[Token],
    entry: EntryPoint,
    *,
    release: Release,
    hardware: Hardware | None = None,
    available_kv_memory: int | None = None,
    environment: Mapping[str, str] | None = None,
    base: Path | None = None,
    files: Mapping[str, Passage] | None = None,
    closed: bool = False,
) -> Launch:
    """A literal argument list without the program in front, as container manifests have it.

    `files` are contents of files by the path that `--config` names, before any file of that path; `closed` says that
    there are no others.
    """
    written = Written(tuple(arguments), entry, base, files, closed)
    parsed = _read(written, release)
    model, remarks = _literal_model(parsed, release, entry)
    return _launch(
        parsed,
        written,
        model,
        remarks,
        release=release,
        hardware=hardware,
        available_kv_memory=available_kv_memory,
        environment=environment or {},
        literal=True,
    )


def from_options(
    model: str | None,
    words: Sequence[str],
    *,
    release: Release,
    hardware: Hardware | None = None,
    available_kv_memory: int | None = None,
    environment: Mapping[str, str] | None = None,
    own_flags: Sequence[str] = (),
    base: Path | None = None,
) -> Launch:
    """kvplan's own command line: the model, and the words that are vLLM's options or `--skip-layers`.

    The model may also be the positional argument among `words`. `own_flags` are the flags of the kvplan command,
    to suggest one for a misspelt option. Raises InputError for what is a mistake in using kvplan: no model, a
    second one, an option that no release of vLLM has; what a release refuses is in the Launch.
    """
    if "--" in words:
        raise InputError("a literal command after -- cannot be combined with options for kvplan's own model argument")
    rest, skipped = _take_skip_layers(words)
    tokens = tokens_of([*([] if model is None else [model]), *rest, *skipped])
    written = Written(tuple(tokens), EntryPoint.SERVE, base)
    parsed = _read(written, release)
    for extra in parsed.extras:
        _refuse_unusable(extra, own_flags)
    for refusal in parsed.refusals:
        if refusal.message.startswith(AMBIGUOUS):
            raise InputError(f"{refusal.message}: write the option out")
    if parsed.strays:
        raise InputError(f"unexpected argument {parsed.strays[0].text[:80]!r}: kvplan takes one model, and options")
    if parsed.model_tag is not None:
        named = parsed.model_tag.text
    elif "model" in parsed.settings:
        named = str(parsed.settings["model"].value)
    else:
        raise InputError(_no_model(parsed, release))
    if skipped and "kv_cache_dtype_skip_layers" in parsed.settings:
        setting = parsed.settings["kv_cache_dtype_skip_layers"]
        parsed.settings[setting.name] = replace(setting, spelled=SKIP_LAYERS)
    return _launch(
        parsed,
        written,
        named,
        [],
        release=release,
        hardware=hardware,
        available_kv_memory=available_kv_memory,
        environment=environment or {},
        literal=False,
    )


def expand_skip_layers(text: str) -> list[str]:
    """The layers named by a value of `--skip-layers`: `0,1,5-7` is 0, 1, 5, 6, 7; other words stay as they are."""
    found: list[str] = []
    for part in (piece.strip() for piece in text.split(",")):
        span = _SKIP_RANGE.fullmatch(part)
        if part == "" or part.startswith("-"):
            raise InputError(f"{SKIP_LAYERS} {text[:80]!r}: give layers like 0,1 or ranges like 0-3")
        if span is None:
            found.append(part)
            continue
        first, last = int(span[1]), int(span[2])
        if last < first:
            raise InputError(f"{SKIP_LAYERS} {text[:80]!r}: the range {part} runs backwards")
        if last - first >= MAX_SKIPPED:
            raise InputError(f"{SKIP_LAYERS} {text[:80]!r}: the range {part} is longer than {MAX_SKIPPED} layers")
        found += [str(layer) for layer in range(first, last + 1)]
    return found


def _take_skip_layers(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split off `--skip-layers` and write it as vLLM's option, to stand last so that it swallows nothing."""
    rest: list[str] = []
    layers: list[str] = []
    index = 0
    while index < len(words):
        name, equals, value = words[index].partition("=")
        index += 1
        if name.replace("_", "-") != SKIP_LAYERS:
            rest.append(words[index - 1])
            continue
        if not equals:
            if index == len(words) or words[index].startswith("--"):
                raise InputError(f"{SKIP_LAYERS} needs a value: layers like 0,1 or ranges like 0-3")
            value = words[index]
            index += 1
        layers += expand_skip_layers(value)
        while not equals and index < len(words) and _SKIP_WORD.fullmatch(words[index]):
            layers += expand_skip_layers(words[index])
            index += 1
    if layers and any(word.partition("=")[0].replace("_", "-") == VLLM_SKIP_LAYERS for word in rest):
        raise InputError(f"give either {SKIP_LAYERS} or {VLLM_SKIP_LAYERS}, not both")
    return rest, [VLLM_SKIP_LAYERS, *layers] if layers else []


def _refuse_unusable(extra: Token, own_flags: Sequence[str]) -> None:
    """An extra word is kvplan's own business unless some release knows it as an option."""
    if not extra.text.startswith("-"):
        # The values of an option that this release does not have are left over with it.
        return
    flag = extra.text.partition("=")[0]
    if lifetime_of(flag) is not None:
        return
    import difflib

    known = {*own_flags, SKIP_LAYERS, *all_flags()}
    near = difflib.get_close_matches(flag[:60], sorted(known), n=3, cutoff=0.7)
    hint = f"did you mean {' or '.join(near)}?" if near else "see kvplan check --help"
    raise InputError(f"no such option: {flag[:80]}; neither kvplan nor any vLLM release it knows has it; {hint}")


def _no_model(parsed: Parsed, release: Release) -> str:
    swallowed = _swallowed(parsed, release)
    if swallowed is None:
        return "no model given: name one from the catalog, a config.json, a directory or a Hub id"
    option, word = swallowed
    return (
        f"no model given: {option.flag} takes every word up to the next option, {word[:80]!r} too; put the model first"
    )


def _literal_model(parsed: Parsed, release: Release, entry: EntryPoint) -> tuple[str, list[Remark]]:
    """The model that vLLM would serve, with remarks on how it came to be that one."""
    setting = parsed.settings.get("model")
    if entry is EntryPoint.SERVE and parsed.model_tag is not None:
        return parsed.model_tag.text, []
    remarks: list[Remark] = []
    if parsed.model_tag is not None:
        detail = f"the module form reads the model from --model only; {parsed.model_tag.text!r} has no effect"
        remarks.append(Remark("positional_ignored", parsed.model_tag.text, detail, parsed.model_tag.location))
    if setting is not None:
        return str(setting.value), remarks
    default = str(default_of("model", release))
    swallowed = _swallowed(parsed, release)
    if swallowed is not None:
        option, word = swallowed
        detail = f"{option.flag} took {word!r} as one of its values, so vLLM would serve its default model {default}"
        location = parsed.settings[option.name].location
        remarks.append(Remark("positional_swallowed", option.flag, detail, location))
    else:
        remarks.append(Remark("default_model", "model", f"no model is named, so vLLM would serve {default}"))
    return default, remarks


def _swallowed(parsed: Parsed, release: Release) -> tuple[Option, str] | None:
    """The list option that took what looks like the model for its last value, and that value."""
    table = table_of(release)
    candidates = []
    for setting in parsed.settings.values():
        option = table.by_name[setting.name]
        if not option.is_list or not isinstance(setting.value, list) or len(setting.value) == 0:
            continue
        last = setting.value[-1]
        if isinstance(last, str) and _looks_like_model(option, last):
            candidates.append((option, last))
    return max(candidates, key=lambda pair: "/" in pair[1], default=None)


def _looks_like_model(option: Option, word: str) -> bool:
    if option.name == "kv_cache_dtype_skip_layers":
        return any(letter.isalpha() for letter in word) and word != "sliding_window"
    return "/" in word


def reread(launch: Launch, release: Release) -> Launch:
    """The words of `launch` as the parser of `release` reads them, with its environment and hardware.

    Raises InputError where a file that they name can no longer be read.
    """
    assert launch.written is not None
    parsed = _read(launch.written, release)
    model, remarks = launch.model or "", list[Remark]()
    if launch.literal:
        model, remarks = _literal_model(parsed, release, EntryPoint(launch.written.entry))
    return _launch(
        parsed,
        launch.written,
        model,
        remarks,
        release=release,
        hardware=launch.hardware,
        available_kv_memory=launch.available_kv_memory,
        environment=launch.environment,
        literal=launch.literal,
    )


def _read(written: Written, release: Release) -> Parsed:
    return parse(
        written.arguments, release, EntryPoint(written.entry), written.base, written.files, closed=written.closed
    )


def _launch(
    parsed: Parsed,
    written: Written,
    model: str,
    remarks: Sequence[Remark],
    *,
    release: Release,
    hardware: Hardware | None,
    available_kv_memory: int | None,
    environment: Mapping[str, str],
    literal: bool,
) -> Launch:
    table = table_of(release)
    unread = _unread_config(parsed.settings.get("config"))
    about_environment = remarks_on(environment, release)
    refusals = list(parsed.refusals)
    strict = parsed.settings.get("fail_on_environ_validation")
    if strict is not None and strict.value:
        refusals += [
            Refusal(remark.option, f"Unknown vLLM environment variable detected: {remark.option}", "ValueError")
            for remark in about_environment
        ]
    return Launch(
        model=model,
        release=release,
        hardware=hardware or default_hardware(),
        settings={name: setting for name, setting in parsed.settings.items() if table.by_name[name].kept},
        environment=dict(environment),
        accepted=tuple(
            setting.spelled or name for name, setting in parsed.settings.items() if not table.by_name[name].kept
        ),
        refusals=tuple(refusals),
        remarks=(*parsed.remarks, *remarks, *unread, *about_environment),
        available_kv_memory=available_kv_memory,
        literal=literal,
        written=written,
    )


def _unread_config(setting: Setting | None) -> list[Remark]:
    """vLLM reads a config file only from `--config FILE` as two words; `--config=FILE` it takes and ignores."""
    if setting is None:
        return []
    detail = f"vLLM reads the file only when it is written `--config {setting.value}` as two words"
    return [Remark("config_not_read", "--config", detail, setting.location)]
