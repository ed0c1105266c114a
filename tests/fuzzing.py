"""Hostile inputs by chance: configs, command lines and manifests, and what has to hold whatever they are.

`python -m tests.fuzzing KIND COUNT --seed N` runs many of one kind in this process; `tests/test_fuzz.py` has
hypothesis look for small ones.
"""

from __future__ import annotations

import copy
import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from kvplan.checkpoint import asking, catalog
from kvplan.cli import main
from kvplan.launch.options import all_flags
from kvplan.releases import KNOWN

Edit = tuple[int, Any]
"""Which place of a config (counted round), and what is put there."""

# fmt: off
# ruff: noqa: E501 - lists of samples
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 64, 128, 4096, 2**31, 2**40 + 1, 2**63, -(2**63), 0.5, 1e30, -1e-30,
    float("nan"), float("inf"), float("-inf"), "", "auto", "None", "1", "::error::x", "##[x]", "\x1b[31m", "\u202e", "a\nb",
    "full_attention", "sliding_attention", "linear_attention", "llama", "detr", "yarn", "longrope", "bfloat16", "float7",
    [], [0], [None], [[]], ["full_attention"], ["x", {}], [1, "a"], {}, {"a": 1}, {"model_type": "llama"},
    {"rope_type": "yarn"}, {"type": {}}, {"factor": "x"}, {"quant_method": "compressed-tensors"},
)
WORDS: tuple[str, ...] = (
    "0", "1", "-1", "2", "8", "1000000000", "99999999999999999999", "0.5", "1e400", "nan", "inf", "-inf", "", " ", "auto",
    "fp8", "fp8_e5m2", "nvfp4", "int8", "bfloat16", "{}", "[]", "{", "null", '{"a": 1}', '{"method": "mtp"}', '{"model": "x"}',
    '{"num_speculative_tokens": -1}', '{"method": "ngram", "num_speculative_tokens": 1e9}', "::error::x", "##[x]", "a\nb",
    "\x1b[31m", "\u202e", "\ud800", "é", "--", "-", "=", "@", "%s", "${X}", "$(x)", "../x", "/", "/dev/null", "true", "1k", "1g", "-1m",
    "FLASHINFER", "TRITON_ATTN", "0,1", "0-3", "3-0", "layer", "mp", "ray", "all", "align",
)
OWN: tuple[tuple[str, ...], ...] = (
    ("--gpu", "h200"), ("--gpu", "h200:8"), ("--gpu", "b200:0"), ("--gpu", "sm_75"), ("--gpu", "x"), ("--gpu", ""),
    ("--available-kv-memory", "60GiB"), ("--available-kv-memory", "-1GiB"), ("--available-kv-memory", "nan"),
    ("--available-kv-memory", "0"), ("--available-kv-memory", "1e400GiB"), ("--weights", "1GiB"), ("--weights", "infGiB"),
    ("--env", "VLLM_KV_CACHE_LAYOUT=x"), ("--env", "X"), ("--env", "VLLM_PP_LAYER_PARTITION=1,x"), ("--select", "KV2"),
    ("--ignore", "KV9"), ("--fail-on", "note"), ("--skip-layers", "0-99"), ("--no-ignore",),
)
# fmt: on
FORMATS = ("json", "sarif", "gitlab", "text", "markdown", "html", "github", "junit")


@cache
def _models() -> tuple[str, ...]:
    return tuple(entry.name for entry in catalog.names())


@cache
def _raw(name: str) -> Any:
    entry = catalog.find(name)
    assert entry is not None
    return catalog.raw(entry)[0].data


@cache
def _flags() -> tuple[str, ...]:
    return tuple(sorted(all_flags()))


def models() -> tuple[str, ...]:
    """The models of the catalog."""
    return _models()


def mutated(model: str, edits: Sequence[Edit]) -> Any:
    """The config of a catalog model with other values in some of its places; a place is a field at any depth, or an
    item of a list."""
    config = copy.deepcopy(dict(_raw(model)))
    for number, value in edits:
        places = list(_places(config))
        holder, key = places[number % len(places)]
        holder[key] = copy.deepcopy(value)
    return config


def _places(node: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    pairs = node.items() if isinstance(node, dict) else enumerate(node[:8])
    for key, value in pairs:
        found.append((node, key))
        if isinstance(value, (dict, list)):
            found += _places(value)
    return found


def run(words: Sequence[str], stdin: str | None = None) -> Result:
    """A command line in this process, held against what must always be so."""
    begun = time.process_time()
    result = CliRunner().invoke(main, list(words), input=stdin, prog_name="kvplan")
    took = time.process_time() - begun
    problems = list(_problems(words, result, took))
    if problems:
        raise AssertionError(f"{problems}: {words!r}\n{result.stderr[-2000:]}")
    return result


def _problems(words: Sequence[str], result: Result, took: float) -> list[str]:
    found: list[str] = []
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        found.append(f"raises {result.exception!r}")
    if "internal error" in result.output:
        at = result.output.index("internal error")
        found.append(result.output[at : at + 90])
    if result.exit_code not in (0, 1, 2):
        found.append(f"exit code {result.exit_code}")
    if result.exit_code == 2 and result.stdout and words[0] != "scan":
        found.append("exit code 2 with a result")
    if took > 15:
        found.append(f"{took:.0f} seconds of computing")
    own = words[: words.index("--")] if "--" in words else words
    named = own[own.index("--format") + 1] if "--format" in own[:-1] else ""
    if result.stdout and named in ("json", "sarif", "gitlab"):
        try:
            report = json.loads(result.stdout, parse_constant=_no_number)
        except ValueError as error:
            found.append(f"no JSON: {error}")
        else:
            found += _figures(report) if named == "json" and result.exit_code == 0 else []
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _figures(report: Any) -> list[str]:
    """Impossible figures of launches that start."""
    found: list[str] = []
    for launch in report.get("launches", [report]):
        capacity = launch.get("capacity") or {}
        found += [
            f"{name} is {value}"
            for name, value in capacity.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool) and not 0 <= value < 2**80
        ]
        found += [
            f"a page of {layer['page_bytes']}" for layer in launch.get("layers", ()) if layer.get("page_bytes", 1) <= 0
        ]
    return found


