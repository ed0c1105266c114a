"""An answer condensed to a golden record: what was asked, how start-up ended, settings, layers, capacity, views.

Golden records are made of nothing else; `tests/golden/compare.py` reads them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.oracle.configs import Configs
from tests.oracle.gpus import GPUS
from tests.oracle.questions import Question

Answer = Mapping[str, Any]
Record = dict[str, Any]

PRETENDING = frozenset({"import", "init_distributed"})
"""Stages of the oracle's own."""

AFTER_PLANNING = frozenset({"kernel_block_size", "kv_cache_view"})
"""Stages at which the cache is planned already."""

_OF_THE_RUN = frozenset(
    {
        "user_specified_block_size",
        "num_gpu_blocks",
        "kv_cache_max_concurrency",
        "kv_cache_size_tokens",
        "hash_block_size",
    }
)
"""Settings that the planner fills in, or that say how another came about."""

ALWAYS = (
    ("quant_mode", "kv_quant_mode"),
    ("storage_dtype", "dtype"),
    ("num_kv_heads", "num_kv_heads"),
    ("head_size", "head_size"),
    ("head_size_v", "head_size_v"),
    ("sliding_window", "sliding_window"),
)
"""A layer's fields and those of its spec, null where it has none."""
WHERE_GIVEN = (
    "shapes",
    "dtypes",
    "mamba_type",
    "attention_chunk_size",
    "compress_ratio",
    "tokens_per_state",
    "cache_dtype_str",
    "state_content_bytes",
    "alignment",
    "mamba_cache_mode",
)
"""Fields of specs that are left out where they are null."""
WHERE_TRUE = ("num_speculative_blocks", "is_draft")
"""Fields of specs that are left out where they are null, zero or false."""

_PAGES = ("unpadded_page_size_bytes", "real_page_size_bytes")
_WARNING = re.compile(r"kv|cache|attention|block|quant|mamba|skip|padding", re.IGNORECASE)
"""What warnings are about that are kept."""
_MISSING = re.compile(
    r"No module named|<Stub |does not appear to have a file named|Can't load [\w ]*processor|couldn't connect",
    re.IGNORECASE,
)
"""What an exception speaks of where a package, the model's own code or a file beside config.json is missing here.

That code needs `--trust-remote-code` is an answer of vLLM."""
_OWN = "tests/oracle/inside/"
_REDIRECT = f"{_OWN}stubs/devices.py"
"""Where torch is called through; what fails there is raised by torch for the frame of vLLM above."""
_INSTALLED = re.compile(r"^.*/site-packages/")


def own_failure(answer: Answer) -> str | None:
    """Why the answer is none of vLLM's: what the oracle could not do, in one line; None where vLLM answered."""
    if "oracle_failure" in answer:
        return str(answer["oracle_failure"])
    error = answer.get("exception")
    if error is None:
        return None
    told = f"{error['stage']}: {error['type']}: {_line(error)}"
    place = error["raised_in"] or ""
    in_own = _OWN in place and _REDIRECT not in place and error["stage"] != "args"
    return told if in_own or error["stage"] in PRETENDING or _MISSING.search(error["message"]) else None


def condensed(question: Question, answer: Answer, configs: Configs) -> Record:
    """The golden record of `answer`, which must not be a failure of the oracle's own (`own_failure`)."""
    workers = answer.get("workers", [])
    major, minor = answer["device_capability"]
    record: Record = {
        "id": question.id,
        "release": question.release,
        "gpu": question.gpu,
        "capability": f"{major}.{minor}",
        "config": question.config,
        "config_sha256": answer["config_sha256"],
        "flags": list(question.flags),
        "available_bytes": question.available_bytes,
    }
    if question.environment:
        record["env"] = dict(question.environment)
    if GPUS[question.gpu].is_amd:
        record["platform"] = answer["platform"]
    record["outcome"] = _outcome(answer.get("exception"), question.config, configs)
    record["resolved"] = _resolved(answer)
    record["layers"] = _layers(workers, answer.get("kv"))
    shares = {name: target[0] for worker in workers for name, _, *target in worker["layers"] if target}
    if shares:
        record["shares_cache_of"] = shares
    without = list(_without_cache(workers))
    if without:
        record["no_cache"] = without
    if "kv" in answer:
        record |= _planned(answer["kv"])
    record |= {name: answer[name] for name in ("kernel_block_sizes", "kv_views") if name in answer}
    record["warnings"] = _warnings(answer.get("log", ()), configs)
    record["sets"] = list(question.sets)
    if question.category is not None:
        record["category"] = question.category
    return record


