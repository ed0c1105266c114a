"""What drift says: which records are asked, how differences are grouped, what kvplan no longer agrees with."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import InputError
from kvplan.releases import KNOWN
from tests.golden import build
from tests.oracle import drift
from tests.oracle.configs import opened
from tests.oracle.drift import Difference, Outcome, chosen, differences, report
from tests.oracle.errors import OracleError

RECORDS = build.records("0.33.0")


def record(name: str, stage: str | None = None) -> dict[str, Any]:
    return {"id": name, "outcome": {"ok": True} if stage is None else {"ok": False, "stage": stage}}


def test_a_difference_of_many_layers_is_one() -> None:
    lines = [f"layer model.layers.{number}.attn: backend: vLLM 'A', kvplan 'B'" for number in range(9)]
    found = list(differences(record("a"), lines))
    assert found == [Difference("a", "ok", "layer backend", "vLLM 'A', kvplan 'B'")]


@pytest.mark.parametrize(
    ("line", "field", "values"),
    [
        ("layer m.0: missing in kvplan", "layer", "missing in kvplan"),
        ("layer m.0: page_bytes: vLLM 1, kvplan 2", "layer page_bytes", "vLLM 1, kvplan 2"),
        ("capacity: tokens: vLLM 1, kvplan 2", "capacity tokens", "vLLM 1, kvplan 2"),
        ("capacity: log lines: vLLM ['a: 1'], kvplan []", "capacity log lines", "vLLM ['a: 1'], kvplan []"),
        ("setting dtype: vLLM 'a', kvplan 'b'", "setting dtype", "vLLM 'a', kvplan 'b'"),
        ("groups: vLLM [1], kvplan [2]", "groups", "vLLM [1], kvplan [2]"),
        (
            "outcome: vLLM args: ArgError: no: such, kvplan ok None",
            "outcome",
            "vLLM args: ArgError: no: such, kvplan ok None",
        ),
    ],
)
def test_fields(line: str, field: str, values: str) -> None:
    (found,) = differences(record("a", "args"), [line])
    assert (found.stage, found.field, found.values) == ("args", field, values)


def test_groups_and_values_that_show_most_come_first() -> None:
    found = [
        Difference("a", "ok", "groups", "vLLM [1], kvplan [2]"),
        *(Difference(name, "ok", "layer backend", "vLLM 'C', kvplan 'B'") for name in ("a",)),
        *(Difference(name, "ok", "layer backend", "vLLM 'A', kvplan 'B'") for name in ("a", "b", "c", "d")),
        Difference("e", "args", "outcome", "vLLM args: ArgError: no, kvplan ok None"),
    ]
    assert report(Outcome(7, tuple(found), 1), "0.34.0 asked") == "\n".join(
        [
            "0.34.0 asked: 2 of 7 records agree, 1 passed over (they tell of the installed Transformers)",
            "",
            "start-up succeeds",
            "  layer backend: 4 records",
            "    4 × vLLM 'A', kvplan 'B'",
            "        a, b, c and 1 more",
            "    1 × vLLM 'C', kvplan 'B'",
            "        a",
            "  groups: 1 record",
            "    1 × vLLM [1], kvplan [2]",
            "        a",
            "",
            "start-up ends in args",
            "  outcome: 1 record",
            "    1 × vLLM args: ArgError: no, kvplan ok None",
            "        e",
        ]
    )


def test_long_values_are_cut_and_many_are_counted() -> None:
    found = tuple(Difference(str(number), "ok", "outcome", "x" * 300 + str(number)) for number in range(9))
    told = report(Outcome(9, found), "t").splitlines()
    assert told[0] == "t: 0 of 9 records agree"
    assert told[-1] == "    and 3 more pairs of values"
    assert max(map(len, told)) < 260


def test_a_sample_is_the_same_whenever_it_is_drawn() -> None:
    drawn = chosen(RECORDS, 40, None)
    assert len(drawn) == 40
    assert drawn == chosen(RECORDS[::-1], 40, None)[::-1]
    assert len({one["config"] for one in drawn}) > 20
    assert chosen(RECORDS, 40, 5) == drawn[:5]
    assert chosen(RECORDS, None, None) == RECORDS


def test_the_release_before() -> None:
    assert drift.release_before("0.33.0") == KNOWN[KNOWN.index("0.33.0") - 1]
    assert drift.release_before("9.0.0") == build.releases()[-1]
    with pytest.raises(OracleError, match="name one with --from"):
        drift.release_before("0.1.0")


def test_kvplan_agrees_with_records_and_not_with_altered_ones() -> None:
    told = [one for one in RECORDS if one["outcome"]["ok"] and one["layers"] and one.get("tokens")][:3]
    altered = {**told[0], "id": "altered", "tokens": told[0]["tokens"] + 1}
    apart = {
        **told[0],
        "id": "apart",
        "outcome": {"ok": False, "stage": "args", "first_line": "failed to be inspected"},
    }
    with opened(()) as configs:
        found = drift.compared([*told, altered, apart], "0.33.0", configs, jobs=1)
    assert (found.compared, found.passed_over) == (4, 1)
    assert [(one.record, one.field) for one in found.differences] == [("altered", "capacity tokens")]


def test_kvplan_may_act_as_another_release() -> None:
    # until 0.32.0 an indexer's cache has the V dimension of its keys
    told = [one for one in RECORDS if one["outcome"]["ok"] and one["config"] == "zai-org__GLM-5.2-FP8"][:1]
    with opened(()) as configs:
        assert drift.compared(told, "0.33.0", configs, jobs=1).differences == ()
        assert drift.compared(told, "0.16.0", configs, jobs=1).differences


def test_a_release_that_cannot_be_acted_is_refused() -> None:
    with opened(()) as configs, pytest.raises(InputError):
        drift.compared([], "0.1.0", configs, jobs=1)
