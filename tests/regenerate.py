"""Everything that is kept in the repository and made from the rest of it, made anew.

    python -m tests.regenerate                 every part but those that take long or need more than Python
    python -m tests.regenerate PART…           these parts
    python -m tests.regenerate --check PART…   nothing is written; exit code 1 where a file would change

The parts, in the order in which one may change the next:

"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the files. `made` gives their texts, or bytes, as they would be now."""

    summary: str
    made: Callable[[], dict[Path, str | bytes]]
    by_default: bool = True


def _made_by(module: str) -> Callable[[], dict[Path, str | bytes]]:
    """What the function `made` of a module gives; imported when it is called."""

    def made() -> dict[Path, str | bytes]:
        found: dict[Path, str | bytes] = import_module(module).made()
        return found

    return made


def _schemas() -> dict[Path, str | bytes]:
    from kvplan.report import schema
    from kvplan.report.schema import scan, sweep
    from kvplan.runs.settings import schema as settings

    return {each.SCHEMA_FILE: each.text() for each in (schema, scan, sweep, settings)}


def _scan() -> dict[Path, str | bytes]:
    from tests import scan_golden

    return {scan_golden.GOLDEN: scan_golden.told()}


def _rules() -> dict[Path, str | bytes]:
    from tests import rules_page

    return {rules_page.PAGE: rules_page.page()}


PARTS = {
    "conformance": Part(
        "the tables of docs/accuracy.md and the engine's coverage.json, from all golden records (minutes)",
        _made_by("tests.golden.table"),
        by_default=False,
    ),
    "schemas": Part("the JSON schemas of the reports and of the settings file", _schemas),
    "scan": Part("what `kvplan scan` says about tests/launch/, word for word", _scan),
    "rules": Part("docs/rules.md", _rules),
    "outputs": Part("what the commands shown in README.md and docs/ print", _made_by("tests.readme")),
    "pictures": Part("the pictures of docs/ (needs Chromium)", _made_by("tests.pictures"), by_default=False),
}


def main(arguments: Sequence[str]) -> int:
    """Make the parts asked for; the exit code is 1 where --check finds a file that is not current."""
    parts = "\n".join(f"    {name:13}{part.summary}" for name, part in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.regenerate",
        description=f"{__doc__}{parts}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where a file would change")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.parts if name not in PARTS]:
        parser.error(f"no part is called {unknown[0]!r}: choose from {', '.join(PARTS)}")
    wanted = given.parts or [name for name, part in PARTS.items() if part.by_default]
    changed = [file for name, part in PARTS.items() if name in wanted for file in _changed(part, write=not given.check)]
    for file in changed:
        print(f"{file.relative_to(ROOT)} {'is not current' if given.check else 'written'}")
    return 1 if given.check and changed else 0


def _changed(part: Part, *, write: bool) -> list[Path]:
    """The files of a part that are not as they would be made now; with `write` they are after this."""
    found = []
    for file, content in part.made().items():
        fresh = content.encode() if isinstance(content, str) else content
        if not file.is_file() or file.read_bytes() != fresh:
            found.append(file)
            if write:
                file.write_bytes(fresh)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
