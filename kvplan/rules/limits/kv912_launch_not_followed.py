"""KV912: a scan cannot follow a launch, or cannot read a file."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules.rule import Manifest, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV912"


def check(_plan: Plan) -> Iterator[Finding]:
    """Nothing: where there is a plan, the launch was followed. A scan tells of the others."""
    yield from ()


RULE = Rule(
    code=CODE,
    name="launch-not-followed",
    severity=Severity.WARNING,
    summary="A launch or a file that a scan cannot follow: nothing about it was checked.",
    explanation=(
        "`kvplan scan` found a command that starts vLLM, or a file that may hold one, and could not find out what "
        "would be started: the model is a variable or a path inside the container, the command runs a script that is "
        "not at hand, the release or the platform is none that kvplan emulates, or the file cannot be parsed. The "
        "reason says which, and which option answers it: --model-map, --env, --vllm-version, --gpu.\n\n"
        "It counts as a warning, so that `--fail-on warning` does not pass what was not checked; `[severity] KV912 = "
        '"error"` makes it one. --select and --ignore do not reach it. To let a launch be takes a reason: a comment at '
        "the launch (`# kvplan: ignore[KV912] served by another team`; for a file that cannot be parsed, anywhere in "
        "it), a [[suppress]] entry, or a baseline."
    ),
    bad=Manifest(file="run.sh", content="vllm serve /models/glm -tp 8\n"),
    good=Manifest(
        file="run.sh",
        content="vllm serve /models/glm -tp 8\n",
        options=("--gpu", "h200", "--model-map", "/models/glm=zai-org/GLM-5.2-FP8"),
    ),
    check=check,
)
