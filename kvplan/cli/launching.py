"""From a command line to a report: launch, checkpoint, plan, findings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from kvplan.cli.configured import announce, settings_of
from kvplan.cli.options import codes
from kvplan.cli.output import deliver, targets
from kvplan.cli.words import Words, words_of
from kvplan.errors import InputError

if TYPE_CHECKING:
    from kvplan.checkpoint.additions import Additions
    from kvplan.checkpoint.speculators import Speculator
    from kvplan.checkpoint.values import Checkpoint
    from kvplan.engine.values import Plan
    from kvplan.launch.values import Launch
    from kvplan.report.values import Report


@dataclass(frozen=True, slots=True)
class Asked:
    """kvplan's own options for one launch, and the words that are not its own."""

    words: Words
    own_flags: tuple[str, ...]
    """Every flag of the command at hand, to suggest one for a misspelt option."""
    vllm_version: str
    gpu: str | None
    available_kv_memory: str | None
    weights: str | None
    env: tuple[str, ...]
    offline: bool
    additions: Additions | None = None
    """Models of the project's own."""


def asked(ctx: click.Context, overridden: Collection[str] = ()) -> Asked:
    """What the command of `ctx` was asked; options of its own stand in for those in `overridden`."""
    given = ctx.params
    announce(ctx, overridden)
    return Asked(
        words=words_of(ctx),
        own_flags=tuple(name for parameter in ctx.command.get_params(ctx) for name in parameter.opts),
        vllm_version=given["vllm_version"],
        gpu=given["gpu"],
        available_kv_memory=given["available_kv_memory"],
        weights=given["weights"],
        env=given["env"],
        offline=given["offline"],
        additions=settings_of(ctx).additions,
    )


def launch_of(question: Asked) -> Launch:
    """The launch, whichever way it was written."""
    from kvplan.launch.build import from_command, from_options
    from kvplan.launch.environment import parse_assignments
    from kvplan.launch.hardware import parse_gpu
    from kvplan.launch.sizes import parse_size
    from kvplan.releases import resolve

    words, memory = question.words, question.available_kv_memory
    common: dict[str, Any] = {
        "release": resolve(question.vllm_version),
        "hardware": None if question.gpu is None else parse_gpu(question.gpu),
        "available_kv_memory": None if memory is None else parse_size(memory, "--available-kv-memory"),
        "environment": parse_assignments(question.env),
    }
    if words.literal is None:
        return from_options(None, words.options, own_flags=question.own_flags, **common)
    if words.options:
        raise InputError(
            f"{words.options[0]}: before -- stand only kvplan's own options; the model and vLLM's options "
            "belong to the command after it"
        )
    return from_command(words.literal, **common)


def plan_of(question: Asked) -> Plan:
    """The emulated start-up of that launch."""
    from kvplan.engine import plan

    launch, checkpoint, draft = served(
        launch_of(question), offline=question.offline, additions=question.additions, notice=say
    )
    return plan(weighed(checkpoint, question.weights), launch, draft=draft)


def weighed(checkpoint: Checkpoint, weights: str | None) -> Checkpoint:
    """The model with weights of the size that was given, if one was."""
    from kvplan.launch.sizes import parse_size

    return checkpoint if weights is None else replace(checkpoint, weight_bytes=parse_size(weights, "--weights"))


_OPTIONS_ABOUT_FILES = ("hf_overrides", "speculative_config", "config_format")


def files_of(launch: Launch) -> tuple[object, ...]:
    """What decides which files are read for a launch, and what is made of them: launches that agree in it share their
    checkpoints."""
    return launch.model, *(repr(launch.get(name)) for name in _OPTIONS_ABOUT_FILES)


def say(text: str) -> None:
    """A remark on standard error."""
    click.echo(f"kvplan: {text}", err=True)


def served(
    launch: Launch,
    *,
    offline: bool,
    additions: Additions | None = None,
    notice: Callable[[str], None] | None = None,
) -> tuple[Launch, Checkpoint, Checkpoint | None]:
    """The launch, its model and its draft; those of the verifier where a draft in the speculators format is served."""
    from kvplan.checkpoint import speculators

    try:
        return launch, *checkpoints_of(launch, offline=offline, additions=additions, notice=notice)
    except speculators.Speculator as found:
        verified = followed(launch, found, notice)
    return verified, *checkpoints_of(verified, offline=offline, additions=additions, notice=notice)


