"""The options that a release reads somewhere and that the engine never names."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from tests.upstream.facts import Facts
from tests.upstream.sources import python_files


@cache
def named() -> frozenset[str]:
    """Every text that stands alone in the code of kvplan's engine: options and fields are asked for by name."""
    return frozenset(
        node.value
        for file in python_files(files("kvplan") / "engine")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def unfollowed(read_places: Facts) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Options and fields of config objects that the engine does not name, with the places where vLLM reads them.

    A field that bears the name of something else which the engine asks for counts as named: the list may lack some.
    """
    for name, places in sorted(read_places.items()):
        option, _, field = name.partition(".")
        if (field or option) not in named():
            yield name, places
