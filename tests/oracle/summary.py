"""An answer in a few lines, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SETTINGS = ("model_runner", "cache_dtype", "block_size", "kv_cache_layout", "max_model_len", "max_num_batched_tokens")


def lines(record: Mapping[str, Any]) -> Iterator[str]:
    """What the record of one launch says."""
    yield f"vLLM {record['release']} on {record['gpu']} ({record['capability']}): {_outcome(record['outcome'])}"
    resolved = record["resolved"]
    if resolved:
        yield ", ".join(f"{name} {resolved[name]}" for name in SETTINGS if name in resolved)
    for kind in record["layers"]:
        dtypes = kind["storage_dtype"] or ", ".join(kind.get("dtypes", ()))
        dtype = kind["cache_dtype"] or "own dtype"
        block, page = kind["block_size"], kind["page_bytes"]
        yield (
            f"{len(kind['names'])} × {kind['spec']}, {kind['backend']}, {dtype} ({dtypes}), "
            f"block {block}, page {page} bytes: {kind['names'][0]}{', …' if len(kind['names']) > 1 else ''}"
        )
    if "num_blocks" in record:
        yield f"{record['num_blocks']} blocks in groups of {_groups(record)} layers"
    yield from record.get("log_lines", ())
    yield from record["warnings"]


def _outcome(outcome: Mapping[str, Any]) -> str:
    if outcome["ok"]:
        return "starts"
    return f"stops in {outcome['stage']} with {outcome['type']}: {outcome['first_line']} ({outcome['raised_in']})"


def _groups(record: Mapping[str, Any]) -> str:
    ranks = record.get("ranks") or [{"groups": record["groups"]}]
    return " | ".join(", ".join(str(len(group["layers"])) for group in rank["groups"]) or "no" for rank in ranks)
