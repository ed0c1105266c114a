"""Whether a redesign changed anything that kvplan says: digests of everything it is known to answer.

    python -m tests.digest write FILE [--every N]      one line a question: its digest and its name
    python -m tests.digest compare FILE [--every N]    the questions whose answer is another one now; exit code 1
    python -m tests.digest tell NAME                   the whole answer to one question, to be held against another's

Questions go through the command line alone, so that they outlive what is behind it: for every golden record the report
as JSON and the trace, every file of the scanned manifests as JSON and as text, every command that README.md and the
pages of docs/ show, and the lists that kvplan tells of itself. `--every N` asks one question in N.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kvplan.cli import main as kvplan
from tests import readme
from tests.golden import build

ROOT = Path(__file__).parents[1]
MANIFESTS = Path("tests/launch/manifests")
LISTS = ("rules", "releases", "models", "models --architectures")


@dataclass(frozen=True, slots=True)
class Question:
    """One thing to ask: command lines for kvplan, or one shell command that a page shows."""

    name: str
    commands: tuple[tuple[str, ...], ...] = ()
    shown: str | None = None

    def answer(self) -> str:
        """All that is printed, exit codes included; the folder of the configs is left out of it."""
        if self.shown is not None:
            return readme.output(self.shown)
        return "\n".join(_run(command) for command in self.commands).replace(str(_configs()), "CONFIGS")


def questions() -> Iterator[Question]:
    """All questions, in an order that does not change."""
    for release in build.releases():
        for record in build.records(release):
            yield Question(record["id"], tuple(_of_record(record, word) for word in ("plan", "why")))
    for file in sorted(path for path in (ROOT / MANIFESTS).rglob("*") if path.is_file()):
        place = str(file.relative_to(ROOT))
        asked = ("scan", "--offline", "--isolated", place)
        yield Question(f"scan {place}", ((*asked, "--format", "json"), asked))
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for shown in readme.commands(page.read_text(encoding="utf-8")):
            yield Question(f"shown {' '.join(shown.split())}", shown=shown)
    for told in LISTS:
        yield Question(told, (tuple(told.split()),))
    for code in _rules():
        yield Question(f"explain {code}", (("explain", code),))


def digests(every: int) -> dict[str, str]:
    """The digest of the answer to every question in `every`, by name."""
    asked = list(questions())[::every]
    with tempfile.TemporaryDirectory() as folder:
        build.unpack(Path(folder))
        with ProcessPoolExecutor(os.cpu_count(), initializer=_start, initargs=(folder,)) as pool:
            return dict(pool.map(_digest, asked, chunksize=8))


def main() -> int:
    """Write, compare or tell; the exit code is 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "compare", "tell"))
    parser.add_argument("subject", metavar="FILE_OR_NAME")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    given = parser.parse_args()
    if given.what == "tell":
        return _tell(given.subject)
    now = digests(given.every)
    if given.what == "write":
        Path(given.subject).write_text("".join(f"{digest} {name}\n" for name, digest in now.items()), "utf-8")
        print(f"{len(now)} answers")
        return 0
    lines = Path(given.subject).read_text("utf-8").splitlines()
    before = {name: digest for digest, _, name in (line.partition(" ") for line in lines)}
    common = [name for name in now if name in before]
    changed = [name for name in common if before[name] != now[name]]
    print("".join(f"{name}\n" for name in changed), end="")
    print(f"{len(common)} answers compared, {len(changed)} differ; {len(now) - len(common)} asked for the first time")
    return 1 if changed or not common else 0


def _tell(name: str) -> int:
    question = next((one for one in questions() if one.name == name), None)
    if question is None:
        print(f"no question is called {name!r}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        build.unpack(Path(folder))
        _start(folder)
        print(question.answer())
    return 0


def _of_record(record: Mapping[str, Any], word: str) -> tuple[str, ...]:
    shape = ("--format", "json") if word == "plan" else ()
    return (
        word,
        *("--isolated", "--offline", *shape, "--vllm-version", record["release"], "--gpu", record["gpu"]),
        f"--available-kv-memory={record['available_bytes']}",
        *("--", *(f"{name}={value}" for name, value in (record.get("env") or {}).items()), "vllm", "serve"),
        f"{{configs}}/{record['config']}",
        *record["flags"],
    )


def _rules() -> list[str]:
    return sorted(set(re.findall(r"^(KV\d+)", _run(("rules",)), re.MULTILINE)))


def _digest(question: Question) -> tuple[str, str]:
    return question.name, hashlib.sha256(question.answer().encode()).hexdigest()[:16]


def _run(command: tuple[str, ...]) -> str:
    """What one command prints and how it ends."""
    words = [_placed(word) if "/" in word else word for word in command]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = kvplan.main(words, standalone_mode=False)
        except click.ClickException as error:
            code = error.format_message()
    return f"{out.getvalue()}{err.getvalue()}-> {code}"


def _placed(word: str) -> str:
    """`word` with the folder of the configs in place of what records call it."""
    found = re.sub(r"\{configs\}/", lambda _: f"{_configs()}/", word)
    return re.sub(r'(?<=")(?:[^"{]*/)?configs/(?=[\w.-]+")', lambda _: f"{_configs()}/", found)


_home: list[Path] = []


def _start(folder: str) -> None:
    _home[:] = [Path(folder)]
    os.chdir(ROOT)


def _configs() -> Path:
    return _home[0] if _home else Path("{configs}")


__all__ = ["Question", "digests", "questions"]

if __name__ == "__main__":
    sys.exit(main())
