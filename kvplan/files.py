"""Files that nobody vouches for: read within bounds and without waiting for ever, written whole or not at all."""

from __future__ import annotations

import errno
import os
import select
import stat
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 5.0
"""Seconds that a pipe is given to say something more."""
_CHUNK = 1 << 20


def read_bytes(path: str | os.PathLike[str], most: int) -> bytes:
    """At most `most` bytes of a regular file, or of a pipe that somebody writes to.

    Raises OSError for what is neither (a device, a socket, a directory) and for a pipe that stays silent, ValueError
    for a path that is none.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if stat.S_ISFIFO(mode):
            return _piped(descriptor, most)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        return _all(descriptor, most)
    finally:
        os.close(descriptor)


def _all(descriptor: int, most: int) -> bytes:
    pieces: list[bytes] = []
    left = most
    while left > 0 and (piece := os.read(descriptor, min(left, _CHUNK))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _piped(descriptor: int, most: int) -> bytes:
    pieces: list[bytes] = []
    left, until = most, time.monotonic() + PATIENCE
    while left > 0:
        waiting = until - time.monotonic()
        if waiting <= 0 or not select.select([descriptor], [], [], waiting)[0]:
            raise TimeoutError(errno.ETIMEDOUT, f"a pipe that nobody wrote to for {PATIENCE:g} seconds")
        piece = os.read(descriptor, min(left, _CHUNK))
        if not piece and pieces:
            break
        if not piece:
            # Nobody has opened the other end yet.
            time.sleep(0.02)
            continue
        pieces.append(piece)
        left -= len(piece)
        until = time.monotonic() + PATIENCE
    return b"".join(pieces)


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Put `text` in the place of a file: what was there stays until all of the new text is on the disk.

    What is no regular file (a pipe, a device) is written to as it is. Raises OSError, and ValueError for a path that is
    none.
    """
    data = text.encode("utf-8", "replace")
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        target.write_bytes(data)
        return
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
    descriptor, beside = tempfile.mkstemp(dir=target.parent, prefix=".kvplan-", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(beside).chmod(stat.S_IMODE(mode) if mode is not None else 0o666 & ~_umask())
        Path(beside).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(beside).unlink()
        raise


def _umask() -> int:
    """The permissions that new files go without."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


_NEVER = ("/proc", "/sys")
"""What the kernel tells about this machine and this process is no part of what anybody means to scan."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The files that were named, and all below the folders that were: nothing else is read on a file's word."""

    roots: tuple[str, ...]
    """Whole paths without links."""

    def holds(self, path: str | os.PathLike[str]) -> bool:
        """Whether a path, with all its links followed, stays on the ground."""
        try:
            real = os.path.realpath(path)
        except (OSError, ValueError):
            return False
        return not _below(real, _NEVER) and _below(real, self.roots)

    def read(self, path: str | os.PathLike[str], most: int) -> str | None:
        """The text of a regular file of the ground; None where there is none, or one of more than `most` bytes."""
        if not self.holds(path):
            return None
        try:
            raw = read_bytes(path, most + 1) if Path(path).is_file() else None
            return None if raw is None or len(raw) > most else raw.decode("utf-8")
        except (OSError, ValueError):
            return None


def ground_of(paths: Iterable[str | os.PathLike[str]]) -> Ground:
    """The ground of paths that were named. A file stands for its folder as well, in which what it refers to lies."""
    roots: dict[str, None] = {}
    for path in paths:
        roots[os.path.realpath(path)] = None
        if not Path(path).is_dir():
            roots[os.path.realpath(Path(path).parent)] = None
    return Ground(tuple(roots))


def _below(real: str, roots: Iterable[str]) -> bool:
    return any(real == root or real.startswith(root if root.endswith(os.sep) else f"{root}{os.sep}") for root in roots)
