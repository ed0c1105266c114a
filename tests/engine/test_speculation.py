"""Speculative decoding: methods, draft layers, their names and pages, runner and scheduling."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from kvplan.checkpoint import load
from kvplan.engine import Plan, plan
from kvplan.engine.coverage import is_covered
from kvplan.engine.models import families, registered
from kvplan.engine.models.geometry import Role
from kvplan.engine.specs.base import RequestLimits, SlidingWindowSpec
from kvplan.engine.speculation import running
from kvplan.engine.speculation.rewriting import MTP_TYPES, ROWS, rewrite
from kvplan.engine.speculation.values import Speculation
from kvplan.engine.speculation.wanted import METHODS
from kvplan.errors import InputError
from kvplan.launch.build import from_command
from kvplan.releases import KNOWN, resolve
from tests import asking

GIB = 1 << 30

LLAMA_DRAFT = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 1,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


def _run(command: str, version: str = "0.33.0", gpu: str = "h200", **spec: Any) -> Plan:
    asked = ("--speculative-config", json.dumps(spec)) if spec else ()
    return asking.planned(["vllm", "serve", *shlex.split(command), *asked], release=version, gpu=gpu)


def _draft(tmp_path: Path, **changes: Any) -> str:
    folder = tmp_path / str(changes.pop("name", "eagle3-head"))
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**LLAMA_DRAFT, **changes}), encoding="utf-8")
    return str(folder)


def _names(planned: Plan) -> list[str]:
    return [layer.name for layer in planned.layers if layer.role is Role.DRAFT]


def test_mtp_layer_follows_the_models_layers() -> None:
    planned = _run("DeepSeek-V3.2 -tp 8 --kv-cache-dtype fp8", method="mtp", num_speculative_tokens=1)
    indexer, latent = (layer for layer in planned.layers if layer.role is Role.DRAFT)
    assert (indexer.name, indexer.index) == ("model.layers.61.self_attn.indexer.k_cache", 61)
    assert indexer.page_bytes == 64 * 132
    assert latent.name == "model.layers.61.self_attn.attn"
    assert (latent.cache_dtype, latent.page_bytes) == ("fp8_ds_mla", 64 * 656)
    assert planned.settings is not None
    assert planned.settings.num_speculative_tokens == 1


def test_draft_model_is_built_under_its_own_prefix() -> None:
    planned = _run(
        "meta-llama/Llama-3.1-70B-Instruct -tp 4",
        model="meta-llama/Llama-3.2-1B",
        method="draft_model",
        num_speculative_tokens=3,
    )
    assert _names(planned) == [f"draft_model.model.layers.{index}.self_attn.attn" for index in range(16)]
    # 80 layers of 2 * (128 + 128) * 2 bytes and 16 of 2 * (64 + 64) * 2, blocks of 16 tokens.
    assert planned.capacity is not None
    assert planned.capacity.bytes_per_block == 16 * (80 * 1024 + 16 * 512) == 1_441_792
    assert planned.capacity.num_blocks == 44_683


@pytest.mark.parametrize(
    ("version", "spec", "backend"),
    [
        ("0.20.2", {}, "FLASHINFER"),
        ("0.21.0", {}, "FLASH_ATTN"),
        ("0.21.0", {"attention_backend": "TRITON_ATTN"}, "TRITON_ATTN"),
        ("0.29.0", {"attention_backend": "TRITON_ATTN"}, "FLASHINFER"),
        ("0.30.0", {"attention_backend": "TRITON_ATTN"}, "TRITON_ATTN"),
        ("0.33.0", {}, "FLASHINFER"),
    ],
)
def test_backend_of_an_eagle_head(tmp_path: Path, version: str, spec: dict[str, Any], backend: str) -> None:
    """The V1 runner (here to 0.22.1) lets the draft choose from 0.21.0 on, V2 lets the config say so from 0.30.0 on."""
    planned = _run(
        "meta-llama/Llama-3.1-8B --attention-backend FLASHINFER",
        version,
        method="eagle3",
        model=_draft(tmp_path),
        num_speculative_tokens=3,
        **spec,
    )
    (head,) = (layer for layer in planned.layers if layer.role is Role.DRAFT)
    assert head.name == "model.layers.32.self_attn.attn"
    assert head.backend == backend
    assert {layer.backend for layer in planned.layers if layer.role is Role.ATTENTION} == {"FLASHINFER"}


def test_draft_has_a_cache_dtype_of_its_own(tmp_path: Path) -> None:
    draft = _draft(tmp_path)
    spec: dict[str, Any] = {"method": "eagle3", "model": draft, "num_speculative_tokens": 3, "kv_cache_dtype": "fp8"}
    planned = _run("meta-llama/Llama-3.1-8B", **spec)
    head = planned.layers[-1]
    assert (head.cache_dtype, head.spec_page_bytes) == ("fp8", 16 * 8 * 256)
    assert {layer.cache_dtype for layer in planned.layers[:-1]} == {"auto"}
    refused = _run("meta-llama/Llama-3.1-8B", "0.25.1", **spec)
    assert refused.error is not None
    assert refused.error.code == "speculative_config"


def test_drafts_are_on_the_last_stage(tmp_path: Path) -> None:
    planned = _run("meta-llama/Llama-3.1-8B -pp 2", method="eagle3", model=_draft(tmp_path), num_speculative_tokens=3)
    assert [(layer.name, layer.rank) for layer in planned.layers if layer.role is Role.DRAFT] == [
        ("model.layers.32.self_attn.attn", 1)
    ]


def test_eagle_1_takes_a_taken_name_on_a_later_stage(tmp_path: Path) -> None:
    draft = _draft(tmp_path, architectures=["LlamaForCausalLM"], name="eagle1")
    planned = _run("meta-llama/Llama-3.1-8B -pp 2", method="eagle", model=draft, num_speculative_tokens=3)
    assert planned.error is not None
    assert planned.error.message == "Duplicate layer name: model.layers.16.self_attn.attn"


def test_older_releases_want_drafts_that_pipeline(tmp_path: Path) -> None:
    spec: dict[str, Any] = {"method": "eagle3", "model": _draft(tmp_path), "num_speculative_tokens": 3}
    planned = _run("meta-llama/Llama-3.1-8B -pp 2", "0.29.0", **spec)
    assert planned.error is not None
    assert planned.error.code == "pipeline_unsupported"


def test_skip_tokens_reach_the_draft() -> None:
    planned = _run(
        "DeepSeek-V3.2 -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 61",
        method="mtp",
        num_speculative_tokens=1,
    )
    assert planned.skip.matched_drafts == ("model.layers.61.self_attn.attn",)
    assert planned.skip.matched_layers == ()
    assert planned.skip.unmatched_tokens == ()
    assert planned.layers[-1].skipped


def test_a_draft_model_has_layers_of_the_same_numbers() -> None:
    planned = _run(
        "meta-llama/Llama-3.1-8B --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 3",
        model="meta-llama/Llama-3.2-1B",
        num_speculative_tokens=3,
    )
    assert planned.skip.matched_layers == (3,)
    assert planned.skip.matched_drafts == ("draft_model.model.layers.3.self_attn.attn",)


def test_sparse_target_whose_auto_is_fp8_keeps_a_separate_draft_plain(tmp_path: Path) -> None:
    draft = _draft(tmp_path)
    planned = _run("GLM-5.2-FP8 -tp 8", gpu="b200", method="eagle3", model=draft, num_speculative_tokens=3)
    assert planned.settings is not None
    assert planned.settings.cache_dtype == "fp8_e4m3"
    assert planned.layers[-1].cache_dtype == "auto"


@pytest.mark.parametrize(
    ("version", "method", "runner", "asynchronous"),
    [
        ("0.21.0", "ngram", "V1", False),
        ("0.25.1", "ngram", "V1", False),
        ("0.32.0", "ngram", "V2", False),
        ("0.33.0", "ngram", "V2", True),
    ],
)
def test_ngram_runner_and_scheduling(version: str, method: str, runner: str, asynchronous: bool) -> None:
    planned = _run("meta-llama/Llama-3.1-8B", version, method=method, num_speculative_tokens=3)
    assert planned.settings is not None
    assert (planned.settings.model_runner, planned.settings.async_scheduling) == (runner, asynchronous)
    assert not _names(planned)


@pytest.mark.parametrize("version", KNOWN)
def test_every_release_speculates(version: str) -> None:
    planned = _run("DeepSeek-V3.2 -tp 8", version, method="mtp", num_speculative_tokens=1)
    assert _names(planned)[-1] == "model.layers.61.self_attn.attn"


@pytest.mark.parametrize(
    ("spec", "version", "said"),
    [
        ({"method": "ngram", "num_speculative_tokens": 3, "colour": 1}, "0.33.0", "Unexpected keyword"),
        ({"method": "dspark", "num_speculative_tokens": 3}, "0.24.0", "method\n  Input should be 'ngram', 'medusa'"),
        ({"method": "mtp", "num_speculative_tokens": 3}, "0.33.0", "Unsupported speculative method: 'mtp'"),
        ({"method": "eagle3", "num_speculative_tokens": 3}, "0.33.0", "without speculative model"),
        ({"method": "ngram", "num_speculative_tokens": 0}, "0.33.0", "greater than 0"),
        ({"method": "ngram", "num_speculative_tokens": "three"}, "0.33.0", "valid integer"),
        (
            {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 5, "prompt_lookup_max": 4},
            "0.33.0",
            "prompt_lookup_min=5",
        ),
        ({"method": "ngram"}, "0.33.0", "num_speculative_tokens must be provided"),
    ],
)
def test_refusals(spec: dict[str, Any], version: str, said: str) -> None:
    planned = _run("meta-llama/Llama-3.1-8B", version, **spec)
    assert planned.error is not None
    assert planned.error.code == "speculative_config"
    assert said in planned.error.message


def test_flags_fill_the_config_and_must_not_contradict_it() -> None:
    planned = _run("meta-llama/Llama-3.1-8B --spec-method ngram --spec-tokens 4")
    assert planned.settings is not None
    assert (planned.settings.speculative_method, planned.settings.num_speculative_tokens) == ("ngram", 4)
    twice = _run("meta-llama/Llama-3.1-8B --spec-method ngram", method="ngram", num_speculative_tokens=3)
    assert twice.error is not None
    assert "mutually exclusive" in twice.error.message


def test_tokens_must_be_a_multiple_of_the_modules() -> None:
    planned = _run("Step-3.5-Flash -tp 8", "0.25.1", method="mtp", num_speculative_tokens=4)
    assert planned.error is not None
    assert "must be divisible by n_predict=3" in planned.error.message


def test_a_draft_needs_the_targets_vocabulary() -> None:
    planned = _run("Qwen/Qwen3-8B", model="meta-llama/Llama-3.2-1B", num_speculative_tokens=3)
    assert planned.error is not None
    assert "same vocabulary size" in planned.error.message


def test_a_draft_that_was_not_read_is_named() -> None:
    words = ["vllm", "serve", "meta-llama/Llama-3.1-8B", "--speculative-config"]
    launch = from_command(
        [*words, json.dumps({"model": "no/such-draft", "num_speculative_tokens": 3})], release=resolve("0.33.0")
    )
    with pytest.raises(InputError, match="no/such-draft"):
        plan(load("meta-llama/Llama-3.1-8B", offline=True), launch)


def test_v2_serves_no_longer_requests_than_a_draft_model(tmp_path: Path) -> None:
    spec: dict[str, Any] = {
        "method": "draft_model",
        "model": _draft(tmp_path, architectures=["LlamaForCausalLM"], max_position_embeddings=8192, name="short"),
        "num_speculative_tokens": 3,
    }
    lengths = {}
    for version in ("0.32.0", "0.33.0"):
        settings = _run("meta-llama/Llama-3.1-8B", version, **spec).settings
        assert settings is not None
        lengths[version] = settings.max_model_len
    assert lengths == {"0.32.0": 131072, "0.33.0": 8192}


def test_windows_keep_what_several_modules_read_ahead() -> None:
    """Three modules read three tokens ahead: two more tokens stay below the window."""
    spec = SlidingWindowSpec(
        block_size=16,
        num_kv_heads=1,
        head_size=128,
        head_size_v=128,
        dtype="bfloat16",
        quant_mode=None,
        token_bytes=512,
        sliding_window=128,
    )
    assert Speculation(method="mtp", tokens=3, modules=3).extra_retained_tokens == 2
    assert Speculation(method="mtp", tokens=3, modules=1).extra_retained_tokens == 0
    # 127 + 17 tokens are 9 blocks and one for the ragged start; 2 more tokens make it 10 and one.
    assert spec.request_blocks(RequestLimits(4096, 17)) == 10
    assert spec.request_blocks(RequestLimits(4096, 17, retained_tokens=2)) == 11


def test_batch_needs_room_for_the_draft() -> None:
    parallel = Speculation(method="eagle3", tokens=5, parallel_drafting=True)
    running.check_batch(parallel, resolve("0.27.1"), 1025, 256)
    for version, batched, said in (
        ("0.27.1", 1024, "max_num_scheduled_tokens is set to 0"),
        ("0.28.0", 4, "scheduled_token_delta=4"),
        ("0.33.0", 5, "num_lookahead_tokens="),
    ):
        with pytest.raises(Exception, match=said):
            running.check_batch(parallel, resolve(version), batched, 256)


@pytest.mark.parametrize("version", KNOWN)
def test_rewriting_names_registered_drafts(version: str) -> None:
    release = resolve(version)
    for row in ROWS:
        if release.within(row) and row.architecture:
            assert registered.lookup(row.architecture, release) is not None, row.architecture


def test_rewriting_leaves_ordinary_models_alone() -> None:
    checkpoint = load("meta-llama/Llama-3.1-8B", offline=True)
    assert rewrite(checkpoint, resolve("0.33.0")).checkpoint == checkpoint


@pytest.mark.parametrize("version", ["0.24.0", "0.33.0"])
def test_most_registered_drafts_have_a_recipe(version: str) -> None:
    release = resolve(version)
    entries = [registered.lookup(name, release) for name in registered.architectures(release)]
    unknown = {
        entry.architecture
        for entry in entries
        if entry is not None and entry.kind == "draft" and families.draft_of(entry) is None
    }
    assert unknown <= UNREAD


UNREAD = {"ExtractHiddenStatesModel", "MedusaModel"}
"""Drafts that are not built from their own class: one keeps no cache, the other is no model."""


def test_tables_are_sound() -> None:
    assert {name for name in METHODS if name.endswith("_mtp")} <= MTP_TYPES


def test_the_draft_must_be_covered_too() -> None:
    planned = _run("DeepSeek-V3.2 -tp 8", method="mtp", num_speculative_tokens=1)
    assert planned.geometry is not None
    assert planned.settings is not None
    assert planned.settings.draft_architecture == "DeepseekV32MTPModel"
    assert is_covered(planned.geometry, planned.release, "DeepseekV32MTPModel") == planned.exact
    assert not is_covered(planned.geometry, planned.release, "NoSuchDraft")
