"""Drafts whose caches every rank keeps whole under decode context parallelism."""

from __future__ import annotations

import json
from pathlib import Path

from kvplan.engine.values import Plan
from tests.asking import planned

DRAFT = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "dflash_config": {"mask_token_id": 248070, "target_layer_ids": [1, 10, 19]},
    "dtype": "bfloat16",
    "head_dim": 128,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "layer_types": ["full_attention"] * 2,
    "max_position_embeddings": 262144,
    "num_attention_heads": 32,
    "num_hidden_layers": 2,
    "num_key_value_heads": 4,
    "vocab_size": 248320,
    "block_size": 16,
}


def drafting(folder: Path, flags: str, release: str) -> Plan:
    (folder / "config.json").write_text(json.dumps(DRAFT))
    asked = json.dumps({"model": str(folder), "num_speculative_tokens": 5, "method": "dflash"})
    command = f"vllm serve Qwen/Qwen3.5-35B-A3B -tp 4 {flags} --attention-backend FLASH_ATTN --speculative-config"
    return planned([*command.split(), asked], release=release, gpu="b200:4")


def test_pages_are_not_made_equal_where_the_draft_keeps_everything(tmp_path: Path) -> None:
    """One head of 256 makes 576 * 1,024 = 589,824 bytes a page, the draft's of 128 half of that: side by side both keep
    576 tokens a block. Without decode context parallelism pages are made equal, by a draft's block of twice as many."""
    for flags, release, times in (("-dcp 2", "0.33.0", 1), ("", "0.33.0", 2)):
        plan = drafting(tmp_path, flags, release)
        assert plan.error is None
        draft = next(layer for layer in plan.layers if layer.name.startswith("model.layers."))
        target = next(layer for layer in plan.layers if layer.name.endswith("layers.3.self_attn.attn"))
        assert draft.block_size == times * target.block_size
        assert target.page_bytes == 1024 * target.block_size
        assert draft.page_bytes == 512 * draft.block_size
