"""One launch: from what was asked for to its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from kvplan.errors import InputError

if TYPE_CHECKING:
    from kvplan.checkpoint.additions import Additions
    from kvplan.checkpoint.values import Checkpoint
    from kvplan.engine.values import Plan
    from kvplan.files import Ground
    from kvplan.launch.values import Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the models of launches are read from."""

    offline: bool = False
    additions: Additions | None = None
    """Models of the project's own."""
    beside: bool = False
    """Whether a draft that is not where the launch says is looked for beside its target."""
    ground: Ground | None = None
    """Where the files of models may lie; None for anywhere."""
    trusted: frozenset[str] = frozenset()
    """References that the operator names, whose files may lie anywhere."""
    stdin: TextIO | None = None
    """Where a config comes from whose reference is `-`; None where standard input is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """A launch as it was asked for: what kvplan's own options say, and the words that are vLLM's."""

    options: tuple[str, ...] = ()
    """The model, and vLLM's options beside kvplan's."""
    literal: tuple[str, ...] | None = None
    """A literal command of vLLM in their place."""
    own_flags: tuple[str, ...] = ()
    """kvplan's own flags, to suggest one for a misspelt option."""
    vllm_version: str = "latest"
    gpu: str | None = None
    available_kv_memory: str | None = None
    weights: str | None = None
    """The size of the model's weights."""
    environment: Mapping[str, str] = field(default_factory=dict)
    sources: Sources = field(default_factory=Sources)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A launch with its files."""

    launch: Launch
    """That of the verifier where the launch is of a draft in the speculators format."""
    checkpoint: Checkpoint
    draft: Checkpoint | None
    notices: tuple[str, ...] = ()
    """What the operator should know of where they were found."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The emulated start-up of one launch."""

    plan: Plan
    notices: tuple[str, ...] = ()


def launch_of(request: LaunchRequest) -> Launch:
    """The launch, whichever way it was written. Raises InputError for options that cannot be used."""
    from kvplan.launch.build import from_command, from_options
    from kvplan.launch.hardware import parse_gpu
    from kvplan.launch.sizes import parse_available
    from kvplan.releases import resolve

    memory = request.available_kv_memory
    common: dict[str, Any] = {
        "release": resolve(request.vllm_version),
        "hardware": None if request.gpu is None else parse_gpu(request.gpu),
        "available_kv_memory": None if memory is None else parse_available(memory, "--available-kv-memory"),
        "environment": request.environment,
    }
    if request.literal is None:
        return from_options(None, request.options, own_flags=request.own_flags, **common)
    if request.options:
        raise InputError(
            f"{request.options[0]}: before -- stand only kvplan's own options; the model and vLLM's options "
            "belong to the command after it"
        )
    return from_command(request.literal, **common)


def planned(request: LaunchRequest) -> Planned:
    """The emulated start-up of the launch that is asked for. Raises InputError where it cannot be planned."""
    from kvplan.engine import plan

    loaded = Loader(request.sources).load(launch_of(request))
    checkpoint = weighed(loaded.checkpoint, request.weights)
    return Planned(plan(checkpoint, loaded.launch, draft=loaded.draft), loaded.notices)


def weighed(checkpoint: Checkpoint, weights: str | None) -> Checkpoint:
    """The model with weights of the size that was given, if one was."""
    from kvplan.launch.sizes import parse_size

    return checkpoint if weights is None else replace(checkpoint, weight_bytes=parse_size(weights, "--weights"))


_OPTIONS_ABOUT_FILES = ("hf_overrides", "speculative_config", "config_format")

Files = tuple["Checkpoint", "Checkpoint | None", tuple[str, ...]]
"""A model, its draft, and notices."""


@dataclass(slots=True)
class Loader:
    """Reads the files of launches; launches that agree in what decides about files share them."""

    sources: Sources
    _known: dict[object, Files | InputError] = field(init=False, default_factory=dict)

    def load(self, launch: Launch) -> Loaded:
        """The launch, its model and its draft; those of the verifier where a draft in the speculators format is served.

        Raises InputError, with the notices made until then as its notes, where a file cannot be used.
        """
        from kvplan.checkpoint.speculators import Speculator

        try:
            checkpoint, draft, notices = self._files(launch)
        except Speculator as found:
            from kvplan.launch.speculators import followed

            verified = followed(launch, found)
        else:
            return _remarked(Loaded(launch, checkpoint, draft, notices), self.sources)
        notice = f"{launch.model} is a draft in the speculators format: vLLM serves {verified.model} with it"
        try:
            checkpoint, draft, notices = self._files(verified)
        except InputError as error:
            raise _with_notices(error, (notice, *_notices(error))) from None
        return _remarked(Loaded(verified, checkpoint, draft, (notice, *notices)), self.sources)

    def _files(self, launch: Launch) -> Files:
        key = (launch.model, *(repr(launch.get(name)) for name in _OPTIONS_ABOUT_FILES))
        known = self._known.get(key)
        if known is None:
            try:
                known = _read(launch, self.sources)
            except InputError as error:
                known = error
            self._known[key] = known
        if isinstance(known, InputError):
            raise known.with_traceback(None)
        return known


