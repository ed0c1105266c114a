"""What is wrong with a plan, as the operator wants it told: which rules speak, and which of their findings count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.engine.values import Plan
    from kvplan.report.values import Report
    from kvplan.rules.suppression import SettingsEntry
    from kvplan.rules.values import Finding, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which findings the operator wants to hear."""

    select: tuple[str, ...] | None = None
    """Codes, beginnings of codes or names of the rules that speak; None for all."""
    ignore: tuple[str, ...] | None = None
    """Rules that do not; they win over `select`."""
    severities: Mapping[str, Severity] = field(default_factory=dict)
    """The severities that the operator gives to rules, by code."""
    suppressing: bool = True
    """Whether comments, entries and a baseline suppress findings."""
    entries: tuple[SettingsEntry, ...] = ()
    """What the settings file suppresses."""
    fixes: int | None = 3
    """How many changes are told for a finding at most; None for all that were found."""
    settings: str | None = None
    """What of a settings file chooses among findings, in words; None where none does."""
    today: date = field(default_factory=date.today)
    """The day on which entries hold or have expired."""

    @property
    def codes(self) -> frozenset[str]:
        """The codes of the rules that speak."""
        from kvplan.rules import chosen, rules

        wanted = frozenset(rule.code for rule in rules()) if self.select is None else chosen(self.select)
        return wanted - chosen(self.ignore or ())


def findings_of(plan: Plan, choice: Choice) -> tuple[Finding, ...]:
    """What the chosen rules find, with the operator's severities, worst first. Nothing is suppressed yet."""
    from kvplan.rules import regraded, run
    from kvplan.rules.limits.kv920_model_read_from_folder import CODE as FOLDER_RULE
    from kvplan.rules.limits.kv920_model_read_from_folder import REMARK as FOLDER

    found = run(plan, select=choice.select, ignore=choice.ignore)
    if any(remark.kind == FOLDER for remark in plan.launch.remarks) and not any(
        one.rule == FOLDER_RULE for one in found
    ):
        # No settings of the tree that the folder is part of may silence it.
        found = (*found, *run(plan, select=(FOLDER_RULE,)))
    if any(one.changes or one.severity.rank == 0 for one in found):
        from kvplan.runs.fixes.mending import mended

        found = mended(plan, found, choice.fixes)
    return regraded(found, choice.severities)


def stated(choice: Choice) -> tuple[Finding, ...]:
    """What a settings file does to the findings, as a finding of its own, whatever rules were chosen."""
    from kvplan.rules.limits.kv921_settings_change_findings import told

    return () if choice.settings is None else (told(choice.settings),)


def dismissed(plan: Plan, choice: Choice) -> bool:
    """Whether errors of a plan were left out on purpose: its failing start-up does not count then, while one that no
    rule explains does."""
    from kvplan.rules import run

    chosen = choice.select is not None or bool(choice.ignore)
    return chosen and any(finding.severity.rank == 0 for finding in run(plan))


def report_of(plan: Plan, choice: Choice, **shape: Any) -> Report:
    """The report on a launch that stands in no file; `shape` is what `kvplan.report.values.make` takes besides."""
    from kvplan.report.values import make, without
    from kvplan.rules.suppression import Origin, by_entries, divide

    findings = (*findings_of(plan, choice), *stated(choice))
    report = make(plan, findings, failure_dismissed=dismissed(plan, choice), **shape)
    entries = choice.entries if choice.suppressing else ()
    origin = Origin(model=plan.launch.model or "", name=plan.checkpoint.name)
    return without(report, *divide(report.findings, origin, (by_entries(entries, choice.today),)))
