"""What tensor parallelism must divide beside the decoder's heads, and parts that name no architecture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.engine import Plan
from kvplan.engine.values import Stage
from tests import asking

QWEN_VL = "Qwen/Qwen2.5-VL-7B-Instruct"


def planned(model: str, *flags: str, release: str = "0.33.0") -> Plan:
    return asking.planned(["vllm", "serve", model, *flags], release=release, gpu="h100", memory=2**36)


def refusal(found: Plan) -> str | None:
    return None if found.error is None else found.error.message


def test_heads_of_the_tower_must_divide() -> None:
    # Gemma 3's decoder has 32 heads, its vision tower 16.
    found = planned("google/gemma-3-27b-it", "-tp", "32")
    assert found.error is not None
    assert (found.error.stage, found.error.code) == (Stage.PARALLEL, "part_not_divisible")
    assert found.error.message == "16 is not divisible by 32"
    assert found.layers  # the decoder is planned all the same
    assert planned("google/gemma-3-27b-it", "-tp", "16").error is None


@pytest.mark.parametrize("flags", [("--limit-mm-per-prompt", '{"image": 0}'), ("--mm-encoder-tp-mode", "data")])
def test_gemma_s_tower_is_built_whatever_is_said(flags: tuple[str, str]) -> None:
    assert refusal(planned("google/gemma-3-27b-it", "-tp", "32", *flags)) == "16 is not divisible by 32"


def test_widths_of_the_tower_must_divide_unless_it_stays_whole(tmp_path: Path) -> None:
    # 3420 / 8 = 427.5, as for Qwen2.5-VL-3B
    config = vision_config(tmp_path, heads=16, kv_heads=8, vision={"num_heads": 16, "intermediate_size": 3420})
    assert refusal(planned(config, "-tp", "8")) == ""  # the merged layer asserts without a text
    assert planned(config, "-tp", "4").error is None
    assert planned(config, "-tp", "8", "--mm-encoder-tp-mode", "data").error is None


def vision_config(folder: Path, *, heads: int, kv_heads: int, vision: dict[str, Any]) -> str:
    config = {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "model_type": "qwen2_5_vl",
        "text_config": {
            "model_type": "qwen2_5_vl_text",
            "hidden_size": 128 * heads,
            "intermediate_size": 8192,
            "num_attention_heads": heads,
            "num_hidden_layers": 2,
            "num_key_value_heads": kv_heads,
            "vocab_size": 151936,
        },
        "vision_config": vision,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return str(folder)


def test_the_filled_up_vocabulary_must_divide() -> None:
    # 151,936 tokens are 2,374 times 64, which 3 does not divide; Llama 3's 128,256 are 3 times 42,752.
    assert refusal(planned("Qwen/Qwen2.5-1.5B", "-tp", "3")) == "151936 is not divisible by 3"
    assert refusal(planned("meta-llama/Llama-3.2-3B", "-tp", "6")) != "128256 is not divisible by 6"


def test_a_tower_may_stay_whole_by_itself() -> None:
    # Kimi K2.5's vision tower has 16 heads; since 0.26.0 a rank that cannot have some of them has all.
    assert refusal(planned("moonshotai/Kimi-K2.5", "-tp", "32", release="0.25.1")) == "16 is not divisible by 32"
    assert refusal(planned("moonshotai/Kimi-K2.5", "-tp", "32", release="0.26.0")) != "16 is not divisible by 32"


@pytest.mark.parametrize(
    ("release", "stops"), [("0.16.0", False), ("0.17.1", True), ("0.29.0", True), ("0.30.0", False)]
)
def test_qwen3_vl_in_a_pipeline_names_its_language_model_only_since_0_30(release: str, stops: bool) -> None:
    found = planned("Qwen/Qwen3-VL-4B-Instruct", "-pp", "2", release=release)
    assert (found.error is not None and found.error.code == "part_unnamed") == stops
    assert planned("Qwen/Qwen3-VL-4B-Instruct", release=release).error is None


def test_a_wrapper_needs_the_name_of_what_it_wraps(tmp_path: Path) -> None:
    text = {
        "model_type": "qwen2",
        "hidden_size": 512,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "num_hidden_layers": 2,
    }
    config = {"architectures": ["InternVLForConditionalGeneration"], "model_type": "internvl", "text_config": text}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    before, after = planned(str(tmp_path), release="0.19.1"), planned(str(tmp_path), release="0.20.2")
    staged = planned(str(tmp_path), "-pp", "2", release="0.19.1")
    assert before.error is not None
    assert (before.error.stage, before.error.type) == (Stage.LAYERS, "TypeError")
    assert before.error.message == "'NoneType' object is not iterable"
    assert staged.error is not None
    assert (staged.error.type, staged.error.message) == ("ValidationError", "No model architectures are specified")
    assert after.error is None  # the causal class of its model type stands in


@pytest.mark.parametrize(
    ("model", "fails", "works", "exception"),
    [
        ("allenai/Olmo-3-7B-Instruct", "0.25.1", "0.26.0", "KeyError"),
        ("arcee-ai/Trinity-Nano-Preview", "0.31.0", "0.32.0", "TypeError"),
    ],
)
def test_classes_that_miss_a_field_of_the_config(model: str, fails: str, works: str, exception: str) -> None:
    before = planned(model, "--trust-remote-code", release=fails).error
    assert before is not None
    assert (before.stage, before.type) == (Stage.LAYERS, exception)
    assert planned(model, "--trust-remote-code", release=works).error is None
