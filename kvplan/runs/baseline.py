"""The baseline of a scan: findings that were there when it was written, so that only new ones count."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvplan.errors import InputError
from kvplan.files import write_whole
from kvplan.launch.globs import absolute, relative
from kvplan.launch.scanning import STDIN_NAME
from kvplan.report.scanvalues import ScanReport
from kvplan.rules.suppression import Known, Origin, Stale, fingerprint
from kvplan.rules.values import Finding

SCHEMA_ID = "kvplan-baseline/1"


@dataclass(frozen=True, slots=True)
class KnownFinding:
    """Equal findings of a baseline."""

    fingerprint: str
    count: int
    rule: str
    file: str
    """As seen from the baseline."""
    launch: str


@dataclass(frozen=True, slots=True)
class Baseline:
    """A baseline file."""

    file: str
    rows: tuple[KnownFinding, ...]

    @property
    def base(self) -> Path:
        """The directory that its files are seen from."""
        return absolute(self.file).parent

    def known(self) -> Known:
        """The judge that goes by it."""
        counts = Counter({row.fingerprint: row.count for row in self.rows})
        return Known(counts, self.file, lambda file: seen_from(self.base, file))

    def stale(
        self, known: Known, paths: Iterable[str], rules: Collection[str], obscure: Iterable[str] = ()
    ) -> tuple[Stale, ...]:
        """The rows of which fewer findings were met: among what the scan of `paths` with `rules` would have met, but
        for the `obscure` files, which hold launches that could not be followed."""
        unsure = {seen_from(self.base, file) for file in obscure}
        given = tuple(paths)
        scanned = tuple(absolute(path) for path in given)
        return tuple(
            _stale(row, row.count - known.met[row.fingerprint], self.file)
            for row in self.rows
            if known.met[row.fingerprint] < row.count
            and row.rule in rules
            and row.file not in unsure
            and (
                "-" in given
                if row.file == STDIN_NAME
                else any(map(absolute(self.base / row.file).is_relative_to, scanned))
            )
        )


def _stale(row: KnownFinding, missing: int, file: str) -> Stale:
    number = f"{missing} × " if missing > 1 else ""
    launch = f" ({row.launch})" if row.launch else ""
    text = f"{number}{row.rule} in {row.file}{launch} is not found any more: --write-baseline writes it anew"
    return Stale(row.rule, file, text)


def seen_from(base: Path, file: str) -> str:
    """A file as the baseline calls it; standard input keeps its name."""
    return file if file == STDIN_NAME else relative(file, base)


def write(report: ScanReport, file: str) -> int:
    """Write the findings of a scan to a baseline; returns their number. Raises InputError where that fails."""
    base = absolute(file).parent
    rows: dict[str, dict[str, Any]] = {}
    total = 0
    for finding, origin in counting(report):
        total += 1
        name = seen_from(base, origin.location.file if origin.location else "")
        key = fingerprint(finding, origin, name)
        row = rows.setdefault(key, _row(key, finding, origin, name))
        row["count"] += 1
    ordered = sorted(rows.values(), key=lambda row: (row["file"], row["rule"], row["launch"], row["fingerprint"]))
    text = json.dumps({"schema": SCHEMA_ID, "findings": ordered}, indent=2, ensure_ascii=False) + "\n"
    try:
        write_whole(file, text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"--write-baseline {file}: cannot be written: {reason}") from error
    return total


def counting(report: ScanReport) -> Iterator[tuple[Finding, Origin]]:
    """The findings of a scan that count, what could not be followed among them."""
    for launch in report.launches:
        yield from ((finding, launch.origin) for finding in launch.report.findings)
    yield from ((lost.finding, lost.origin) for lost in report.unreadable)


def _row(key: str, finding: Finding, origin: Origin, file: str) -> dict[str, Any]:
    return {
        "fingerprint": key,
        "rule": finding.rule,
        "file": file,
        "launch": origin.title,
        "model": origin.name,
        "message": finding.message,
        "count": 0,
    }


def read(file: str) -> Baseline:
    """A baseline file. Raises InputError for one that is none."""
    option = f"--baseline {file}"
    try:
        data = json.loads(Path(file).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{option}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{option}: is not JSON: {error}; --write-baseline writes one anew") from None
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA_ID or not isinstance(data.get("findings"), list):
        raise InputError(f"{option}: is no baseline ({SCHEMA_ID}); --write-baseline writes one")
    return Baseline(file, tuple(_read_row(option, row) for row in data["findings"]))


def _read_row(option: str, row: object) -> KnownFinding:
    texts = ("fingerprint", "rule", "file", "launch")
    if not isinstance(row, Mapping) or not all(isinstance(row.get(key), str) for key in texts):
        raise InputError(f"{option}: a finding in it lacks one of {', '.join(texts)}; --write-baseline writes it anew")
    count = row.get("count", 1)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InputError(f"{option}: the count of a finding is {count!r}: it has to be a number above 0")
    return KnownFinding(row["fingerprint"], count, row["rule"], row["file"], row["launch"])
