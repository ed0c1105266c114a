"""kvplan from Python: what the commands `plan`, `check`, `scan` and `sweep` compute, as values. Nothing is printed.

>>> import kvplan
>>> found = kvplan.check(
...     "vllm serve zai-org/GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1",
...     vllm_version="0.25.1",
...     gpu="h200:8",
... )
>>> found.plan.ok, [finding.rule for finding in found.errors]
(False, ['KV201'])
>>> print(found.errors[0].fixes[0].words)
use vLLM 0.26.0

>>> plan = kvplan.plan("vllm serve Qwen/Qwen3-0.6B --max-model-len 2048", gpu="l4", available_kv_memory="4GiB")
>>> plan.capacity.num_blocks, plan.capacity.tokens
(2340, 37440)
>>> {layer.page_bytes for layer in plan.layers}
{65536}

>>> from pathlib import Path
>>> script = "vllm serve openai/gpt-oss-120b -tp 2\\nvllm serve /models/ours --kv-cache-dtype fp8\\n"
>>> _ = Path("serve.sh").write_text(script)
>>> found = kvplan.scan("serve.sh", vllm_version="0.33.0", gpu="h200:2")
>>> [(launch.location.line, launch.plan.checkpoint.name, launch.ok) for launch in found.launches]
[(1, 'openai/gpt-oss-120b', True)]
>>> [(place.location.line, place.reason[:41]) for place in found.unreadable]
[(2, 'shell: the model is the path /models/ours')]

>>> compared = kvplan.sweep(
...     "vllm serve google/gemma-3-27b-it",
...     vllm_version=["0.25.1", "0.26.0"],
...     available_kv_memory="40GiB",
... )
>>> [(row.options["--vllm-version"], round(row.values["max_concurrency"], 2)) for row in compared.rows]
[('0.25.1', 2.81), ('0.26.0', 2.23)]
>>> change = next(one for one in compared.steps[0].changes if one.name == "max_concurrency")
>>> [cause.name for cause in change.explanation.causes]
['SLIDING_RESERVE_COUNTS_BATCHES_IN_FLIGHT']

>>> compared = kvplan.sweep(
...     "vllm serve zai-org/GLM-5.2-FP8 -tp 8",
...     vary={"--kv-cache-dtype": ["auto", "fp8"], "--kv-cache-dtype-skip-layers": [None, ["0", "1"]]},
... )
>>> [(*row.options.values(), row.values["layer_dtypes"]) for row in compared.rows][-1]
('fp8', ['0', '1'], ('auto', 'fp8_ds_mla'))
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from kvplan.errors import InputError

if TYPE_CHECKING:
    from kvplan.engine.values import Plan
    from kvplan.launch.found import Unreadable
    from kvplan.launch.globs import Globs
    from kvplan.launch.locations import Location
    from kvplan.report.sweepvalues import Combination, Comparison, Value
    from kvplan.rules.suppression import Suppressed
    from kvplan.rules.values import Finding
    from kvplan.runs.judging import Choice
    from kvplan.runs.launching import LaunchRequest

Varied = str | int | float | bool | None | Sequence[str]
"""A value that an option takes in turn: a text or number is its value, a sequence its values, True the bare flag; with
None or False the option is left out."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A plan and what is wrong with it."""

    plan: Plan
    findings: tuple[Finding, ...]
    """Worst first."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that the command `check` fails on by default."""
        return tuple(finding for finding in self.findings if finding.severity.rank == 0)

    @property
    def ok(self) -> bool:
        """Whether start-up succeeds and nothing is an error."""
        return self.plan.ok and not self.errors


@dataclass(frozen=True, slots=True)
class CheckedLaunch(Checked):
    """A launch that stands in a file."""

    location: Location
    """Where its command begins."""
    title: str
    """What holds it: `Deployment glm/vllm`."""
    suppressed: tuple[Suppressed, ...] = ()
    """Findings that a comment or the baseline takes out, with the reason; they are not among `findings`."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The launches in some files."""

    launches: tuple[CheckedLaunch, ...]
    """In the order of the files."""
    unreadable: tuple[Unreadable, ...]
    """Files and launches that could not be followed, and why."""
    files: int
    """The number of files that were looked through."""
    notices: tuple[str, ...] = ()
    """Comments and rows of the baseline that suppress nothing any more."""

    @property
    def ok(self) -> bool:
        """Whether all launches are; what could not be followed is left to the caller."""
        return all(launch.ok for launch in self.launches)


@dataclass(frozen=True, slots=True)
class SweptRow:
    """One combination of values, and what comes of it."""

    options: Mapping[str, Varied]
    """The value of each option that varies, by its flag: as it was given, kvplan's own as texts."""
    checked: Checked | None
    """None where kvplan cannot use the combination."""
    problem: str | None = None
    """Why it cannot."""
    values: Mapping[str, Value] | None = None
    """What is compared between rows, by name: sizes in bytes, lengths in tokens, None where unknown."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """All combinations of some options' values; the release varies fastest."""

    rows: tuple[SweptRow, ...]
    steps: tuple[Comparison, ...]
    """What changes from one row to the next where they differ in one option only, and why. Rows by their positions."""
    notices: tuple[str, ...] = ()
    """What is to be known of where models were found."""