def followed(launch: Launch, found: Speculator, notice: Callable[[str], None] | None) -> Launch:
    """The launch of the model that a draft in the speculators format names; `notice` is told of it."""
    from kvplan.launch import speculators

    verified = speculators.followed(launch, found)
    if notice is not None:
        notice(f"{launch.model} is a draft in the speculators format: vLLM serves {verified.model} with it")
    return verified


def checkpoints_of(
    launch: Launch,
    *,
    offline: bool,
    additions: Additions | None = None,
    notice: Callable[[str], None] | None = None,
) -> tuple[Checkpoint, Checkpoint | None]:
    """The model of a launch and, where it needs files of its own, its draft model; names of the project's own are
    among `additions`. A draft that is not where the launch says is looked for elsewhere only if `notice` can tell."""
    from kvplan.checkpoint.load import STDIN, load

    if launch.model is None:
        raise InputError("no model given: name one from the catalog, a config.json, a directory or a Hub id")
    stdin: TextIO | None = sys.stdin
    if launch.model == STDIN and stdin is None:
        raise InputError("the config is to come from standard input, which is closed")
    overrides = launch.get("hf_overrides")
    target = _meant(launch.model, additions)
    checkpoint = load(
        target,
        offline=offline,
        stdin=stdin,
        hf_overrides=overrides if isinstance(overrides, Mapping) else None,
        config_format=launch.get("config_format"),
    )
    return checkpoint, _draft_of(launch, target, offline=offline, additions=additions, notice=notice)


def _meant(model: str, additions: Additions | None) -> str:
    """The model's reference, where the project's own names are replaced."""
    return model if additions is None else additions.resolve(model)


def _draft_of(
    launch: Launch,
    target: str,
    *,
    offline: bool,
    additions: Additions | None,
    notice: Callable[[str], None] | None,
) -> Checkpoint | None:
    """The draft model that --speculative-config names; the target's own files where a draft in them is asked for
    and --hf-overrides changed what was read, because vLLM does not apply them to the draft."""
    from kvplan.checkpoint.load import STDIN, load
    from kvplan.engine.speculation.wanted import draft_reference

    named = draft_reference(launch)
    if named is None:
        overridden = launch.get("speculative_config") is not None and launch.get("hf_overrides")
        return load(target, offline=offline) if overridden and target != STDIN else None
    meant = _meant(named, additions)
    if notice is not None and (beside := _beside(target, meant)) is not None:
        notice(f"the draft model {named} is not on this machine: reading {beside} instead")
        meant = beside
    try:
        return load(meant, offline=offline, draft=True)
    except InputError as error:
        raise InputError(f"--speculative-config: the draft model: {error}") from None


def _beside(target: str, draft: str) -> str | None:
    """The folder beside a local target that has the name of a draft whose own absolute path, that of the machine it is
    served on, does not exist here."""
    wished = Path(draft)
    if not wished.is_absolute() or wished.exists() or not Path(target).exists():
        return None
    found = Path(target).resolve().parent / wished.name
    return str(found) if found.is_dir() else None


def report_of(ctx: click.Context, plan: Plan, **shape: Any) -> Report:
    """The report on `plan` with the findings that --select, --ignore and the settings file leave."""
    from kvplan.report.values import make, without
    from kvplan.rules import regraded, run
    from kvplan.rules.suppression import Origin, by_entries, divide

    select = codes(ctx.params.get("select", ())) or None
    everything = ctx.params.get("no_ignore", False)
    ignore = None if everything else codes(ctx.params.get("ignore", ())) or None
    settings = settings_of(ctx)
    findings = regraded(run(plan, select=select, ignore=ignore), settings.severities)
    # A failing start-up whose findings were left out on purpose does not count; one that no rule explains does.
    dismissed = bool(select or ignore) and any(finding.severity.rank == 0 for finding in run(plan))
    report = make(plan, findings, failure_dismissed=dismissed, **shape)
    entries = () if everything else settings.suppressions
    origin = Origin(model=plan.launch.model or "", name=plan.checkpoint.name)
    return without(report, *divide(report.findings, origin, (by_entries(entries, date.today()),)))


def tell(ctx: click.Context, report: Report) -> None:
    """Write the report in the formats and to the places asked for."""
    from kvplan.rules.values import Severity

    given = ctx.params.get("fail_on")
    fail_on = None if given is None else Severity(given)
    deliver(targets(ctx.params), lambda one, canvas: one.render(report, canvas, fail_on))
