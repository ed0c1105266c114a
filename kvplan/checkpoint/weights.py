"""How many bytes a checkpoint's weights take, as far as its files say."""

from __future__ import annotations

from pathlib import Path

from kvplan.checkpoint.reading import INDEX_FILE, read_file
from kvplan.errors import InputError


def in_directory(directory: Path) -> int | None:
    """Bytes of the weights in a model's directory: what the index says, else the size of its safetensors files."""
    found = from_index(directory / INDEX_FILE)
    if found is not None:
        return found
    try:
        sizes = [path.stat().st_size for path in directory.glob("*.safetensors") if path.is_file()]
    except OSError:
        return None
    return sum(sizes) or None


def from_index(path: Path) -> int | None:
    """`metadata.total_size` of a safetensors index; None where the file or the number is missing or unusable.

    The weights only make an estimate of free memory better, so a broken index is no reason to stop.
    """
    if not path.is_file():
        return None
    try:
        metadata = read_file(path).data.get("metadata")
    except InputError:
        return None
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(size, float) and size.is_integer():
        size = int(size)
    return size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None
