"""KV921: a settings file changes what is found."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules.rule import Manifest, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV921"


def check(_plan: Plan) -> Iterator[Finding]:
    """Nothing: a plan knows no settings. The run that has read them tells of them once."""
    yield from ()


def told(settings: str) -> Finding:
    """The finding on settings in words: the file, and what of it acts."""
    return Finding(
        rule=CODE,
        severity=Severity.NOTE,
        message=f"settings change what is found: {settings}",
        fix="--isolated leaves the settings file out, --no-ignore what it leaves out",
    )


RULE = Rule(
    code=CODE,
    name="settings-change-findings",
    severity=Severity.NOTE,
    summary="A settings file chooses, regrades or leaves out findings, files or models.",
    explanation=(
        "The settings file that holds where kvplan runs is part of the tree that is checked. Whoever may change the "
        "tree may so change what is found in it: leave rules out (ignore, select), give them other severities, "
        "suppress findings, leave files out (scan.include, scan.exclude), or say what a model is (catalog). This "
        "note, told once a run and with the first launch, says which of them act. Nothing in a settings file switches "
        "it off.\n\n"
        "Where pull requests of others are checked, run with `--isolated --no-ignore`, or with `--kvplan-config` and "
        "the settings file of the base branch."
    ),
    bad=Manifest(
        file="serve.sh",
        content="vllm serve Qwen/Qwen3-0.6B --kv-cache-dtype fp8\n",
        beside=(("kvplan.toml", 'ignore = ["KV2"]\n'),),
        isolated=False,
    ),
    good=Manifest(file="serve.sh", content="vllm serve Qwen/Qwen3-0.6B --kv-cache-dtype fp8\n"),
    check=check,
)