def plan(
    command: str | Sequence[str],
    *,
    vllm_version: str = "latest",
    gpu: str | None = None,
    available_kv_memory: str | int | None = None,
    weights: str | int | None = None,
    environment: Mapping[str, str] | None = None,
    offline: bool = True,
) -> Plan:
    """The emulated start-up of a literal `vllm serve …` command.

    `command` is one string in shell quoting, or its words. `gpu` is a name, `name:count` or `sm_90`; without it an
    H200 is assumed. `available_kv_memory` is what vLLM logs as `Available KV cache memory` a GPU: bytes, or a text such
    as `60GiB`. Without it, where `gpu` is given and the size of the weights is known (from the files of a directory, or
    as `weights`, in the same notation), blocks and tokens are upper bounds (`Capacity.estimate`); otherwise they stay
    None. `offline` forbids to ask the Hub for a config that is neither a path nor in the catalog. Raises
    kvplan.InputError, whose text is one line, for input that cannot be used; a start that vLLM refuses is no exception
    but `Plan.error`.
    """
    from kvplan.runs.launching import planned

    memory = None if available_kv_memory is None else _bytes(available_kv_memory)
    return planned(_request(command, vllm_version, gpu, memory, weights, environment, offline=offline)).plan


def check(
    command: str | Sequence[str],
    *,
    vllm_version: str = "latest",
    gpu: str | None = None,
    available_kv_memory: str | int | None = None,
    weights: str | int | None = None,
    environment: Mapping[str, str] | None = None,
    offline: bool = True,
    select: Collection[str] | None = None,
    ignore: Collection[str] | None = None,
) -> Checked:
    """The plan of a command with the findings of all rules, or of those in `select` and not in `ignore` (codes).

    The other arguments and what is raised are those of `plan`.
    """
    from kvplan.runs.judging import findings_of

    planned = plan(
        command,
        vllm_version=vllm_version,
        gpu=gpu,
        available_kv_memory=available_kv_memory,
        weights=weights,
        environment=environment,
        offline=offline,
    )
    return Checked(planned, findings_of(planned, _choice(select, ignore)))


def scan(
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    vllm_version: str | None = None,
    gpu: str | None = None,
    available_kv_memory: str | int | None = None,
    models: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    baseline: str | PathLike[str] | None = None,
    suppress: bool = True,
    offline: bool = True,
    select: Collection[str] | None = None,
    ignore: Collection[str] | None = None,
) -> Scan:
    """Every launch in files and directories, with what is wrong with it.

    Release, GPU and model come from the files; `vllm_version`, `gpu`, `models` (a path of a container and the model
    behind it) and `environment` answer what they leave open. `include` and `exclude` are patterns such as
    `deploy/**/*.yaml`, as seen from the current directory. With `suppress`, comments in the files and the file
    `baseline` take findings out. The other arguments are those of `check`; a settings file is not read. Raises
    kvplan.InputError for a path that does not exist and for arguments that cannot be used; that nothing is found is no
    exception.
    """
    from kvplan.launch.hardware import parse_gpu
    from kvplan.launch.resolving import Answers
    from kvplan.launch.scanning import STDIN
    from kvplan.releases import resolve
    from kvplan.runs import baseline as baselines
    from kvplan.runs.launching import Sources
    from kvplan.runs.scanning import ScanRequest
    from kvplan.runs.scanning import scan as run

    names = tuple(fspath(path) for path in ([paths] if isinstance(paths, str | PathLike) else paths))
    if STDIN in names:
        raise InputError("kvplan.scan reads files and directories, and no standard input")
    answers = Answers(
        release=None if vllm_version is None else resolve(vllm_version).name,
        gpu=None if gpu is None else parse_gpu(gpu),
        available_kv_memory=None if available_kv_memory is None else _bytes(available_kv_memory),
        environment=environment or {},
        models=models or {},
    )
    request = ScanRequest(
        paths=names,
        answers=answers,
        choice=_choice(select, ignore, suppressing=suppress),
        sources=Sources(offline=offline),
        include=_globs("include", include),
        exclude=_globs("exclude", exclude),
        baseline=None if baseline is None else baselines.read(fspath(baseline)),
    )
    scanned = run(request)
    report = scanned.report
    launches = tuple(
        CheckedLaunch(
            one.report.plan, one.report.findings, one.found.location, one.title, suppressed=one.report.suppressed
        )
        for one in report.launches
    )
    return Scan(launches, tuple(one.unreadable for one in report.unreadable), report.files, scanned.notices)


