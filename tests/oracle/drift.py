"""Where a release leaves what kvplan knows: golden command lines asked of it, and what kvplan tells otherwise.

Every difference is one line of `tests/golden/compare.py`. They are grouped by the stage at which vLLM's start-up ended
and by the field that differs; in a group by the pair of values, for one change of vLLM shows in many records alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from kvplan import checkpoint
from kvplan.errors import InputError
from kvplan.releases import resolve
from tests.golden import build, compare
from tests.oracle.configs import Configs
from tests.oracle.errors import OracleError

Record = Mapping[str, Any]

OF_THE_ENVIRONMENT = "failed to be inspected"
"""What vLLM says where the installed Transformers lacks a name: it tells nothing of the release."""
MOST_VALUES = 6
MOST_IDS = 3
LONGEST = 240


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that a record and kvplan tell differently."""

    record: str
    stage: str
    """Where vLLM's start-up ended: `ok`, or the stage that refused."""
    field: str
    """`layer backend`, `capacity tokens`, `setting dtype`, `outcome`, …"""
    values: str
    """Both values; the layer's name is left out."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a comparison found."""

    compared: int
    differences: tuple[Difference, ...]
    passed_over: int = 0
    """Records that tell of the environment in which they were made."""


def release_before(release: str) -> str:
    """The newest release with records that is older; raises OracleError where there is none."""
    older = [name for name in build.releases() if _numbers(name) < _numbers(release)]
    if not older:
        raise OracleError(f"no records of a release before {release}: name one with --from")
    return older[-1]


def chosen(records: Sequence[Record], sample: int | None, limit: int | None) -> list[Record]:
    """At most `limit` first records of at most `sample` drawn ones; the draw is the same whenever it is made."""
    drawn = list(records)
    if sample is not None:
        order = sorted(records, key=lambda record: hashlib.sha256(record["id"].encode()).hexdigest())
        ids = {record["id"] for record in order[:sample]}
        drawn = [record for record in records if record["id"] in ids]
    return drawn[:limit]


def compared(records: Sequence[Record], act_as: str, configs: Configs, jobs: int) -> Outcome:
    """Hold kvplan's plans, made as release `act_as`, against the records."""
    told = [record for record in records if OF_THE_ENVIRONMENT not in record["outcome"].get("first_line", "")]
    resolve(act_as)
    with ProcessPoolExecutor(jobs) as pool:
        places = [configs] * len(told)
        lines = list(pool.map(_lines, told, [act_as] * len(told), places, chunksize=4))
    found = [difference for record, some in zip(told, lines, strict=True) for difference in differences(record, some)]
    return Outcome(len(told), tuple(found), len(records) - len(told))


def differences(record: Record, lines: Sequence[str]) -> Iterator[Difference]:
    """The comparison's lines about a record, each thing once however many layers say it."""
    stage = "ok" if record["outcome"]["ok"] else record["outcome"]["stage"]
    for field, values in dict.fromkeys(map(_parts, lines)):
        yield Difference(record["id"], stage, field, values)


def report(found: Outcome, title: str) -> str:
    """What a person reads: groups by stage and field, in each the pairs of values with the records that show them."""
    wrong = {difference.record for difference in found.differences}
    passed = f", {found.passed_over} passed over (they tell of the installed Transformers)" if found.passed_over else ""
    lines = [f"{title}: {found.compared - len(wrong)} of {found.compared} records agree{passed}"]
    for stage in dict.fromkeys(difference.stage for difference in found.differences):
        of_stage = [difference for difference in found.differences if difference.stage == stage]
        lines += ["", f"start-up ends in {stage}" if stage != "ok" else "start-up succeeds"]
        for field, group in _largest_first(of_stage, "field"):
            records = {difference.record for difference in group}
            lines.append(f"  {field}: {_count(records)}")
            lines += _values(group)
    return "\n".join(lines)


def _values(group: Sequence[Difference]) -> Iterator[str]:
    pairs = _largest_first(group, "values")
    for values, same in pairs[:MOST_VALUES]:
        ids = [difference.record for difference in same]
        more = f" and {len(ids) - MOST_IDS} more" if len(ids) > MOST_IDS else ""
        shown = values if len(values) <= LONGEST else f"{values[:LONGEST]}…"
        yield f"    {len(ids)} × {shown}"
        yield f"        {', '.join(ids[:MOST_IDS])}{more}"
    if len(pairs) > MOST_VALUES:
        yield f"    and {len(pairs) - MOST_VALUES} more pairs of values"


def _largest_first(found: Sequence[Difference], attribute: str) -> list[tuple[str, list[Difference]]]:
    groups: dict[str, list[Difference]] = {}
    for difference in found:
        groups.setdefault(getattr(difference, attribute), []).append(difference)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def _parts(line: str) -> tuple[str, str]:
    """(field, values) of a line such as `layer model.layers.0: backend: vLLM 'A', kvplan 'B'`."""
    subject, _, rest = line.partition(": ")
    if subject.startswith("layer "):
        field, colon, values = rest.partition(": ")
        return (f"layer {field}", values) if colon else ("layer", rest)
    if subject == "capacity":
        field, _, values = rest.partition(": ")
        return f"capacity {field}", values
    return subject, rest


def _lines(record: Record, act_as: str, configs: Configs) -> list[str]:
    """What differs between one record and kvplan."""
    asked = {**record, "release": act_as, "flags": [configs.named(flag) for flag in record["flags"]]}
    folder = str(configs.folder(record["config"]))
    try:
        loaded = checkpoint.load(folder, offline=True)
        return compare.differences(record, compare.plan_of(asked, loaded))
    except InputError as error:
        return [f"input: {error}"]


def _count(records: set[str]) -> str:
    return "1 record" if len(records) == 1 else f"{len(records)} records"


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))
