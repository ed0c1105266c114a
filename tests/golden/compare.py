"""How kvplan's report is held against one record of vLLM's own answers.

`differences` returns one line for every field that disagrees; nothing is rounded, but for the concurrency, which vLLM
prints with two decimals.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvplan.checkpoint import Checkpoint, load
from kvplan.engine import Plan, plan
from kvplan.engine.speculation.wanted import draft_reference
from kvplan.launch.build import from_command
from kvplan.launch.hardware import parse_gpu
from kvplan.launch.values import Launch
from kvplan.releases import resolve
from kvplan.report.jsonreport import to_dict
from kvplan.report.values import make

Record = Mapping[str, Any]

SAME_STAGE: Mapping[str, frozenset[str]] = {
    "args": frozenset({"options"}),
    "create_engine_config": frozenset({"options", "cache_dtype", "parallel"}),
    "load_model": frozenset({"layers", "backend", "cache_dtype", "parallel", "skip_list"}),
    "load_draft_model": frozenset({"layers", "backend", "cache_dtype", "parallel", "skip_list"}),
    "update_block_size_for_backend": frozenset({"block_size"}),
    "get_kv_cache_spec": frozenset({"specs", "block_size"}),
    "kv_cache_configs": frozenset({"grouping", "capacity", "specs", "block_size"}),
    "kernel_block_size": frozenset({"kernel_block_size", "block_size"}),
    "kv_cache_view": frozenset({"kv_cache_view"}),
}
"""A record's stage and kvplan's names for it; more than one where a check moved between releases."""

LAYER_FIELDS = (
    "spec",
    "cache_dtype",
    "quant_mode",
    "storage_dtype",
    "num_kv_heads",
    "head_size",
    "head_size_v",
    "sliding_window",
    "block_size",
    "page_bytes",
    "backend",
)
GIST = 50
"""Characters of a message that must agree."""
_HEADING = re.compile(r"\d+ validation errors? for \w+")
"""All that the oldest records kept of pydantic's message: what was wrong stands in the lines below."""
SETTING_FIELDS = (
    ("dtype", "model_dtype"),
    ("max_num_batched_tokens", "max_num_batched_tokens"),
    ("max_num_seqs", "max_num_seqs"),
    ("model_runner", "model_runner"),
    ("enable_prefix_caching", "prefix_caching"),
    ("kv_cache_layout", "kv_cache_layout"),
)
"""Fields of a record's `resolved` block and the settings that say the same."""


def plan_of(record: Record, checkpoint: Checkpoint) -> Plan:
    """kvplan's plan for the record's own command line."""
    launch = from_command(
        ["vllm", "serve", checkpoint.reference, *record["flags"]],
        release=resolve(record["release"]),
        hardware=parse_gpu(record["gpu"]),
        available_kv_memory=record["available_bytes"],
        environment=record.get("env"),
    )
    return plan(checkpoint, launch, draft=_draft(launch, checkpoint))


def _draft(launch: Launch, target: Checkpoint) -> Checkpoint | None:
    """The draft model, which records name by a path whose last part is a folder beside the target's."""
    named = draft_reference(launch)
    return None if named is None else load(str(Path(target.reference).parent / Path(named).name), offline=True)


def differences(record: Record, planned: Plan, *, words: bool = True) -> list[str]:
    """Every disagreement between the record and the JSON report on the plan, as one line each.

    Without `words` a refusal may be told in others, as long as it comes at the same stage.
    """
    report = to_dict(make(planned, ()))
    found = _outcome(record["outcome"], report["startup"], words=words)
    found += _layers(record, report)
    if record["outcome"]["ok"]:
        found += _capacity(record, report["capacity"] or {}) + _groups(record, report)
        found += _settings(record["resolved"], planned)
    return found


def layers_that_agree(record: Record, found: list[str]) -> tuple[int, int]:
    """(layers without a difference, layers of the record)."""
    total = sum(len(kind["names"]) for kind in record["layers"])
    wrong = {line.split(": ", 1)[0] for line in found if line.startswith("layer ")}
    return max(0, total - len(wrong)), total


