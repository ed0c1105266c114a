"""Files as other programs want them named: relative to where kvplan runs, which in CI is the repository's root."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from kvplan.launch.locations import Location


def is_file(location: Location) -> bool:
    """Whether the place is in a file, not on standard input (`<stdin>`)."""
    return not (location.file.startswith("<") and location.file.endswith(">"))


def relative(file: str) -> str:
    """The file with `/` between folders: relative to the current folder where it lies below, else absolute."""
    path = Path(file)
    try:
        if path.is_absolute():
            path = path.relative_to(Path.cwd())
    except (OSError, ValueError):
        return path.as_posix()
    return path.as_posix()


def uri(file: str) -> str:
    """The file as a URI reference: relative where `relative` is, else of the scheme `file`."""
    name = relative(file)
    if Path(name).is_absolute():
        return Path(name).as_uri()
    first, slash, rest = quote(name).partition("/")
    # A colon in the first segment would end a scheme.
    return f"{first.replace(':', '%3A')}{slash}{rest}"
