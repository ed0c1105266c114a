"""`python -m kvplan.report.schema` writes the JSON Schema files; `--check` only says whether they are up to date."""

from __future__ import annotations

import sys

from kvplan.report import schema
from kvplan.report.schema import scan


def main(arguments: list[str]) -> int:
    """The exit status: 1 when `--check` finds a file out of date."""
    files = {schema.SCHEMA_FILE: schema.text(), scan.SCHEMA_FILE: scan.text()}
    if arguments == ["--check"]:
        current = all(file.is_file() and file.read_text(encoding="utf-8") == text for file, text in files.items())
        return 0 if current else 1
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
