"""Order, selection, look-up, the fallback and what is filled in."""

from __future__ import annotations

from dataclasses import replace
from inspect import get_annotations
from operator import attrgetter
from typing import Any

import pytest

from kvplan.engine.failures import Failure, ModelRefused, NoCommonBlockSize, PoolTooSmall, ViewMismatch
from kvplan.engine.values import Stage, StartupError
from kvplan.errors import InputError
from kvplan.launch.locations import Location, OriginKind
from kvplan.launch.values import Setting
from kvplan.releases import resolve
from kvplan.rules import Severity, get, rules, run

CLAIMED = sorted({kind for rule in rules() for kind in rule.claims}, key=attrgetter("code"))
SAMPLES: dict[str, Any] = {
    "str": "name",
    "int": 3,
    "float": 3.5,
    "bool": False,
    "object": "value",
    "tuple[str, ...]": ("one", "two"),
    "tuple[int, ...]": (1, 2),
}


def sample(kind: type[Failure]) -> Failure:
    """A failure of that kind with something in every field that needs a value."""
    hints = {name: hint for base in kind.__mro__ for name, hint in get_annotations(base).items()}
    needed = {name: hints[name].removesuffix(" | None") for name in kind.required}
    facts: dict[str, Any] = {name: SAMPLES[hint] for name, hint in needed.items()}
    return kind(**facts)


def test_worst_first_then_code_then_layer(launched: Any) -> None:
    found = run(launched("vllm serve openai/gpt-oss-120b --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1 0-3"))
    ranks = [(finding.severity.rank, finding.rule, min(finding.layers, default=-1)) for finding in found]
    assert ranks == sorted(ranks)
    assert found[0].rule == "KV503"
    assert found[0].severity is Severity.ERROR


def test_select_takes_codes_beginnings_and_names(launched: Any) -> None:
    plan = launched("vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0,1")
    assert {finding.rule for finding in run(plan, select=["KV103"])} == {"KV103"}
    assert {finding.rule for finding in run(plan, select=["kv2", "skip-token-matches-nothing"])} == {"KV103", "KV211"}
    assert {finding.rule for finding in run(plan, select=["KV103,KV211"])} == {"KV103", "KV211"}
    assert "KV103" not in {finding.rule for finding in run(plan, ignore=["KV1"])}
    assert run(plan, select=["KV103"], ignore=["KV103"]) == ()


@pytest.mark.parametrize("bad", ["KV999", "skip-tokn-matches-nothing", "", "   "])
def test_get_names_the_nearest(bad: str) -> None:
    with pytest.raises(InputError, match="there is no rule"):
        get(bad)


def test_get_by_code_and_name() -> None:
    assert get("kv201").code == "KV201"
    assert get(" packed-cache-viewed-plain ").code == "KV201"
    with pytest.raises(InputError, match=r"did you mean KV201 \(packed-cache-viewed-plain\)"):
        get("packed-cache-viewed-plan")


def test_unknown_selector_is_refused(launched: Any) -> None:
    with pytest.raises(InputError, match="there is no rule 'KV777'"):
        run(launched("vllm serve meta-llama/Llama-3.1-8B"), select=["KV777"])


@pytest.mark.parametrize("kind", CLAIMED)
def test_every_claimed_failure_gives_an_error_finding(kind: type[Failure], stopped: Any) -> None:
    release = next(rule.until or "0.33.0" for rule in rules() if kind in rule.claims)
    found = run(stopped(sample(kind), version=release))
    errors = {finding.rule for finding in found if finding.severity is Severity.ERROR}
    assert errors & {rule.code for rule in rules() if kind in rule.claims}
    assert "KV905" not in errors


def test_unclaimed_error_falls_to_kv905(stopped: Any) -> None:
    (finding,) = (finding for finding in run(stopped(ModelRefused())) if finding.severity is Severity.ERROR)
    assert finding.rule == "KV905"
    assert finding.message == "vLLM 0.33.0 stops in stage specs: ValueError: it does not work"


def test_claim_of_a_rule_for_other_releases_does_not_count(stopped: Any) -> None:
    # KV201 ends with 0.28.0; a failing view in a later release must not pass unmentioned.
    found = run(stopped(sample(ViewMismatch), version="0.33.0"))
    assert [finding.rule for finding in found if finding.severity is Severity.ERROR] == ["KV905"]


def test_later_errors_are_told_too(stopped: Any) -> None:
    plan = stopped(sample(PoolTooSmall))
    later = StartupError(Stage.KERNEL_BLOCK_SIZE, "ValueError", "no", sample(NoCommonBlockSize))
    plan = replace(plan, later_errors=(later,))
    assert {"KV506", "KV602"} <= {finding.rule for finding in run(plan)}


def test_references_and_location_are_filled_in(launched: Any) -> None:
    plan = launched("vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0,1")
    place = Location("deploy.yaml", 12, 9)
    name = "kv_cache_dtype_skip_layers"
    setting = Setting(name, ["0,1"], OriginKind.FLAG, "--kv-cache-dtype-skip-layers", place)
    launch = replace(plan.launch, settings={**plan.launch.settings, name: setting})
    (finding,) = run(replace(plan, launch=launch), select=["KV103"])
    assert finding.location == place
    assert finding.references == ("vllm#33695",)


def test_rules_outside_their_releases_stay_silent(launched: Any) -> None:
    plan = launched("vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0,1")
    assert run(replace(plan, release=resolve("0.18.1")), select=["KV103"]) == ()
