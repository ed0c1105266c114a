"""Many cases with one import of vLLM: the process that has imported it forks for each.

A case leaves its marks all over torch and vLLM (patched classes, process groups, contexts of layers), so none may see
what another left. A fork takes milliseconds where the import takes seconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

from tests.oracle.gpus import GPUS
from tests.oracle.inside import startup
from tests.oracle.inside.answer import Answer
from tests.oracle.inside.read.failure import failure
from tests.oracle.inside.stubs.noted import STUBBED
from tests.oracle.job import Case, Job

SCHEMA = "vllm-kv-oracle/1"


def run(job: Job) -> None:
    """Answer every case, one after another."""
    told = os.dup(1)
    # vLLM prints to standard output
    os.dup2(2, 1)
    _place(job)
    startup.prepare(GPUS[job.gpu], job.release)
    for number, case in enumerate(job.cases):
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            _end_with(job, case)
        _, status = os.waitpid(child, 0)
        line = {"case": number, "seconds": round(time.monotonic() - began, 1), "status": status}
        os.write(told, f"{json.dumps(line)}\n".encode())


def _place(job: Job) -> None:
    """Put the release in front of everything that can be imported, with metadata that say its version."""
    metadata = Path(job.home, "meta", job.release)
    distribution = metadata / f"vllm-{job.release}.dist-info"
    distribution.mkdir(parents=True, exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {job.release}\n"
    (distribution / "METADATA").write_text(text, encoding="utf-8")
    sys.path[:0] = [job.sources, str(metadata)]


def _end_with(job: Job, case: Case) -> NoReturn:
    """In the fork: answer the case and end the process, without the handlers of vLLM and torch."""
    signal.alarm(job.timeout)
    log = os.open(case.log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        _answer(job, case)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0)


def _answer(job: Job, case: Case) -> None:
    """Start the case and write what came of it."""
    config = Path(case.config, "config.json").read_bytes()
    answer = Answer(
        {
            "oracle": SCHEMA,
            "vllm_version": job.release,
            "flags": list(case.flags),
            "gpu": job.gpu,
            "config_dir": case.config,
            "notes": [],
            **({"env": dict(sorted(job.environment.items()))} if job.environment else {}),
            "config_sha256": hashlib.sha256(config).hexdigest(),
        }
    )
    began = time.monotonic()
    try:
        startup.run(case, GPUS[job.gpu], answer)
    # whatever vLLM raises is the answer
    except BaseException as error:
        answer.told["exception"] = failure(error, answer.stage, job.sources)
    answer.told["stage_reached"] = answer.stage
    answer.told["stubbed"] = dict(sorted(STUBBED.items()))
    answer.told["elapsed_s"] = round(time.monotonic() - began, 1)
    Path(case.answer).write_text(json.dumps(answer.told, default=str), encoding="utf-8")