def config(chance: random.Random, folder: Path) -> None:
    """One mutated config, planned."""
    edits = [(chance.randrange(10**6), chance.choice(VALUES)) for _ in range(chance.randint(1, 4))]
    check_config(chance.choice(models()), edits, chance.choice(KNOWN), folder)


def check_config(model: str, edits: Sequence[Edit], release: str, folder: Path) -> None:
    """A mutated config, planned for a release."""
    file = folder / "config.json"
    file.write_text(json.dumps(mutated(model, edits)))
    options = ("--gpu", "h200:8", "--available-kv-memory", "60GiB", "--vllm-version", release)
    run(("check", str(file), "--offline", "--isolated", "--format", "json", *options))


def command(chance: random.Random, _folder: Path) -> None:
    """One command line."""
    vllm: list[str] = []
    for _ in range(chance.randint(0, 5)):
        vllm.append(chance.choice(_flags()))
        if chance.random() < 0.85:
            vllm.append(chance.choice(WORDS))
    own = [word for _ in range(chance.randint(0, 3)) for word in chance.choice(OWN)]
    check_command(chance.choice(models()), vllm, own, chance.choice(KNOWN), chance.choice(FORMATS))


def check_command(model: str, vllm: Sequence[str], own: Sequence[str], release: str, format_name: str) -> None:
    """A literal command with options of kvplan's before it."""
    shape = ("--offline", "--isolated", "--format", format_name, "--vllm-version", release)
    run(("check", *shape, *own, "--", "vllm", "serve", model, *vllm))


_PIECES = (
    "vllm serve Qwen/Qwen3-0.6B", "docker run vllm/vllm-openai:v0.33.0 --model m", "# kvplan: ignore[KV203] x", "- ", "  ", "\n", "\n---\n",
    "for a in 1 2; do", "done", "if true; then", "fi", "cat <<EOF", "EOF", "$(", ")", "`", "${a:-b}", "'", '"', "\\\n", "a: &a ", "*a", "<<: *a",
    "{", "}", "[", "]", "|", ">", ":", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers:\n  - ", "image: vllm/vllm-openai:v0.33.0",
    "args: [--model, Qwen/Qwen3-0.6B]", "command: [vllm, serve]", "services:\n  a:\n    ", "env_file: ../x", "FROM vllm/vllm-openai:v0.25.1\n",
    "CMD [", "ENTRYPOINT ", "[Service]\nExecStart=", "```sh\n", "```", "LLM(model='m', ", "subprocess.run(['vllm', ", "--config x.yaml", "-tp 8",
    "--kv-cache-dtype fp8", "{{ .Values.x }}", "\x00", "\x1b[31m", "\u202e", "::error::x", "##[x]", "\ud7ff", "\t", "\r\n", "é", "$X", "export X=1",
)  # fmt: skip
NAMES = ("a.sh", "a.yaml", "Dockerfile", "a.md", "a.py", "a.service", "docker-compose.yaml", "a.json", "a.tpl")


def manifest(chance: random.Random, folder: Path) -> None:
    """One file of pieces."""
    pieces = [chance.choice(_PIECES) + chance.choice(("", " ", "\n")) for _ in range(chance.randint(1, 40))]
    check_manifest(chance.choice(NAMES), "".join(pieces), chance.choice(FORMATS), folder)


def check_manifest(name: str, text: str, format_name: str, folder: Path) -> None:
    """A file, scanned."""
    file = folder / name
    file.write_text(text, encoding="utf-8", errors="replace")
    run(("scan", str(file), "--offline", "--isolated", "--allow-empty", "--format", format_name))
    file.unlink()


KINDS: dict[str, Callable[[random.Random, Path], None]] = {
    "configs": config,
    "commands": command,
    "manifests": manifest,
}


def fuzz(kind: str, count: int, seed: int, seconds: float) -> int:
    """Many inputs of one kind; prints what does not hold, each kind of it once, and returns how often it did not."""
    bad: Counter[str] = Counter()
    begun, done = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            if time.monotonic() - begun > seconds:
                break
            done += 1
            asking.forget()
            try:
                KINDS[kind](random.Random(f"{seed}/{number}"), Path(folder))
            except Exception as error:
                what = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
                short = what.partition("]: ")[0][:160]
                if not bad[short]:
                    print(f"--- {kind} {seed}/{number}: {what[:1500]}", flush=True)
                bad[short] += 1
    print(f"{kind}: {done:,} with seed {seed}: {sum(bad.values())} bad, {time.monotonic() - begun:.0f} s: {dict(bad)}")
    return sum(bad.values())


if __name__ == "__main__":
    _kind, _count, *_rest = sys.argv[1:]
    _seed = int(_rest[_rest.index("--seed") + 1]) if "--seed" in _rest else 0
    _limit = float(_rest[_rest.index("--seconds") + 1]) if "--seconds" in _rest else 3600.0
    sys.exit(int(fuzz(_kind, int(_count), _seed, _limit) > 0))
