"""What is proposed was planned: every fix of every rule's example works when it is typed."""

from __future__ import annotations

import pytest

from kvplan.engine import Plan
from kvplan.rules import Example, Finding, Severity, rules, run
from kvplan.runs.fixes.mending import mended
from tests import asking
from tests.asking import planned, retyped, told

EXAMPLES = [(rule.code, rule.bad) for rule in rules() if isinstance(rule.bad, Example)]


def plan_of(example: Example) -> Plan:
    return planned(
        example.words, release=example.version, gpu=example.gpu, memory=example.available, weights=example.weights
    )


def typed(example: Example, words: str) -> tuple[str, ...]:
    """kvplan's options and the example's command with the words of a proposal typed in."""
    command, release, gpus = retyped(example.words, words)
    options = list(example.options)
    if release is not None:
        options[options.index("--vllm-version") + 1] = release
    if gpus is not None:
        at = options.index("--gpu") + 1
        options[at] = f"{options[at].partition(':')[0]}:{gpus}"
    return (*options, "--", *command)


@pytest.mark.parametrize(("code", "example"), EXAMPLES, ids=[code for code, _ in EXAMPLES])
def test_every_fix_of_an_example_works_as_typed(code: str, example: Example) -> None:
    plan = plan_of(example)
    before = run(plan)
    errors = {one.rule for one in before if one.severity is Severity.ERROR}
    for finding in mended(plan, before, None):
        for fix in finding.fixes:
            report = told("check", "--isolated", "--offline", *typed(example, fix.words))
            left = {one["rule"] for one in report["findings"] if one["severity"] == "error"}
            worse = [one for one in report["findings"] if one["rule"] == finding.rule]
            assert left <= errors - {finding.rule}, f"{finding.rule}: {fix.words}"
            assert all(Severity(one["severity"]).rank > finding.severity.rank for one in worse), fix.words


def fixes(command: str, code: str, *, gpu: str = "h200", memory: str | None = None) -> tuple[str, ...]:
    plan = planned(command, gpu=gpu, memory=memory)
    (finding,) = [one for one in mended(plan, run(plan), None) if one.rule == code]
    return tuple(one.text for one in finding.fixes)


def test_a_pool_too_small() -> None:
    """Llama 3.1 8B: 131,072 tokens need 16 GiB in bfloat16 and 8 GiB in fp8, so 4 GiB want another length or GPUs."""
    found = fixes("vllm serve meta-llama/Llama-3.1-8B", "KV602", memory="4GiB")
    assert found[0] == "--max-model-len 32752 (32,752 tokens a request instead of 131,072)"
    assert any(one.startswith("--tensor-parallel-size 4 (keeps 131,072 tokens: 4.00 GiB") for one in found) is False
    assert any(one.startswith("--tensor-parallel-size 8 (keeps 131,072 tokens: 2.00 GiB") for one in found)
    assert not any("fp8" in one for one in found)
    roomier = fixes("vllm serve meta-llama/Llama-3.1-8B", "KV602", memory="9GiB")
    assert roomier[0].startswith("--kv-cache-dtype fp8 (keeps 131,072 tokens: 8.00 GiB instead of 16.00 GiB")


def test_what_was_not_given_is_not_dropped() -> None:
    found = fixes("vllm serve meta-llama/Llama-3.1-8B --attention-backend FLASHMLA", "KV302", gpu="a100")
    assert found[0].startswith("drop --attention-backend")
    assert not any("drop" in one and "--attention-backend" not in one for one in found)


def test_advice_stays_and_claims_that_were_not_planned_do_not() -> None:
    plan = planned("vllm serve facebook/bart-base", release="0.31.0")
    findings: tuple[Finding, ...] = mended(plan, run(plan))
    assert all(one.fix is None or one.fixes or one.rule in ("KV110", "KV905", "KV901") for one in findings)


def test_json_tells_all_and_text_three() -> None:
    command = ("--gpu", "h200", "--", "vllm", "serve", "openai/gpt-oss-120b", "--kv-cache-dtype", "fp8")
    words = (
        "check",
        "--isolated",
        "--available-kv-memory",
        "60GiB",
        *command,
        "--kv-cache-dtype-skip-layers",
        "0",
        "1",
    )
    report = told(*words)
    (finding,) = [one for one in report["findings"] if one["severity"] == "error"]
    assert len(finding["fixes"]) > 3
    assert finding["fix"].count("; or ") == 2
    assert (
        "; or ".join(
            f"{one['words']} ({one['effect']})" if one["effect"] else one["words"] for one in finding["fixes"][:3]
        )
        == finding["fix"]
    )
    assert finding["fix"] in " ".join(asking.kvplan(*words).stdout.split())
