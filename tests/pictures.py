"""The pictures of docs/, made from what kvplan says now: `python -m tests.regenerate pictures`.

The page is shown by Chromium and made small by pngquant (Debian has both by these names), the text of a terminal is
drawn by rich.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "page.png"
SWEEP = ROOT / "docs" / "sweep.svg"

SHOWN = (
    "kvplan check gpt-oss-120b --kv-cache-dtype fp8 -tp 2 --gpu h100:2 --available-kv-memory 36GiB "
    "--kv-cache-dtype-skip-layers sliding_window"
)
SWEPT = "kvplan sweep gemma-3-27b-it --vllm-version 0.24.0,0.25.1,0.26.0 --gpu h200 --available-kv-memory 40GiB --diff"
_WIDTH, _HEIGHT = 1060, 900
_COLUMNS = 100
_FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def made() -> dict[Path, str | bytes]:
    """Both pictures. Raises SystemExit where a program is missing."""
    return {SWEEP: terminal(SWEPT), PAGE: page(SHOWN)}


def terminal(command: str) -> str:
    """What a command prints in a terminal, as SVG that loads nothing."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO())
    console.print(f"$ {command}\n", Text.from_ansi(_run(command, FORCE_COLOR="1")), sep="\n", highlight=False)
    return _FONT.sub("", console.export_svg(title="kvplan sweep --diff"))


def page(command: str) -> bytes:
    """The page that a command writes with `--format html`, as PNG."""
    with tempfile.TemporaryDirectory() as folder:
        file, picture = Path(folder, "page.html"), Path(folder, "page.png")
        file.write_text(_run(f"{command} --format html"), encoding="utf-8")
        _call(
            "chromium",
            *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1"),
            *(f"--window-size={_WIDTH},{_HEIGHT}", f"--user-data-dir={folder}/profile"),
            *(f"--screenshot={picture}", file.as_uri()),
        )
        _call("pngquant", "--force", "--strip", "--nofs", "--ext=.png", "64", str(picture))
        return picture.read_bytes()


def _call(program: str, *words: str) -> None:
    found = shutil.which(program)
    if found is None:
        raise SystemExit(f"the picture of the page needs {program}, which is not installed")
    subprocess.run([found, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _run(command: str, **variables: str) -> str:
    program, *words = shlex.split(command)
    assert program == "kvplan"
    plain = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "NO_COLOR")}
    done = subprocess.run(
        [sys.executable, "-m", "kvplan", *words, "--offline", "--isolated"],
        cwd=ROOT,
        env={**plain, **variables, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout
