"""Bounded work: whatever is in the files, a scan ends, and tells what it did not follow."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kvplan.runs.budget import OutOfTime, within
from tests.asking import kvplan, told

SERVE = "vllm serve Qwen/Qwen3-0.6B"
DEEP = 1_000
"""Folders one in the other."""
_FOR = "for a in " + "1 " * 50 + "; do\n"


def _seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def scanned(path: Path) -> tuple[int, list[str]]:
    """The number of launches, and why others were not followed."""
    report = told("scan", str(path), "--offline", "--isolated", "--allow-empty", "--gpu", "h200")
    return len(report["launches"]), [one["reason"] for one in report["unreadable"]]


def test_folders_may_nest_deeply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole paths are too long for the system, so the way down and up again goes folder by folder; what is left there
    would be too deep for pytest's own cleaning."""
    monkeypatch.chdir(tmp_path)
    for _ in range(DEEP):
        os.mkdir("d")  # noqa: PTH102
        os.chdir("d")
    Path("run.sh").write_text(f"{SERVE}\n")
    os.chdir(tmp_path)
    try:
        launches, lost = scanned(Path())
    finally:
        for _ in range(DEEP):
            os.chdir("d")
        Path("run.sh").unlink()
        for _ in range(DEEP):
            os.chdir("..")
            os.rmdir("d")  # noqa: PTH106
    assert launches + len(lost) == 1


@pytest.mark.parametrize(
    "line",
    [
        "# kvplan: ignore[KV203] because\n",
        "# kvplan: ignore[KV203] because:\nargs:\n",
        "#\n\n",
    ],
)
def test_comments_take_time_in_proportion(line: str, tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    times = []
    for count in (2_000, 8_000):
        path.write_text(line * count + f"{SERVE} # kvplan: ignore[KV203] because\n")
        times.append(_seconds(lambda: scanned(path)))
    assert times[1] < 6 * times[0] + 1


def test_blanks_within_a_comment(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(f"# kvplan: ignore[KV203] x{' ' * 100_000}x{' ' * 100_000}\n{SERVE}\n")
    assert _seconds(lambda: scanned(path)) < 4


@pytest.mark.parametrize(
    "text",
    [
        _FOR * 5 + "x=1\n" + "done\n" * 5 + f"{SERVE}\n",
        f"{SERVE} -pp 1000000000\n",
        f"{SERVE} -tp 1000000000 -dp 1000000000\n",
    ],
)
def test_loops_and_ranks_are_bounded(text: str, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(text)
    begun = time.process_time()
    launches, lost = scanned(tmp_path)
    assert time.process_time() - begun < 5
    assert launches + len(lost) == 1


def test_aliases_count_by_their_text(tmp_path: Path) -> None:
    text = "x: &a |\n" + f"  {SERVE}\n" + "  true\n" * 20_000 + "y:\n" + "- *a\n" * 200
    (tmp_path / "a.yaml").write_text(text)
    begun = time.process_time()
    launches, lost = scanned(tmp_path)
    assert time.process_time() - begun < 15
    assert launches == 0
    assert "counting aliases" in lost[0]


@pytest.mark.parametrize("filler", ["|", "<<", "&a ", "python", "$", "\n", " ", "for a in b; do\n"])
@pytest.mark.parametrize("name", ["run.sh", "a.yaml", "-"])
def test_nonsense_is_given_up(filler: str, name: str, tmp_path: Path) -> None:
    text = f"{SERVE}\n{filler * (150_000 // len(filler))}\n"
    begun = time.process_time()
    if name == "-":
        kvplan("scan", "-", "--offline", "--isolated", stdin=text)
    else:
        (tmp_path / name).write_text(text)
        kvplan("scan", str(tmp_path), "--offline", "--isolated")
    # The budget of a file, and what of it cannot be broken off.
    assert time.process_time() - begun < 10


def test_blanks_in_an_env_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1" + " " * 190_000 + "x\n")
    (tmp_path / "docker-compose.yaml").write_text(
        "services: {a: {image: 'vllm/vllm-openai:v0.33.0', command: [--model, Qwen/Qwen3-0.6B]}}\n"
    )
    assert _seconds(lambda: scanned(tmp_path)) < 4


def _forever() -> None:
    with within(0.05):
        while True:
            pass


def test_work_is_broken_off_when_its_time_is_up() -> None:
    with pytest.raises(OutOfTime):
        _forever()
    with within(5):
        sum(range(1000))


def test_a_file_that_takes_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forever(*_given: object) -> None:
        while True:
            pass

    monkeypatch.setattr("kvplan.runs.scanning.READING", 0.05)
    monkeypatch.setattr("kvplan.runs.scanning.launches", forever)
    (tmp_path / "run.sh").write_text(f"{SERVE}\n")
    assert scanned(tmp_path) == (0, ["not followed within 0.05 seconds of computing"])


def test_a_launch_that_takes_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forever(*_given: object, **_named: object) -> None:
        while True:
            pass

    monkeypatch.setattr("kvplan.runs.scanning.PLANNING", 0.05)
    monkeypatch.setattr("kvplan.engine.planner._run", forever)
    (tmp_path / "run.sh").write_text(f"{SERVE}\n{SERVE} -tp 2\n")
    launches, lost = scanned(tmp_path)
    assert (launches, ["not planned" in reason for reason in lost]) == (0, [True, True])


@pytest.mark.parametrize("release", ["0.16.0", "0.25.1", "0.33.0"])
@pytest.mark.parametrize("value", ["-1", "0", "-99999999999"])
def test_a_pool_of_no_blocks_is_refused(release: str, value: str) -> None:
    words = ["--vllm-version", release, "--gpu", "h200", "--available-kv-memory", "60GiB", "--offline", "--isolated"]
    launch = ["vllm", "serve", "Qwen/Qwen3-0.6B", "--num-gpu-blocks-override", value]
    result = kvplan("check", "--format", "json", *words, "--", *launch)
    assert result.exit_code == 1
    capacity = json.loads(result.stdout)["capacity"]
    assert capacity["num_blocks"] is None or capacity["num_blocks"] >= 0


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("option", ["--kv-offloading-size", "--gpu-memory-utilization"])
def test_numbers_that_are_none_are_refused_and_told_as_json(option: str, value: str) -> None:
    words = ["--gpu", "h200", "--offline", "--isolated", "--format", "json"]
    result = kvplan("check", *words, "--", "vllm", "serve", "Qwen/Qwen3-0.6B", option, value)
    assert result.exit_code == 1
    json.loads(result.stdout, parse_constant=pytest.fail)
