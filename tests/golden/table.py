"""How far kvplan agrees with vLLM's own answers: `python -m tests.golden.table`.

Runs every golden record, prints the conformance table, and writes what follows from it: the table in docs/accuracy.md
(between its two comments) and the engine's coverage.json. With releases as arguments only the table of these is
printed and nothing is written.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kvplan import checkpoint
from kvplan.checkpoint import Checkpoint
from kvplan.errors import InputError
from kvplan.releases import KNOWN
from tests.golden import build, compare, told_otherwise

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "accuracy.md"
COVERAGE = ROOT / "kvplan/engine/data/coverage.json"
BEGIN = "<!-- conformance: made by `python -m tests.golden.table` -->"
END = "<!-- end of conformance -->"


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one record."""

    record: str
    release: str
    architecture: str
    core: bool
    agrees: bool
    layers: int
    agreeing_layers: int
    draft: str | None = None
    """The architecture of the draft's layers, where the record has some."""
    caches_nothing: bool = False
    """Whether vLLM started the model and it has no layers with a cache, as encoders have none."""


def answers(releases: Sequence[str]) -> list[Answer]:
    """Run the records of `releases`, one process a CPU."""
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(os.cpu_count()) as pool:
        build.unpack(Path(folder))
        return [answer for some in pool.map(_answers, releases, [folder] * len(releases)) for answer in some]


def table(found: Iterable[Answer]) -> str:
    """The conformance table as Markdown: a line a release, records and layers, of the core set and of all."""
    told = list(found)
    lines = [
        "| vLLM | core records | core layers | all records | all layers |",
        "|---|---:|---:|---:|---:|",
        *(
            _line(release, [answer for answer in told if answer.release == release])
            for release in dict.fromkeys(answer.release for answer in told)
        ),
        _line("all", told),
    ]
    return "".join(f"{line}\n" for line in lines)


def coverage(found: Iterable[Answer]) -> dict[str, list[str]]:
    """Architecture to the releases in which every record of it agrees and one shows its layers, or that it has none."""
    by_name: dict[tuple[str, str], list[Answer]] = {}
    for answer in found:
        for name in filter(None, (answer.architecture, answer.draft)):
            by_name.setdefault((name, answer.release), []).append(answer)
    covered: dict[str, list[str]] = {}
    for architecture, release in sorted(by_name, key=lambda pair: (pair[0], KNOWN.index(pair[1]))):
        group = by_name[architecture, release]
        if all(answer.agrees for answer in group) and any(answer.layers or answer.caches_nothing for answer in group):
            covered.setdefault(architecture, []).append(release)
    return covered


def as_json(covered: Mapping[str, Sequence[str]]) -> str:
    """The text of coverage.json: an architecture a line, so that a diff can be read."""
    lines = (f" {json.dumps(name)}: {json.dumps(releases)}" for name, releases in covered.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def with_table(page: str, made: str) -> str:
    """The page's text with `made` between its two comments."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{PAGE.name} has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{made}{end}{after}"


def _line(name: str, found: Sequence[Answer]) -> str:
    cells = [name]
    for chosen in ([answer for answer in found if answer.core], found):
        cells.append(f"{sum(answer.agrees for answer in chosen):,} / {len(chosen):,}")
        cells.append(
            f"{sum(answer.agreeing_layers for answer in chosen):,} / {sum(answer.layers for answer in chosen):,}"
        )
    return f"| {' | '.join(cells)} |"


def _answers(release: str, configs: str) -> list[Answer]:
    return [_answer(record, str(Path(configs, record["config"]))) for record in build.records(release)]


def _answer(record: compare.Record, config: str) -> Answer:
    loaded = _load(config)
    architecture = loaded.architectures[0] if loaded.architectures else loaded.model_type
    draft = None
    try:
        planned = compare.plan_of(record, loaded)
    except InputError as error:
        found = [str(error)]
        right, total = 0, sum(len(kind["names"]) for kind in record["layers"])
    else:
        found = compare.differences(record, planned, words=not told_otherwise.is_among(record))
        right, total = compare.layers_that_agree(record, found)
        architecture = planned.geometry.architecture if planned.geometry is not None else architecture
        draft = planned.settings.draft_architecture if planned.settings is not None else None
    core = "core" in record["sets"]
    bare = record["outcome"]["ok"] and not total
    return Answer(record["id"], record["release"], architecture, core, not found, total, right, draft, bare)


@cache
def _load(config: str) -> Checkpoint:
    return checkpoint.load(config, offline=True)


def made() -> dict[Path, str]:
    """The text of the page and of coverage.json, from all records."""
    found = answers(build.releases())
    return {
        PAGE: with_table(PAGE.read_text(encoding="utf-8"), table(found)),
        COVERAGE: as_json(coverage(found)),
    }


def main(releases: Sequence[str]) -> None:
    """Print the table of `releases`; with none, of all, and write accuracy.md and coverage.json."""
    if releases:
        print(table(answers(releases)), end="")
        return
    for file, text in made().items():
        file.write_text(text, encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip())


if __name__ == "__main__":
    main(sys.argv[1:])
