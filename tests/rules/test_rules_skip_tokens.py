"""Skip tokens that match nothing: the reason, and the list as vLLM needs it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvplan.rules import run
from kvplan.rules.options.skip_tokens import read

LLAMA = "vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8"
FLAG = "--kv-cache-dtype-skip-layers"


@pytest.mark.parametrize(
    ("tokens", "reason", "fix"),
    [
        ("0,1", "does not split at commas", f"{FLAG} 0 1"),
        ("0-3", "does not expand ranges", f"{FLAG} 0 1 2 3"),
        ("5 0,2-4", "does not split at commas", f"{FLAG} 5 0 2 3 4"),
        ("00", "leading zeros", f"{FLAG} 0"),
        ("layers.7", "by its number alone", f"{FLAG} 7"),
        ("model.layers.7.self_attn.attn", "by its number alone", f"{FLAG} 7"),
        ("0 32", "layers are 0 to 31", f"{FLAG} 0"),
        ("99", "layers are 0 to 31", f"drop {FLAG}: none of its tokens names a layer of this model"),
        ("28-99", "does not expand ranges", f"{FLAG} 28 29 30 31"),
        ("'[0, 1]'", "does not split at commas", f"{FLAG} 0 1"),
        ("sliding_window", "no layer of this model has a sliding window", f"drop {FLAG}: none of its tokens"),
        ("first", "a layer number or the word sliding_window", f"drop {FLAG}: none of its tokens"),
    ],
)
def test_llama(tokens: str, reason: str, fix: str, launched: Any) -> None:
    (finding,) = run(launched(f"{LLAMA} {FLAG} {tokens}"), select=["KV103"])
    assert reason in finding.message
    assert (finding.fix or "").startswith(fix)
    assert finding.options == (FLAG,)


def test_exact_words(launched: Any) -> None:
    (finding,) = run(launched(f"{LLAMA} {FLAG} 0,1"), select=["KV103"])
    assert finding.message == ("skip token '0,1' matches no layer: vLLM does not split at commas, so this is one token")


def test_words_for_kinds_of_layers(launched: Any) -> None:
    gpt = "vllm serve openai/gpt-oss-20b --kv-cache-dtype fp8"
    (full,) = run(launched(f"{gpt} {FLAG} full_attention"), select=["KV103"])
    assert full.fix == f"{FLAG} 1 3 5 7 9 11 13 15 17 19 21 23"
    (sliding,) = run(launched(f"{gpt} {FLAG} swa"), select=["KV103"])
    assert sliding.fix == f"{FLAG} sliding_window"


def test_one_finding_for_each_reason(launched: Any) -> None:
    found = run(launched(f"{LLAMA} {FLAG} 0,1 2-3 4-5 7"), select=["KV103"])
    assert len(found) == 2
    assert {finding.fix for finding in found} == {f"{FLAG} 0 1 2 3 4 5 7"}
    assert any("skip tokens '2-3' and '4-5' match no layer" in finding.message for finding in found)


def test_the_fix_works(launched: Any) -> None:
    (finding,) = run(launched(f"{LLAMA} {FLAG} 0,1 30-99"), select=["KV103"], ignore=None)[:1]
    mended = launched(f"{LLAMA} {finding.fix}")
    assert mended.skip.matched_layers == (0, 1, 30, 31)
    assert run(mended, select=["KV103"]) == ()


def test_swallowed_model_is_not_a_token(launched: Any) -> None:
    found = run(launched(f"vllm serve --kv-cache-dtype fp8 {FLAG} 0 meta-llama/Llama-3.1-8B"))
    assert {"KV103", "KV105"} & {finding.rule for finding in found} == {"KV105"}


def test_layers_that_were_not_reached_are_not_blamed(launched: Any) -> None:
    plan = launched(f"vllm serve deepseek-ai/DeepSeek-V3 -tp 8 --kv-cache-dtype fp8_e5m2 {FLAG} 3")
    assert not plan.ok
    assert run(plan, select=["KV103"]) == ()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(token=st.text(max_size=20) | st.from_regex(r"\A[\[(]?-?\d{1,6}([-,:. ]\d{1,6}){0,3}[\])]?\Z"))
def test_any_token_can_be_read(token: str, launched: Any) -> None:
    plan = launched(f"{LLAMA} {FLAG} 0")
    reading = read(token, plan)
    assert reading.reason
    assert all(word == "sliding_window" or 0 <= int(word) < 32 for word in reading.spelled)
    findings = run(replace(plan, skip=replace(plan.skip, tokens=(token,), unmatched_tokens=(token,))), select=["KV103"])
    assert all("\n" not in f"{finding.message}{finding.fix}" for finding in findings)
