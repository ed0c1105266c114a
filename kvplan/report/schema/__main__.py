"""`python -m kvplan.report.schema` writes the JSON Schema files; `--check` only says whether they are up to date."""

from __future__ import annotations

import sys

from kvplan.report import schema
from kvplan.report.schema import scan, sweep


def main(arguments: list[str]) -> int:
    """The exit status: 1 when `--check` finds a file out of date."""
    files = {each.SCHEMA_FILE: each.text() for each in (schema, scan, sweep)}
    if arguments == ["--check"]:
        current = all(file.is_file() and file.read_text(encoding="utf-8") == text for file, text in files.items())
        return 0 if current else 1
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
