"""What keeps a launch on the V1 runner: the words that vLLM collects about the V2 runner."""

from __future__ import annotations

import ast
from typing import Any

from kvplan.engine.options import v1_runner
from kvplan.releases import Release
from tests.upstream.facts import Facts, Subject
from tests.upstream.sources import Moved, Sources
from tests.upstream.subjects.listed import methods

PLACE = "config/vllm.py"
COLLECTORS = ("_get_v2_model_runner_unsupported_features", "_validate_v2_model_runner")


def read(sources: Sources) -> Facts:
    """Words by words: true. Releases whose V2 runner checks nothing have none."""
    for name in COLLECTORS:
        for function in methods(sources, PLACE, name):
            found = {
                _words(node.args[0]): True
                for node in ast.walk(function)
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "unsupported.append"
            }
            if found:
                return found
    if any(True for _ in methods(sources, PLACE, COLLECTORS[0])):
        raise Moved(f"{COLLECTORS[0]} appends nothing to `unsupported`: `runner_lacks` must learn what it collects")
    return {}


def _words(text: ast.expr) -> str:
    """The text, or what stands before the first value in it."""
    part = text.values[0] if isinstance(text, ast.JoinedStr) else text
    return str(ast.literal_eval(part)).rstrip("' ")


def told(release: Release) -> Facts:
    """kvplan's rows, without what it tells of speculation and states elsewhere."""
    return {lack.name: True for lack in v1_runner.LACKS if release.within(lack)}


def row(name: str, value: Any, since: str) -> str:
    """A row of kvplan's table; the function that asks is for the reader to write."""
    return f'Lack("{name}", ..., since="{since}"),'


SUBJECT = Subject(name="runner_lacks", table="engine/options/v1_runner.py LACKS", read=read, told=told, row=row)