def _outcome(want: Mapping[str, Any], got: Mapping[str, Any], *, words: bool) -> list[str]:
    if want["ok"] != (got["outcome"] == "ok"):
        theirs = "ok" if want["ok"] else f"{want['stage']}: {want['type']}: {want['first_line']}"
        return [f"outcome: vLLM {theirs}, kvplan {got['outcome']} {got.get('error')}"]
    if want["ok"]:
        return []
    if got["stage"] not in SAME_STAGE[want["stage"]]:
        return [f"stage: vLLM {want['stage']}, kvplan {got['stage']}"]
    return _refusal(want, got["error"]) if words else []


def _refusal(want: Mapping[str, Any], got: Mapping[str, Any]) -> list[str]:
    """The exception's class, and that vLLM's message contains how kvplan's begins."""
    if got["type"] != want["type"]:
        return [f"exception: vLLM {want['type']}: {want['first_line']}, kvplan {got['type']}: {got['message']}"]
    told = _folded(want["first_line"])
    if _HEADING.fullmatch(told) or _folded(got["message"])[:GIST] in told:
        return []
    return [f"message: vLLM {want['first_line']!r}, kvplan {got['message']!r}"]


def _folded(message: str) -> str:
    """A message without the line breaks in it, and the bars that records put in their place."""
    return " ".join(message.replace("|", " ").split())


def _layers(record: Record, report: Mapping[str, Any]) -> list[str]:
    mine = {layer["name"]: layer for layer in report["layers"]}
    found = []
    for kind in record["layers"]:
        for name in kind["names"]:
            layer = mine.pop(name, None)
            if layer is None:
                found.append(f"layer {name}: missing in kvplan")
                continue
            found += [
                f"layer {name}: {field}: vLLM {kind[field]!r}, kvplan {layer[field]!r}"
                for field in LAYER_FIELDS
                if _is_answer(kind.get(field)) and layer[field] != kind[field]
            ]
    if record["layers"]:
        found += [f"layer {name}: not in vLLM" for name in mine]
    return found


def _is_answer(value: object) -> bool:
    """Whether the record gives a value; a page that vLLM itself failed to price says `<AssertionError: >` instead."""
    return value is not None and not (isinstance(value, str) and value.startswith("<"))


def _capacity(record: Record, got: Mapping[str, Any]) -> list[str]:
    found = [
        f"capacity: {field}: vLLM {record[field]}, kvplan {got.get(field)}"
        for field in ("num_blocks", "tokens")
        if record.get(field) is not None and got.get(field) != record[field]
    ]
    want = record.get("max_concurrency")
    if want is not None and f"{got.get('max_concurrency') or 0:.2f}" != f"{want:.2f}":
        found.append(f"capacity: max_concurrency: vLLM {want:.2f}, kvplan {got.get('max_concurrency')}")
    lines = list(record.get("log_lines") or ())
    if lines and sorted(got.get("log_lines", ())) != sorted(lines):
        found.append(f"capacity: log lines: vLLM {lines}, kvplan {got.get('log_lines')}")
    return found


def _groups(record: Record, report: Mapping[str, Any]) -> list[str]:
    if not record.get("groups"):
        return []
    want = sorted(sorted(group["layers"]) for group in record["groups"])
    got = sorted(sorted(group["layers"]) for group in report["groups"])
    if want == got:
        return []
    return [f"groups: vLLM {[len(group) for group in want]}, kvplan {[len(group) for group in got]}"]


def _settings(want: Mapping[str, Any], planned: Plan) -> list[str]:
    settings = planned.settings
    if settings is None:
        return ["settings: none in kvplan"]
    return [
        f"setting {theirs}: vLLM {want[theirs]!r}, kvplan {getattr(settings, ours)!r}"
        for theirs, ours in SETTING_FIELDS
        if want.get(theirs) is not None and getattr(settings, ours) != want[theirs]
    ]
