"""What kind of refusal the command-line parser gave, so that each refusal is explained by one rule."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from kvplan.engine.failures import RefusedOption
from kvplan.engine.values import Plan
from kvplan.launch.locations import Location
from kvplan.launch.values import Launch, Refusal

_ABSENT = frozenset({"unknown_option", "removed_option", "not_yet_option"})


class RefusalKind(StrEnum):
    """What the parser did not like."""

    OPTION = "option"
    """The option does not exist in this release."""
    VALUE = "value"
    """The option exists and its value does not do."""
    OTHER = "other"
    """Options that exclude each other, an ambiguous abbreviation, a missing value, …"""


def kind_of(refusal: Refusal, launch: Launch) -> RefusalKind:
    """Sort one refusal."""
    text = refusal.message.lower()
    absent = {remark.option for remark in launch.remarks if remark.kind in _ABSENT}
    if "unrecognized argument" in text or refusal.option in absent:
        return RefusalKind.OPTION
    if "not allowed with" in text or "ambiguous option" in text or "expected " in text or "required" in text:
        return RefusalKind.OTHER
    if refusal.option is not None and refusal.option.startswith("-"):
        return RefusalKind.VALUE
    return RefusalKind.OTHER


def refusals(plan: Plan, kind: RefusalKind) -> Iterator[Refusal]:
    """The launch's refusals of one kind, and start-up errors that the launch itself did not know of."""
    known = plan.launch.refusals
    yield from (refusal for refusal in known if kind_of(refusal, plan.launch) is kind)
    if known:
        return
    for error, facts in plan.failures(RefusedOption):
        refusal = Refusal(facts.option, error.message, error.type)
        if kind_of(refusal, plan.launch) is kind:
            yield refusal


def location_of(launch: Launch, option: str | None) -> Location | None:
    """Where an option was written, if it came from a file."""
    if option is None:
        return None
    name = option.lstrip("-").replace("-", "_").split(".")[0]
    setting = launch.settings.get(name)
    return None if setting is None else setting.location
