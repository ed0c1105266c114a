"""What `kvplan scan` says about tests/launch/manifests/, and the text that keeps it."""

from __future__ import annotations

import contextlib
from pathlib import Path

from click.testing import CliRunner

from kvplan.cli import main

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "launch" / "scan.golden.txt"


def told() -> str:
    """What it says now; without KV901, which follows the coverage table rather than the files."""
    with contextlib.chdir(ROOT):
        result = CliRunner().invoke(main, ["scan", "--offline", "--ignore", "KV901", "tests/launch/manifests"])
    assert (result.exit_code, result.stderr) == (1, "")
    return result.stdout
