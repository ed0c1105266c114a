"""Draft models in the speculators format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.checkpoint import load
from kvplan.errors import InputError

LAYERS: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 1,
    "vocab_size": 128256,
}


def _write(folder: Path, **changes: Any) -> str:
    config = {
        "speculators_model_type": "eagle3",
        "speculators_config": {"proposal_methods": [{"speculative_tokens": 3}]},
        "transformer_layer_config": LAYERS,
        **changes,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return str(folder)


def test_the_drafts_own_layers_are_read(tmp_path: Path) -> None:
    draft = load(_write(tmp_path), draft=True)
    assert draft.architectures == ("Eagle3LlamaForCausalLM",)
    assert draft.text_config["num_key_value_heads"] == 8


def test_it_is_no_model_to_serve_even_after_it_was_read_as_a_draft(tmp_path: Path) -> None:
    folder = _write(tmp_path)
    load(folder, draft=True)
    with pytest.raises(InputError, match="give the model it drafts for"):
        load(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"speculators_model_type": "oracle"}, "speculators_model_type"),
        ({"transformer_layer_config": None}, "transformer_layer_config"),
        ({"transformer_layer_config": {**LAYERS, "model_type": "gpt2"}}, "eagle3 draft has"),
    ],
)
def test_broken_ones_are_refused_in_one_line(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        load(_write(tmp_path, **changes), draft=True)
    assert "\n" not in str(refused.value)
