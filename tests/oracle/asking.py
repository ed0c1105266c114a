"""Starts the interpreter that runs vLLM, for many questions at once, and gathers its answers."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.oracle import places
from tests.oracle.configs import Configs
from tests.oracle.errors import OracleError
from tests.oracle.job import Case, Job
from tests.oracle.questions import Question, batches

Told = Callable[[Question, Mapping[str, Any]], None]
"""Is told of every answer when it comes."""

LAST_LINES = 6
"""Lines of an error's end that are shown."""


def ask(
    questions: Sequence[Question],
    configs: Configs,
    *,
    jobs: int,
    timeout: int = 300,
    packages: Path | None = None,
    told: Told = lambda question, answer: None,
) -> dict[str, dict[str, Any]]:
    """The answer to every question, by id; `jobs` processes, at most `timeout` seconds a question.

    `packages` is a folder of packages that stand before the environment's own, another Transformers say. An answer
    that did not come says why in `oracle_failure`. Raises OracleError where the environment, the sources of a release
    or a config is missing, before anything is started.
    """
    places.interpreter()
    for question in questions:
        places.sources(question.release)
        configs.folder(question.config)
    answers: dict[str, dict[str, Any]] = {}
    with ThreadPoolExecutor(jobs) as pool:
        for group in pool.map(lambda part: _batch(part, configs, timeout, packages, told), batches(questions, jobs)):
            answers |= group
    return answers


def _batch(
    questions: Sequence[Question], configs: Configs, timeout: int, packages: Path | None, told: Told
) -> dict[str, dict[str, Any]]:
    """BackendQuestions that share an import, in one process."""
    first = questions[0]
    answers: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        cases = tuple(_case(question, configs, place / str(number)) for number, question in enumerate(questions))
        job = Job(
            release=first.release,
            sources=str(places.sources(first.release)),
            home=str(places.home()),
            gpu=first.gpu,
            environment=dict(first.environment),
            timeout=timeout,
            cases=cases,
        )
        for number, status in _done(job, place, _environment(first, packages)):
            answers[questions[number].id] = _answer(cases[number], f"ended with status {status}", cases[number].log)
            told(questions[number], answers[questions[number].id])
        for question, case in zip(questions, cases, strict=True):
            if question.id not in answers:
                answers[question.id] = _answer(case, "vLLM could not be imported", str(place / "errors"))
                told(question, answers[question.id])
    return answers


def _done(job: Job, place: Path, environment: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    """(number of a case, status with which its process ended), as they end; files are written under `place`."""
    job.write(place / "job.json")
    command = [str(places.interpreter()), "-m", "tests.oracle.inside", str(place / "job.json")]
    with (
        (place / "errors").open("wb") as errors,
        subprocess.Popen(
            command,
            cwd=places.ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        for line in process.stdout or ():
            told = json.loads(line)
            yield told["case"], told["status"]


def _case(question: Question, configs: Configs, place: Path) -> Case:
    return Case(
        config=str(configs.folder(question.config)),
        flags=tuple(configs.named(flag) for flag in question.flags),
        available_bytes=question.available_bytes,
        answer=f"{place}.json",
        log=f"{place}.log",
    )


def _answer(case: Case, ended: str, log: str) -> dict[str, Any]:
    """What the process wrote, or why it wrote nothing."""
    try:
        answer: dict[str, Any] = json.loads(Path(case.answer).read_text(encoding="utf-8"))
    except OSError:
        text = Path(log).read_text(encoding="utf-8", errors="replace") if Path(log).exists() else ""
        return {"oracle_failure": "\n".join([ended, *text.splitlines()[-LAST_LINES:]])}
    return answer


def _environment(question: Question, packages: Path | None) -> dict[str, str]:
    """The process's variables: the shell's without any that vLLM reads, the oracle's, the question's own."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("VLLM_", "FLASH_ATTENTION_"))}
    front = packages or places.packages_in_front(question.release)
    if front is not None and not front.is_dir():
        raise OracleError(f"{front}: no such folder (`python -m tests.oracle setup` makes transformers4)")
    return {
        **plain,
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": str(front or ""),
        "TOKENIZERS_PARALLELISM": "false",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_CACHE_ROOT": str(places.home() / "cache"),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_HAS_FLASHINFER_CUBIN": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "VLLM_LOGGING_LEVEL": "INFO",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_PLUGINS": "",
        **question.environment,
    }
