"""`python -m kvplan.report.schema` writes the JSON Schema file; `--check` only says whether it is up to date."""

from __future__ import annotations

import sys

from kvplan.report.schema import SCHEMA_FILE, text


def main(arguments: list[str]) -> int:
    """The exit status: 1 when `--check` finds the file out of date."""
    if arguments == ["--check"]:
        current = SCHEMA_FILE.is_file() and SCHEMA_FILE.read_text(encoding="utf-8") == text()
        return 0 if current else 1
    SCHEMA_FILE.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
