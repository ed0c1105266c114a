"""Where the oracle keeps its environment and the releases' sources, and how both are made."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.oracle.errors import OracleError

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REQUIREMENTS = HERE / "requirements.txt"

TORCH = ("torch==2.13.0",)
"""Comes first and with its own dependencies, in the build for CPUs."""
BESIDE_TORCH = ("torchvision==0.28.0", "triton==3.9.0")
"""Without dependencies, as all that follows: nothing may pull a CUDA build."""
TRANSFORMERS_4 = ("transformers==4.57.6", "huggingface_hub==0.36.0", "tokenizers==0.22.1")
TRANSFORMERS_5_SINCE = (0, 16)
"""The first release that reads configs with Transformers 5."""
KEPT = (".py", ".json")
"""Files of a wheel that are kept as its sources."""


def home() -> Path:
    """The environment's folder: `VLLM_ORACLE_HOME`, or one in the user's cache."""
    return Path(os.environ.get("VLLM_ORACLE_HOME", "~/.cache/vllm-oracle")).expanduser()


def sources_home() -> Path:
    """The folder of unpacked releases: `VLLM_SOURCES`, or one in the user's cache."""
    return Path(os.environ.get("VLLM_SOURCES", "~/.cache/vllm-src")).expanduser()


def interpreter() -> Path:
    """The environment's Python; raises OracleError where `setup` has not made it."""
    python = home() / "venv/bin/python"
    if not python.exists() or not (home() / "ready").exists():
        raise OracleError(f"no oracle environment in {home()}: make it with `python -m tests.oracle setup`")
    return python


def sources(release: str) -> Path:
    """The unpacked sources of `release`; raises OracleError where they are missing."""
    folder = sources_home() / f"vllm-{release}"
    if not (folder / "vllm").is_dir():
        raise OracleError(f"no sources of {release}: unpack them with `python -m tests.oracle sources {release}`")
    return folder


def packages_in_front(release: str) -> Path | None:
    """The folder of packages that `release` needs in other versions than the environment has."""
    major, minor = (int(part) for part in release.split(".")[:2])
    return home() / "transformers4" if (major, minor) < TRANSFORMERS_5_SINCE else None


def set_up() -> Path:
    """Make the environment (about 3 GB), or what is missing of it; returns its Python."""
    folder, python = home(), home() / "venv/bin/python"
    if not (folder / "ready").exists():
        _run(sys.executable, "-m", "venv", str(folder / "venv"))
        _install(python, *TORCH)
        _install(python, "--no-deps", *BESIDE_TORCH)
        _install(python, "--no-deps", "-r", str(REQUIREMENTS))
        (folder / "ready").touch()
    if not (folder / "transformers4").is_dir():
        _install(python, "--no-deps", "--target", str(folder / "transformers4"), *TRANSFORMERS_4)
    return python


def unpack_sources(release: str) -> Path:
    """Keep the Python files of the release's wheel, which pip downloads; nothing is installed and nothing is run."""
    folder = sources_home() / f"vllm-{release}"
    if (folder / "vllm").is_dir():
        return folder
    with tempfile.TemporaryDirectory() as place:
        wanted = ("--no-deps", "--only-binary=:all:", "-d", place, f"vllm=={release}")
        _run(sys.executable, "-m", "pip", "download", "-q", *wanted)
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.startswith("vllm/") and name.endswith(KEPT)]
            archive.extractall(folder, names)
    return folder


def _install(python: Path, *words: str) -> None:
    _run(str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *words)


def _run(*command: str) -> None:
    """Run it with its output on standard error; raises OracleError where it fails."""
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
        raise OracleError(f"failed: {' '.join(command)}")
