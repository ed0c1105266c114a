"""How causes are found, with made-up values that depend on history entries in known ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kvplan.history import capacity
from kvplan.launch.hardware import default_hardware
from kvplan.launch.values import Launch
from kvplan.releases import KNOWN, Release, Span, resolve
from kvplan.report.sweepvalues import Explained, Explanation
from kvplan.runs.causes import TABLES, Explainer, MixedRelease, differing

RESERVE = capacity.SLIDING_RESERVE_COUNTS_BATCHES_IN_FLIGHT
FORMULA = capacity.TOKENS_FROM_CONCURRENCY
FIRST_GROUP = capacity.ADMISSION_COUNTS_FIRST_GROUP_ONLY


def explained(value: Callable[[Release], int], older: str = "0.16.0", newer: str = "0.33.0") -> Explanation:
    """Why `value` of one release became that of another."""

    def measure(launch: Launch) -> Mapping[str, int]:
        return {"value": value(launch.release)}

    old, new = (Launch(None, resolve(name), default_hardware()) for name in (older, newer))
    return Explainer(old, new, measure).explain("value", value(old.release), value(new.release))


def names(explanation: Explanation) -> set[str]:
    return {cause.name for cause in explanation.causes}


def test_a_mixture_differs_in_the_flipped_entries_only() -> None:
    old = resolve("0.25.1")
    mixed = MixedRelease(old.name, old.acts_as, False, frozenset({RESERVE.name}))
    assert mixed.has(RESERVE)
    assert not old.has(RESERVE)
    assert mixed.has(FORMULA) == old.has(FORMULA)
    assert str(mixed) == "0.25.1"


def test_neighbours_differ_in_what_begins_or_ends_between_them() -> None:
    assert RESERVE in differing(resolve("0.25.1"), resolve("0.26.0"))
    assert FIRST_GROUP in differing(resolve("0.18.1"), resolve("0.19.1"))
    assert all(not differing(resolve(name), resolve(name)) for name in KNOWN)


def test_one_entry_alone() -> None:
    found = explained(lambda release: 10 + release.has(RESERVE))
    assert (found.explained, names(found)) == (Explained.ALONE, {RESERVE.name})


def test_an_entry_that_ends() -> None:
    found = explained(lambda release: 10 + release.has(FIRST_GROUP))
    assert (found.explained, names(found)) == (Explained.ALONE, {FIRST_GROUP.name})


def test_either_of_two() -> None:
    found = explained(lambda release: 10 + (release.has(RESERVE) or release.has(FORMULA)))
    assert (found.explained, names(found)) == (Explained.ALONE, {RESERVE.name, FORMULA.name})


def test_two_that_add_up() -> None:
    found = explained(lambda release: 10 + release.has(RESERVE) + 2 * release.has(FORMULA))
    assert (found.explained, names(found)) == (Explained.TOGETHER, {RESERVE.name, FORMULA.name})


def test_two_of_which_neither_does_anything_alone() -> None:
    found = explained(lambda release: 10 + (release.has(RESERVE) and release.has(FORMULA)))
    assert (found.explained, names(found)) == (Explained.TOGETHER, {RESERVE.name, FORMULA.name})


def test_tables_are_a_cause_of_their_own() -> None:
    found = explained(lambda release: 10 + release.within(Span(since="0.20.2")))
    assert (found.explained, names(found)) == (Explained.ALONE, {TABLES.name})
    found = explained(lambda release: 10 + (release.within(Span(since="0.20.2")) and release.has(RESERVE)))
    assert (found.explained, names(found)) == (Explained.TOGETHER, {TABLES.name, RESERVE.name})


def test_what_a_mixture_cannot_reach_is_said() -> None:
    def only_real(release: Release) -> int:
        return 10 + (release.acts_as == "0.33.0" and not isinstance(release, MixedRelease))

    assert explained(only_real) == Explanation(Explained.NOT)
    found = explained(lambda release: only_real(release) + 5 * release.has(RESERVE))
    assert (found.explained, names(found)) == (Explained.PARTLY, {RESERVE.name})


def test_a_mixture_that_breaks_explains_nothing() -> None:
    def breaks(release: Release) -> int:
        if release.has(RESERVE) != release.has(FORMULA):
            raise KeyError("never apart")
        return 10 + release.has(RESERVE)

    found = explained(breaks)
    assert (found.explained, names(found)) == (Explained.TOGETHER, {RESERVE.name, FORMULA.name})