def _outcome(error: Mapping[str, Any] | None, config: str, configs: Configs) -> Record:
    if error is None:
        return {"ok": True}
    place = _INSTALLED.sub("", error["raised_in"] or "")
    if _REDIRECT in place:
        place = error["where"] or place
    return {
        "ok": False,
        "stage": error["stage"],
        "type": error["type"],
        # The model goes by its name, as kvplan calls it: what is told must not depend on where its folder lies.
        "first_line": configs.unnamed(_line(error)).replace(f"{{configs}}/{config}", config),
        "raised_in": "argument parser" if error["stage"] == "args" else place,
    }


def _line(error: Mapping[str, Any]) -> str:
    """The message's first line; of a validation error all lines, which say what is wrong."""
    message: str = error["message"].strip()
    if error["type"] == "ValidationError":
        return " | ".join(line.strip() for line in message.splitlines())
    return message.split("\n", maxsplit=1)[0]


def _resolved(answer: Answer) -> Record:
    """Settings where start-up ended; those that are not set are left out."""
    workers = answer.get("workers")
    settings = workers[0]["cfg"] if workers else answer.get("after_start") or answer.get("after_config") or {}
    told = {name.rpartition(".")[2]: value for name, value in settings.items() if value is not None}
    told = {name: value for name, value in told.items() if name not in _OF_THE_RUN}
    return told | ({"model_runner": workers[0]["model_runner"]} if workers else {})


def _layers(workers: Sequence[Mapping[str, Any]], planned: Mapping[str, Any] | None) -> list[Record]:
    """Equal layers of a pipeline stage together, in the order of their first."""
    kinds: dict[str, Record] = {}
    for place, worker in enumerate(workers):
        final = _specs_after(planned["per_worker"][place]) if planned else {}
        for name, index, *_ in worker["layers"]:
            kind = worker["layer_kinds"][index]
            if kind["spec"] is None:
                continue
            told = _layer(kind, final.get(name, kind["spec"])) | {"rank": worker["pp_rank"]}
            kinds.setdefault(json.dumps(told), told | {"names": []})["names"].append(name)
    return list(kinds.values())


def _layer(kind: Mapping[str, Any], final: Mapping[str, Any]) -> Record:
    spec = kind["spec"]
    told: Record = {"spec": spec["class"], "cache_dtype": kind.get("layer.kv_cache_dtype")}
    told |= {name: spec.get(field) for name, field in ALWAYS}
    told["backend"] = kind.get("backend")
    told |= {name: spec[name] for name in WHERE_GIVEN if spec.get(name) is not None}
    told |= {name: spec[name] for name in WHERE_TRUE if spec.get(name)}
    told["spec_block_size"], told["spec_page_bytes"] = spec["block_size"], spec["page_size_bytes"]
    told["unpadded_page_bytes"] = next((spec[name] for name in _PAGES if name in spec), None)
    told["layer_class"] = kind["layer_class"]
    if final["class"] != spec["class"]:
        told["final_spec"] = final["class"]
    return told | {"block_size": final["block_size"], "page_bytes": final["page_size_bytes"]}


def _specs_after(planned: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Layer to its spec after unification."""
    found: dict[str, Mapping[str, Any]] = {}
    for group in planned["groups"]:
        for part in group["spec"].get("inner") or ({"spec": group["spec"], "layers": group["layers"]},):
            found |= dict.fromkeys(part["layers"], part["spec"])
    return found


def _without_cache(workers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for worker in workers:
        for name, index, *target in worker["layers"]:
            if worker["layer_kinds"][index]["spec"] is None and not target:
                yield name


def _planned(planned: Mapping[str, Any]) -> Record:
    ranks = [
        {"num_blocks": made["num_blocks"], "groups": [_group(group) for group in made["groups"]]}
        for made in planned["per_worker"]
    ]
    # older releases write it into the settings only after this
    told: Record = {"num_blocks": planned["num_gpu_blocks"] or ranks[0]["num_blocks"]}
    told |= {"groups": ranks[0]["groups"]} if len(ranks) == 1 else {"groups": None, "ranks": ranks}
    names = (
        ("tokens", "logged_kv_cache_tokens"),
        ("max_concurrency", "logged_max_concurrency"),
        ("log_lines", "logged_lines"),
    )
    return told | {name: planned[field] for name, field in names if field in planned}


def _group(group: Mapping[str, Any]) -> Record:
    spec = group["spec"]
    return {
        "layers": group["layers"],
        "spec": spec["class"],
        "block_size": spec["block_size"],
        "page_bytes": spec["page_size_bytes"],
    }


def _warnings(log: Sequence[str], configs: Configs) -> list[str]:
    kept = [line for line in log if line.startswith("WARNING") and _WARNING.search(line)]
    return list(dict.fromkeys(map(configs.unnamed, kept)))
