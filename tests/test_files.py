"""Files are read within bounds and without waiting for ever, and written whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kvplan import files
from tests.asking import kvplan

pytestmark = pytest.mark.skipif(os.name == "nt", reason="pipes and permissions of Unix")


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    output.write_text("keep\n")
    words = ["check", "GLM-5.2-FP8", "--offline", "--isolated", "--format", "json", "--output", str(output)]
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    program = f"{limit}\nfrom kvplan.cli import main\nmain.main({words!r})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1]
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be written" in done.stderr
    assert output.read_text() == "keep\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_a_file_keeps_its_permissions_and_a_link_its_target(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.write_text("old")
    real.chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    files.write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_a_new_file_is_as_open_as_others(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    files.write_whole(tmp_path / "new", "x")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_device_is_written_to() -> None:
    assert kvplan("check", "GLM-5.2-FP8", "--offline", "--isolated", "--output", "/dev/null").exit_code == 0


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "fifo", "socket-less/none", "."])
def test_what_is_no_file_ends_in_one_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files, "PATIENCE", 0.1)
    os.mkfifo("fifo")
    for option in ((), ("--config",)):
        words = ["check", *(("GLM-5.2-FP8", *option, f"{name}") if option else (name if name != "." else "./",))]
        result = kvplan(*words, "--offline", "--isolated")
        assert result.exit_code == (1 if option else 2)
    result = kvplan("scan", name, "--isolated")
    assert result.exit_code == 2


def test_a_pipe_is_read_whenever_it_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"x" * 200_000))
    writer.start()
    assert len(files.read_bytes(pipe, 1_000_000)) == 200_000
    writer.join()


def test_the_ground_ends_at_names_not_at_letters(tmp_path: Path) -> None:
    for name in ("tree", "tree-of-others"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text("x")
    ground = files.ground_of([tmp_path / "tree"])
    assert ground.read(tmp_path / "tree" / "a", 10) == "x"
    assert ground.read(tmp_path / "tree" / "a", 0) is None
    assert ground.read(tmp_path / "tree-of-others" / "a", 10) is None
    assert ground.read(tmp_path / "tree" / ".." / "tree-of-others" / "a", 10) is None
    assert not files.ground_of(["/"]).holds("/proc/self/environ")