def _remarked(loaded: Loaded, sources: Sources) -> Loaded:
    """The same, with a remark and a notice on each model whose name is that of a folder that was read."""
    from kvplan.checkpoint.load import looks_like_path
    from kvplan.checkpoint.values import Source
    from kvplan.launch.values import Remark
    from kvplan.rules.limits.kv920_model_read_from_folder import REMARK

    remarks: list[Remark] = []
    for checkpoint, option in ((loaded.checkpoint, "--model"), (loaded.draft, "--speculative-config")):
        reference = None if checkpoint is None else checkpoint.reference
        if checkpoint is None or reference is None or checkpoint.source not in (Source.DIRECTORY, Source.FILE):
            continue
        named = sources.additions is None or reference not in sources.additions.references
        if named and reference not in sources.trusted and not looks_like_path(reference):
            detail = f"{reference} is read from the folder of that name here, not from the catalog or the Hub"
            remarks.append(Remark(REMARK, option, detail))
    if not remarks:
        return loaded
    launch = replace(loaded.launch, remarks=(*loaded.launch.remarks, *remarks))
    return replace(loaded, launch=launch, notices=(*loaded.notices, *(remark.detail for remark in remarks)))


def _with_notices(error: InputError, notices: tuple[str, ...]) -> InputError:
    """The same refusal with other notices."""
    told = InputError(str(error))
    for notice in notices:
        told.add_note(notice)
    return told


def _notices(error: InputError) -> tuple[str, ...]:
    return tuple(getattr(error, "__notes__", ()))


def _read(launch: Launch, sources: Sources) -> Files:
    """The model of a launch and, where it needs files of its own, its draft model."""
    from kvplan.checkpoint.load import STDIN, load

    if launch.model is None:
        raise InputError("no model given: name one from the catalog, a config.json, a directory or a Hub id")
    if launch.model == STDIN and sources.stdin is None:
        raise InputError("the config is to come from standard input, which is closed")
    overrides = launch.get("hf_overrides")
    target = _meant(launch.model, sources)
    checkpoint = load(
        target,
        offline=sources.offline,
        stdin=sources.stdin,
        hf_overrides=overrides if isinstance(overrides, Mapping) else None,
        config_format=launch.get("config_format"),
        local=_local(target, sources),
    )
    return checkpoint, *_draft(launch, target, sources)


def _meant(model: str, sources: Sources) -> str:
    """The model's reference, where the project's own names are replaced."""
    return model if sources.additions is None else sources.additions.resolve(model)


def _local(reference: str, sources: Sources) -> bool:
    """Whether a reference may be a path of this machine: a scan reads only on its ground, links included."""
    from kvplan.checkpoint.load import files_of

    ground = sources.ground
    return ground is None or reference in sources.trusted or all(map(ground.holds, files_of(reference)))


def _draft(launch: Launch, target: str, sources: Sources) -> tuple[Checkpoint | None, tuple[str, ...]]:
    """The draft model that --speculative-config names, and notices; the target's own files where a draft in them is
    asked for and --hf-overrides changed what was read, because vLLM does not apply them to the draft."""
    from kvplan.checkpoint.load import STDIN, load
    from kvplan.engine.speculation.wanted import draft_reference

    named = draft_reference(launch)
    if named is None:
        overridden = launch.get("speculative_config") is not None and launch.get("hf_overrides")
        own = overridden and target != STDIN
        return load(target, offline=sources.offline, local=_local(target, sources)) if own else None, ()
    meant = _meant(named, sources)
    notices: tuple[str, ...] = ()
    if sources.beside and (beside := _beside(target, meant)) is not None:
        notices = (f"the draft model {named} is not on this machine: reading {beside} instead",)
        meant = beside
    try:
        return load(meant, offline=sources.offline, draft=True, local=_local(meant, sources)), notices
    except InputError as error:
        raise _with_notices(InputError(f"--speculative-config: the draft model: {error}"), notices) from None


def _beside(target: str, draft: str) -> str | None:
    """The folder beside a local target that has the name of a draft whose own absolute path, that of the machine it is
    served on, does not exist here."""
    wished = Path(draft)
    if not wished.is_absolute() or wished.exists() or not Path(target).exists():
        return None
    found = Path(target).resolve().parent / wished.name
    return str(found) if found.is_dir() else None