def sweep(
    command: str | Sequence[str],
    *,
    vllm_version: str | Sequence[str] = "latest",
    gpu: str | Sequence[str] | None = None,
    available_kv_memory: str | int | Sequence[str | int] | None = None,
    vary: Mapping[str, Sequence[Varied]] | None = None,
    weights: str | int | None = None,
    environment: Mapping[str, str] | None = None,
    offline: bool = True,
    select: Collection[str] | None = None,
    ignore: Collection[str] | None = None,
    diff: bool = True,
) -> Sweep:
    """One row for each combination of values.

    `vllm_version`, `gpu` and `available_kv_memory` may be several, as a sequence or with commas between; a release may
    also be `all` or a span such as `0.19..0.26`. `vary` says by flag which values more options take in turn; they stand
    behind `command`, so that they win over what it says. Without `diff` there are no steps, which take most of the
    time between releases. The other arguments are those of `check`. Raises kvplan.InputError where no combination
    can be used, or for more than 1,000 of them; one that cannot be used is a row with a `problem`.
    """
    from kvplan.runs.combining import GPU, MEMORY, RELEASE, every_release, split_values, varied
    from kvplan.runs.sweeping import SweepRequest
    from kvplan.runs.sweeping import sweep as run

    releases = every_release(vllm_version) if isinstance(vllm_version, str) else vllm_version
    memory = str(available_kv_memory) if isinstance(available_kv_memory, int) else available_kv_memory
    own = {
        flag: split_values(name, given) if isinstance(given, str) else tuple(dict.fromkeys(map(str, given)))
        for flag, name, given in (
            (GPU, "gpu", gpu),
            (MEMORY, "available_kv_memory", memory),
            (RELEASE, "vllm_version", releases),
        )
        if given is not None
    }
    for flag in {GPU, MEMORY, RELEASE} & set(vary or ()):
        raise InputError(f"vary: {flag} is an argument of its own")
    words = {flag: _alternatives(flag, values) for flag, values in (vary or {}).items()}
    for flag, values in (*own.items(), *words.items()):
        if not values:
            raise InputError(f"{flag}: give at least one value")
    single = {flag: values[0] for flag, values in own.items() if len(values) == 1}
    request = _request(
        command,
        single.get(RELEASE, "latest"),
        single.get(GPU),
        single.get(MEMORY),
        weights,
        environment,
        offline=offline,
    )
    combinations = varied(
        request,
        {flag: values for flag, values in own.items() if len(values) > 1},
        {flag: {text: filling for text, (_, filling) in values.items()} for flag, values in words.items()},
    )
    swept = run(SweepRequest(combinations=combinations, choice=_choice(select, ignore), diff=diff))
    given = {flag: {text: value for text, (value, _) in values.items()} for flag, values in words.items()}
    rows = tuple(_row(row, given) for row in swept.report.rows)
    return Sweep(rows, swept.report.steps or (), swept.notices)


def _row(row: Combination, given: Mapping[str, Mapping[str, Varied]]) -> SweptRow:
    options = {flag: given.get(flag, {}).get(text, text) for flag, text in row.options.items()}
    if row.report is None:
        return SweptRow(options, None, row.problem)
    return SweptRow(options, Checked(row.report.plan, row.report.findings), values=row.values)


def _alternatives(flag: str, values: Sequence[Varied]) -> dict[str, tuple[Varied, tuple[str, ...]]]:
    """The values of an option with the words that each puts behind the command, by a name for each."""
    if not flag.startswith("-"):
        raise InputError(f"vary: {flag[:80]!r} is not the flag of an option")
    if isinstance(values, str):
        raise InputError(f"vary: give the values of {flag} as a list")
    return dict(_alternative(flag, value) for value in values)


def _alternative(flag: str, value: Varied) -> tuple[str, tuple[Varied, tuple[str, ...]]]:
    if value is None or value is False:
        return "", (value, ())
    if value is True:
        return flag, (value, (flag,))
    words = (str(value),) if isinstance(value, str | int | float) else tuple(value)
    return shlex.join(words), (value, (flag, *words))


def _request(
    command: str | Sequence[str],
    vllm_version: str,
    gpu: str | None,
    available_kv_memory: str | int | None,
    weights: str | int | None,
    environment: Mapping[str, str] | None,
    *,
    offline: bool,
) -> LaunchRequest:
    import sys

    from kvplan.runs.launching import LaunchRequest, Sources

    return LaunchRequest(
        literal=_words(command),
        vllm_version=vllm_version,
        gpu=gpu,
        available_kv_memory=None if available_kv_memory is None else str(available_kv_memory),
        weights=None if weights is None else str(weights),
        environment=environment or {},
        sources=Sources(offline=offline, stdin=sys.stdin),
    )


def _choice(select: Collection[str] | None, ignore: Collection[str] | None, *, suppressing: bool = True) -> Choice:
    from kvplan.runs.judging import Choice

    chosen, unwanted = (
        None if codes is None else (codes,) if isinstance(codes, str) else tuple(codes) for codes in (select, ignore)
    )
    return Choice(select=chosen, ignore=unwanted, suppressing=suppressing)


def _bytes(memory: str | int) -> int:
    from kvplan.launch.sizes import parse_available

    return parse_available(str(memory), "available_kv_memory")


def _globs(name: str, patterns: Sequence[str]) -> Globs | None:
    from kvplan.launch.globs import any_of

    try:
        return any_of(Path(), patterns) if patterns else None
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _words(command: str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(command, str):
        return tuple(command)
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise InputError(f"the command cannot be split into words ({error}): check its quotes") from None
