"""Models that keep no cache: their layers choose a backend all the same. Every answer is the oracle's."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.engine.values import Plan, Stage
from tests.asking import planned_with
from tests.engine.checkpoints import model

XLM_R = {
    "num_hidden_layers": 2,
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "max_position_embeddings": 514,
    "vocab_size": 128,
}


def plan(*flags: str, architecture: str = "XLMRobertaModel", kind: str = "xlm-roberta", **launch: Any) -> Plan:
    return planned_with(model(architecture, kind, **XLM_R), flags, **launch)


@pytest.mark.parametrize(
    ("flags", "starts"),
    [
        ((), True),
        (("--kv-cache-dtype", "fp8"), True),
        (("--kv-cache-dtype", "nvfp4"), False),
        (("--kv-cache-dtype", "turboquant_k8v4"), False),
        (("--attention-backend", "TRITON_ATTN"), True),
        (("--attention-backend", "FLASHINFER"), False),
        (("--attention-backend", "FLASHMLA"), False),
    ],
)
def test_the_backend_of_layers_that_keep_nothing(flags: tuple[str, ...], starts: bool) -> None:
    found = plan(*flags)
    assert (found.error is None) == starts
    if found.error is not None:
        assert (found.error.stage, found.error.type) == (Stage.BACKEND, "ValueError")
    assert found.layers == ()


def test_modernbert_hands_its_attention_no_cache_config() -> None:
    assert plan("--kv-cache-dtype", "nvfp4", architecture="ModernBertModel", kind="modernbert").error is None


def test_the_choice_is_told() -> None:
    (choice,) = plan().backends
    assert choice.backend == "FLASH_ATTN"
