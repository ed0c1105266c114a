"""Which changes mend a launch: levers are tried, and what comes of it planned, before anything is said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from kvplan.engine import plan as emulate
from kvplan.engine.failures import PoolTooSmall
from kvplan.engine.values import Plan
from kvplan.errors import InputError
from kvplan.launch.changing import Change, changed, told
from kvplan.rules import run
from kvplan.rules.values import Attempt, Severity
from kvplan.runs.fixes.effects import cost, effect
from kvplan.runs.fixes.levers import LEVERS, Lever
from kvplan.runs.fixes.values import Fix
from kvplan.words import listed

Judge = Callable[[Plan], Sequence[str]]
"""The rules that speak against proposing a plan; none where nothing does."""

MAX_ATTEMPTS = 24
"""Attempts of one lever: all releases on one side, or all sizes that a lever knows."""
USABLE_CONTEXT = 1_024
"""Tokens of context below which a launch that starts is of no use to anybody."""
HALFWAY = 2
"""Changes that mend the finding and lead to another error, from which a second change is looked for."""


@dataclass
class Search:
    """The changes of one launch, each planned once however many findings ask."""

    plan: Plan
    planned: dict[str, Plan | None] = field(default_factory=dict)

    def after(self, change: Change) -> Plan | None:
        """The launch with `change`, planned; None where its words cannot be used then, or would serve another model."""
        key = repr(change)
        if key not in self.planned:
            self.planned[key] = self._after(change)
        return self.planned[key]

    def _after(self, change: Change) -> Plan | None:
        try:
            launch = changed(self.plan.launch, change)
            if launch.model != self.plan.launch.model:
                return None
            return emulate(self.plan.checkpoint, launch, draft=self.plan.draft)
        except InputError:
            return None

    @cached_property
    def warnings(self) -> frozenset[str]:
        """Rules that warn already."""
        return _warnings(self.plan)


@dataclass
class Hunt:
    """The search of what mends one finding, with a record of what was tried."""

    search: Search
    rule: str
    judge: Judge
    tried: dict[str, str] = field(default_factory=dict)
    """What was tried, as one would type it, and what came of it."""

    def of(self, changes: Iterable[Change]) -> Iterator[Fix]:
        """Those of `changes` that work, in their own order, the first of several values of one option."""
        mended: set[tuple[str, ...]] = set()
        for change in changes:
            if change.names in mended and change.names:
                continue
            after = self._try(change)
            if isinstance(after, Fix):
                mended.add(change.names)
                yield after

    def by_levers(self) -> Iterator[Fix]:
        """What works of all levers, by what is given up, then by what it costs; found as it is asked for.

        Changes that need a second one come last, and only where nothing else helps: a shorter context, or whatever
        mends the next error.
        """
        found: list[Plan] = []
        partly: list[tuple[Change, Plan]] = []
        for burden in sorted({lever.burden for lever in LEVERS}):
            fixes: list[Fix] = []
            for lever in LEVERS:
                if lever.burden == burden:
                    fixes += self._works(lever, partly)
            for fix in sorted(fixes, key=lambda one: (len(one.warnings), self._cost(one))):
                if not any(_same(fix.plan, other) for other in found):
                    found.append(fix.plan)
                    yield fix
        if not found:
            shortened = sorted(self._shortened(partly), key=self._cost)
            yield from shortened or self._in_two(partly)

    def _works(self, lever: Lever, partly: list[tuple[Change, Plan]]) -> Iterator[Fix]:
        """The first attempt of a lever that works; every option that was given is a lever of its own.

        Attempts that mend the finding and lead to another error are added to `partly`.
        """
        for change in islice(lever.attempts(self.search.plan), MAX_ATTEMPTS):
            after = self._try(change)
            if isinstance(after, Fix):
                yield after
                if not (change.without or change.unset):
                    return
            elif after is not None and (self.rule not in self.judge(after) or _leaves_a_usable_context(after)):
                partly.append((change, after))

    def _shortened(self, partly: Sequence[tuple[Change, Plan]]) -> Iterator[Fix]:
        """Attempts that leave too little memory, with the context that fits then."""
        for change, failing in partly:
            if _leaves_a_usable_context(failing):
                for _, facts in failing.failures(PoolTooSmall):
                    shorter = Change(values=(("max_model_len", facts.longest_request_tokens),))
                    yield from self.of([change.beside(shorter)])

    def _in_two(self, partly: Sequence[tuple[Change, Plan]]) -> Iterator[Fix]:
        """Attempts that lead to another error, with the first change that mends that one."""
        for change, failing in [one for one in partly if self.rule not in self.judge(one[1])][:HALFWAY]:
            further = (
                second.change for lever in LEVERS for second in Hunt(Search(failing), "", self.judge)._works(lever, [])
            )
            yield from islice(self.of(change.beside(second) for second in further), 1)

    def _try(self, change: Change) -> Fix | Plan | None:
        """The fix that a change is; else the plan that is none, where there is one. What came of it is noted."""
        search = self.search
        words = told(change, search.plan.launch)
        after = search.after(change)
        against = ("these words cannot be used",) if after is None else self.judge(after)
        if after is None or against:
            self.tried.setdefault(words, listed(against))
            return after
        new = tuple(sorted(_warnings(after) - search.warnings))
        fix = Fix(words, effect(search.plan, after, new), change, after, new)
        self.tried.setdefault(words, f"works: {fix.effect}" if fix.effect else "works")
        return fix

    def _cost(self, fix: Fix) -> tuple[float, float]:
        return cost(self.search.plan, fix.plan)

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """What was tried, in order."""
        return tuple(Attempt(words, outcome) for words, outcome in self.tried.items())


def _warnings(plan: Plan) -> frozenset[str]:
    return frozenset(one.rule for one in run(plan) if one.severity is Severity.WARNING)


def _leaves_a_usable_context(plan: Plan) -> bool:
    """Whether memory is all that a plan lacks, and a shorter context of some use would do."""
    return len(plan.errors) == 1 and any(
        facts.longest_request_tokens >= USABLE_CONTEXT for _, facts in plan.failures(PoolTooSmall)
    )


def _same(one: Plan, other: Plan) -> bool:
    """Whether two plans come to the same: release, settings, layers and what fits."""
    return (one.release, one.settings, one.layers, one.capacity) == (
        other.release,
        other.settings,
        other.layers,
        other.capacity,
    )
