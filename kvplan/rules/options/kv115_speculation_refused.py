"""KV115: the speculative config is refused."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import SPECULATIVE_KEYS, SPECULATIVE_METHODS
from kvplan.engine.failures import DraftNotBuilt, NoRoomForDraft, NoStatesForDraft, SpeculativeConfigRefused
from kvplan.engine.values import Plan, StartupError
from kvplan.releases import Span
from kvplan.rules import words
from kvplan.rules.options.availability import nearest
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV115"
FLAG = "--speculative-config"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding per refusal."""
    for error, facts in plan.failures(SpeculativeConfigRefused):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} refuses {FLAG}: {words.one_line(error.message)}",
            options=(FLAG,),
            fix=_fix(error, facts),
        )
    for _, lacking in plan.failures(NoStatesForDraft):
        since = lacking.since
        upgrade = f"use vLLM {since} or later, or " if since is not None else ""
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{lacking.architecture} does not hand out the hidden states that {lacking.method} "
                f"drafts read in {words.release_name(plan)}"
            ),
            options=(FLAG,),
            fix=f"{upgrade}take a draft that does without: a draft_model, mtp or ngram",
        )
    for error, _ in plan.failures(DraftNotBuilt):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} cannot build the draft: {words.one_line(error.message)}",
            options=(FLAG,),
            fix="take a checkpoint whose config has the fields of its draft, or leave --speculative-config out",
        )
    for _, crowded in plan.failures(NoRoomForDraft):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"--max-num-batched-tokens {crowded.batched_tokens} leaves no room for the {crowded.slots} tokens "
                "of the draft"
            ),
            options=("--max-num-batched-tokens", FLAG),
            fix="raise --max-num-batched-tokens, or lower num_speculative_tokens or --max-num-seqs",
        )


def _fix(error: StartupError, facts: SpeculativeConfigRefused) -> str:
    key, value = facts.key, facts.value
    if key in SPECULATIVE_KEYS and "Unexpected" in error.message:
        return f"leave the key {key} out: {_have(SPECULATIVE_KEYS[key])}"
    if "Unexpected" in error.message:
        close = nearest(key, tuple(SPECULATIVE_KEYS))
        return f"write {close} for {key}" if close is not None else f"leave the key {key} out"
    why = facts.why
    if why is not None:
        return f"leave {FLAG} out: {why}"
    if key == "quantization":
        return "leave the key quantization out, or use vLLM 0.29.0 or later"
    if key == "speculative_config":
        return f"""{FLAG} '{{"method": …, "num_speculative_tokens": …}}'"""
    if key == "method" and value in SPECULATIVE_METHODS:
        return f"another method: {_have(SPECULATIVE_METHODS[str(value)])}"
    if key == "method":
        return "give a method that fits the model and its draft, or leave method out where a draft model is named"
    return f"correct {key}" if value is not None else f"add {key}"


def _have(span: Span) -> str:
    since, until = span.since, span.until
    if since and until:
        return f"releases {since} to {until} have it" if since != until else f"only {since} has it"
    return f"releases from {since} on have it" if since else f"releases up to {until} have it"


RULE = Rule(
    code=CODE,
    name="speculation-refused",
    severity=Severity.ERROR,
    summary="vLLM refuses --speculative-config.",
    explanation=(
        "`--speculative-config` is a JSON object whose keys are checked: an unknown key, a method that the "
        "release does not have, a number that is no multiple of the model's MTP modules, a draft with another "
        "vocabulary or a tensor-parallel size other than 1 or the target's end start-up. So does `mtp` for a model "
        "without MTP layers, a batch that has no room for the tokens a draft adds, and an EAGLE 3, DFlash or DSpark "
        "draft beside a model whose class does not hand out its hidden states.\n\n"
        "Keys and methods come and go with releases: kv_cache_dtype came with 0.26.0, attention_backend with "
        "0.21.0, dspark with 0.25.1; medusa left with 0.33.0. The fix says which releases have what was asked."
    ),
    bad=Example(
        version="0.25.1",
        command=(
            "vllm serve meta-llama/Llama-3.1-8B --speculative-config "
            '\'{"method": "ngram", "num_speculative_tokens": 3, "kv_cache_dtype": "fp8"}\''
        ),
    ),
    good=Example(
        version="0.33.0",
        command=(
            "vllm serve meta-llama/Llama-3.1-8B --speculative-config "
            '\'{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}\''
        ),
    ),
    claims=(SpeculativeConfigRefused, DraftNotBuilt, NoStatesForDraft, NoRoomForDraft),
    check=check,
)
