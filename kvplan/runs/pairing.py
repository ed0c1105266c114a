"""Launches that belong together: one fills the cache, the other reads it (prefill and decode of one model)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kvplan.launch.found import Unreadable
from kvplan.report.scanvalues import ScannedLaunch
from kvplan.report.values import make
from kvplan.rules import regraded, run_pair
from kvplan.runs.judging import Choice

_ROLE_WORD = re.compile(r"[-_./ ]*(?:prefill|decode)(?:er|r)?(?:[-_./ ]?worker)?", re.IGNORECASE)


def with_pairs(told: Sequence[ScannedLaunch | Unreadable], choice: Choice) -> Sequence[ScannedLaunch | Unreadable]:
    """The same, with what is wrong between prefill and decode of one model added to decode's findings.

    They belong together when they have one name but for the role and stand in one file, or in files of one
    directory of which each holds one of the roles only.
    """
    members = [one for one in told if isinstance(one, ScannedLaunch) and _role(one) is not None]
    by_file = _grouped(members, _in_file)
    alone = [one for group in by_file.values() if len({_role(member) for member in group}) == 1 for one in group]
    by_directory = _grouped(alone, _in_directory)
    result: list[ScannedLaunch | Unreadable] = []
    for one in told:
        if isinstance(one, ScannedLaunch) and _role(one) == "decode":
            beside = [*by_file[_in_file(one)], *by_directory.get(_in_directory(one), ())]
            fillers = [other for other in beside if _role(other) == "prefill"]
            result.append(_paired(one, fillers, choice))
        else:
            result.append(one)
    return result


Group = tuple[str, str, str]
"""Where it stands, its model, and its name without the role."""


def _grouped(
    launches: Iterable[ScannedLaunch], key: Callable[[ScannedLaunch], Group]
) -> dict[Group, list[ScannedLaunch]]:
    groups: dict[Group, list[ScannedLaunch]] = {}
    for launch in launches:
        groups.setdefault(key(launch), []).append(launch)
    return groups


def _in_file(launch: ScannedLaunch) -> Group:
    stem = _ROLE_WORD.sub("", launch.found.around.name).lower()
    return launch.found.location.file, launch.report.plan.checkpoint.name, stem


def _in_directory(launch: ScannedLaunch) -> Group:
    file, model, stem = _in_file(launch)
    return str(Path(file).parent), model, stem


def _role(launch: ScannedLaunch) -> str | None:
    """The role that a launch's name or its transfer config gives it."""
    transfer = launch.report.plan.launch.get("kv_transfer_config")
    role = transfer.get("kv_role") if isinstance(transfer, Mapping) else None
    said = {"kv_producer": "prefill", "kv_consumer": "decode"}.get(str(role))
    return said or launch.found.around.role


def _paired(reader: ScannedLaunch, fillers: Sequence[ScannedLaunch], choice: Choice) -> ScannedLaunch:
    more = [
        finding if finding.location is not None else replace(finding, location=reader.found.location)
        for filler in fillers
        for finding in regraded(
            run_pair(
                filler.report.plan,
                reader.report.plan,
                select=choice.select,
                ignore=choice.ignore,
            ),
            choice.severities,
        )
    ]
    if not more:
        return reader
    findings = [*reader.report.findings, *dict.fromkeys(more)]
    report = make(reader.report.plan, findings, failure_dismissed=choice.select is not None or bool(choice.ignore))
    return replace(reader, report=report)
