"""The parts of model types that older releases name as targets of EAGLE 3: a list in SpeculativeConfig."""

from __future__ import annotations

import ast

from kvplan.engine.speculation import settle
from kvplan.history import speculation
from kvplan.releases import Release
from tests.upstream.facts import Facts, Subject
from tests.upstream.sources import Sources
from tests.upstream.subjects.listed import methods, span_row
from tests.upstream.subjects.speculative_keys import PLACE

LISTS = ("eagle3_target_supported", "aux_hidden_states_supported")


def read(sources: Sources) -> Facts:
    """Part by part: true. Later releases ask the class, and have no list."""
    return {
        name: True
        for function in methods(sources, PLACE, "_verify_args")
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in LISTS
        for name in ast.literal_eval(node.value)
    }


def told(release: Release) -> Facts:
    """kvplan's table, in the releases that ask by model type."""
    if not release.has(speculation.AUXILIARY_STATES_BY_MODEL_TYPE):
        return {}
    return {name: True for name, span in settle.AUXILIARY_STATES.items() if release.within(span)}


SUBJECT = Subject(
    name="auxiliary_types",
    table="engine/speculation/settle.py AUXILIARY_STATES",
    read=read,
    told=told,
    row=span_row,
)
