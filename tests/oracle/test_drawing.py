"""The draw of questions: the same seed gives the same, and every one can be asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvplan.launch.build import from_command
from kvplan.releases import resolve
from tests.oracle.configs import opened
from tests.oracle.drawing import NOT_DRAWN, Draw, drawn
from tests.oracle.questions import of_line

CONFIGS: dict[str, dict[str, Any]] = {
    "dense": {"num_hidden_layers": 32},
    "experts": {"text_config": {"num_hidden_layers": 61, "n_routed_experts": 256, "kv_lora_rank": 512}},
    "drafts": {"num_hidden_layers": 24, "num_nextn_predict_layers": 1},
}


@pytest.mark.parametrize("kind", list(Draw))
@pytest.mark.parametrize("release", ["0.16.0", "0.25.1", "0.33.0"])
def test_a_seed_draws_the_same_and_another_others(kind: Draw, release: str) -> None:
    first = drawn(kind, release, CONFIGS, 60, 7)
    assert first == drawn(kind, release, dict(reversed(CONFIGS.items())), 60, 7)
    assert first != drawn(kind, release, CONFIGS, 60, 8)
    assert len({question.id for question in first}) == 60
    assert {question.config for question in first} == set(CONFIGS)


@pytest.mark.parametrize("release", ["0.16.0", "0.33.0"])
def test_options_are_those_of_the_parser(release: str) -> None:
    """Every word is read; what is refused is refused for its value, never as an unknown option."""
    for question in drawn(Draw.OPTIONS, release, CONFIGS, 200, 3):
        launch = from_command(["vllm", "serve", "a/model", *question.flags], release=resolve(release))
        assert not any("unrecognized" in refusal.message for refusal in launch.refusals), question.flags
        assert NOT_DRAWN.isdisjoint(launch.settings), question.flags


def test_launches_start_as_deployments_do() -> None:
    questions = drawn(Draw.LAUNCHES, "0.33.0", CONFIGS, 300, 3)
    for question in questions:
        launch = from_command(["vllm", "serve", "a/model", *question.flags], release=resolve("0.33.0"))
        assert not launch.refusals, question.flags
        if "--speculative-config" in question.flags:
            assert question.config == "drafts"
    words = [word for question in questions for word in question.flags]
    assert {"-tp", "--kv-cache-dtype", "--enable-expert-parallel", "-dcp", "--speculative-config"} <= set(words)


def test_a_question_can_be_written_down() -> None:
    for question in drawn(Draw.OPTIONS, "0.33.0", CONFIGS, 20, 1):
        told = {"id": question.id, "release": question.release, "gpu": question.gpu, "config": question.config}
        line = json.dumps({**told, "flags": question.flags, "available_bytes": question.available_bytes})
        assert of_line(json.loads(line)).flags == question.flags


def test_published_and_short_configs_are_told_apart() -> None:
    with opened(()) as configs:
        published, classes = configs.contents(), configs.contents("_class__")
    assert len(published) > 200
    assert not any(name.startswith("_") for name in published)
    assert classes
    assert all(name.startswith("_class__") for name in classes)
