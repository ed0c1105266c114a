"""The commands that README.md and docs/ show, and what they print: `python -m tests.readme` writes it anew.

A block of the language `console` holds a command (`$ …`, continued on lines that begin with a blank or `>`) and its
output. It is run by a shell in an empty folder, with `kvplan` being this checkout's; what it writes to its standard
output and error stands below it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")))
"""All pages for people."""

_BLOCK = re.compile(
    r"""
    ^```console\n
    (?P<shown> \$[ ] (?: .*\\\n )* .*\n (?: >[ ].*\n )* )
    (?s: .*? )
    ^```$
    """,
    re.MULTILINE | re.VERBOSE,
)


def commands(page: str) -> list[str]:
    """The commands that a page's text shows, in order."""
    return [_command(block["shown"]) for block in _BLOCK.finditer(page)]


def with_outputs(page: str) -> str:
    """A page's text with the output of every shown command as it is now."""
    return _BLOCK.sub(lambda block: f"```console\n{block['shown']}{output(_command(block['shown']))}```", page)


def made() -> dict[Path, str]:
    """The text of every page with its outputs as they are now."""
    return {page: with_outputs(page.read_text(encoding="utf-8")) for page in PAGES}


def _command(shown: str) -> str:
    """A shown command without its prompts."""
    return "\n".join(line[2:] if line.startswith(("$ ", "> ")) else line for line in shown.splitlines())


def output(command: str) -> str:
    """What one shown command prints on standard output and error."""
    kvplan = f'kvplan() {{ "{sys.executable}" -m kvplan "$@"; }}\n'
    plain = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "NO_COLOR")}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["bash", "-c", kvplan + command],
            cwd=folder,
            env={**plain, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            check=False,
        )
    return done.stdout


if __name__ == "__main__":
    for file, text in made().items():
        file.write_text(text, encoding="utf-8")
