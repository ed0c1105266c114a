"""A draft in the speculators format that is served: vLLM takes the model it names, and it as that model's draft."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan import Plan
from kvplan.engine.failures import SpeculativeConfigRefused
from kvplan.errors import InputError
from tests import asking
from tests.asking import kvplan, told

LAYERS = {
    "model_type": "qwen3",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_hidden_layers": 1,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
}


def _speculator(folder: Path, kind: str = "eagle3", verifier: object = "Qwen/Qwen3-8B", **changes: Any) -> str:
    config = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": kind,
        "transformer_layer_config": LAYERS,
        "speculators_config": {
            "proposal_methods": [{"speculative_tokens": 3}],
            "verifier": {"name_or_path": verifier},
        },
        **changes,
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return str(folder)


def _planned(model: str, release: str = "0.33.0", *words: str) -> Plan:
    return asking.planned(["vllm", "serve", model, *words], release=release, gpu=None)


def test_the_verifier_is_served_with_the_draft(tmp_path: Path) -> None:
    """36 layers of Qwen3-8B and the draft's one, of 16 * 8 * 2 * 128 * 2 bytes."""
    found = _planned(_speculator(tmp_path / "draft"))
    assert found.checkpoint.name == "Qwen/Qwen3-8B"
    assert found.settings is not None
    assert (found.settings.speculative_method, found.settings.num_speculative_tokens) == ("eagle3", 3)
    assert found.settings.draft_architecture == "Eagle3Qwen3ForCausalLM"
    assert len(found.layers) == 37
    assert {layer.page_bytes for layer in found.layers} == {65_536}


@pytest.mark.parametrize(("release", "tokens"), [("0.28.0", 3), ("0.29.0", 2)])
def test_keys_of_the_launch_are_kept_from_0_29_on(tmp_path: Path, release: str, tokens: int) -> None:
    own = json.dumps({"num_speculative_tokens": 2, "method": "ngram"})
    found = _planned(_speculator(tmp_path / "draft"), release, "--speculative-config", own)
    assert found.settings is not None
    assert (found.settings.speculative_method, found.settings.num_speculative_tokens) == ("eagle3", tokens)


@pytest.mark.parametrize(
    ("kind", "release", "architecture"),
    [
        ("eagle3", "0.23.0", "Eagle3LlamaForCausalLM"),
        ("eagle3", "0.24.0", "Eagle3Qwen3ForCausalLM"),
        ("peagle", "0.33.0", "PeagleQwen3ForCausalLM"),
        ("dflash2", "0.33.0", "DFlash2DraftModel"),
        ("peagle", "0.21.0", None),
        ("dspark", "0.24.0", None),
    ],
)
def test_kinds_and_classes_by_release(tmp_path: Path, kind: str, release: str, architecture: str | None) -> None:
    found = _planned(_speculator(tmp_path / "draft", kind), release)
    if architecture is None:
        assert [facts.key for _, facts in found.failures(SpeculativeConfigRefused)]
        return
    assert found.settings is not None
    assert found.settings.draft_architecture == architecture


def test_a_verifier_on_this_machine_is_refused_from_0_33_on(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    config = {**LAYERS, "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 2, "dtype": "bfloat16"}
    (target / "config.json").write_text(json.dumps(config), encoding="utf-8")
    draft = _speculator(tmp_path / "draft", verifier=str(target))
    assert _planned(draft, "0.32.0").ok
    refused = _planned(draft)
    assert refused.error is not None
    assert "must name a remote model repository" in refused.error.message


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"speculators_config": {"proposal_methods": []}}, "proposal_methods[0].speculative_tokens"),
        ({"speculators_config": {"proposal_methods": [{"speculative_tokens": 3}]}}, "verifier.name_or_path"),
        ({"transformer_layer_config": None}, "transformer_layer_config"),
    ],
)
def test_what_the_file_must_say(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError, match=field.replace("[", r"\[").replace("]", r"\]")):
        _planned(_speculator(tmp_path / "draft", **changes))


def test_the_command_line_tells_of_the_verifier(tmp_path: Path) -> None:
    draft = _speculator(tmp_path / "draft")
    planned = kvplan("plan", draft, "--format", "json", "--available-kv-memory", "60GiB")
    assert planned.exit_code == 0
    assert "vLLM serves Qwen/Qwen3-8B with it" in planned.stderr
    assert json.loads(planned.stdout)["model"]["name"] == "Qwen/Qwen3-8B"
    swept = kvplan("sweep", draft, "--vllm-version", "0.23.0,0.33.0", "--format", "json")
    assert swept.exit_code == 0
    assert "Qwen/Qwen3-8B" in swept.stdout


def test_scan_reads_drafts(tmp_path: Path) -> None:
    draft = _speculator(tmp_path / "draft")
    script = tmp_path / "serve.sh"
    asked = json.dumps({"method": "eagle3", "model": "our/draft", "num_speculative_tokens": 3})
    script.write_text(
        f"vllm serve our/draft\nvllm serve Qwen/Qwen3-8B --speculative-config '{asked}'\n", encoding="utf-8"
    )
    report = told("scan", str(script), "--offline", "--model-map", f"our/draft={draft}")
    assert report["unreadable"] == []
    assert [launch["model"]["name"] for launch in report["launches"]] == ["Qwen/Qwen3-8B"] * 2
