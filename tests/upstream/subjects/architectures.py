"""The architecture names that the model registry knows: module and class of each; those it knew, and plugins'."""

from __future__ import annotations

from typing import Any

from kvplan.engine.models import registered, resolve
from kvplan.releases import KNOWN, Release
from tests.upstream.evaluate import Evaluator
from tests.upstream.facts import UNREAD, Facts, Subject
from tests.upstream.sources import Sources
from tests.upstream.subjects import interfaces, registry


def read(sources: Sources) -> Facts:
    """Name by name: module (below the model folder, else below vllm), class, and the letters of its interfaces."""
    evaluator = Evaluator(sources)
    letters = {name: interfaces.letters(evaluator, owner) for name, owner in registry.model_classes(sources, evaluator)}
    return {
        name: [module.removeprefix("vllm."), class_name, letters.get(name, UNREAD)]
        for name, (module, class_name) in registry.table(sources, "_VLLM_MODELS").items()
    }


def told(release: Release) -> Facts:
    """kvplan's entries for the release."""
    entries = {name: registered.lookup(name, release) for name in registered.architectures(release)}
    return {
        name: [entry.module, entry.class_name, entry.interfaces.replace("e", "")]
        for name, entry in entries.items()
        if entry is not None
    }


def row(name: str, value: Any, since: str) -> str:
    """A line of kvplan's file; the kind of cache, and `e` among the letters, are for people to fill in."""
    return "\t".join((name, *value, "?", since, ""))


def read_retired(sources: Sources) -> Facts:
    """Names that were supported once: the last version, as vLLM tells it."""
    return dict(registry.table(sources, "_PREVIOUSLY_SUPPORTED_MODELS"))


def told_retired(release: Release) -> Facts:
    """The same as kvplan tells it, for every name that it has heard of."""
    found: dict[str, str] = {}
    heard = {name for known in KNOWN for name in registered.architectures(Release(known, known))}
    for name in heard | resolve.RETIRED.keys():
        version = None if registered.lookup(name, release) is not None else resolve.last_version(name, release)
        if version is not None:
            found[name] = version
    return found


def read_plugins(sources: Sources) -> Facts:
    """Names that vLLM leaves to a plugin, with the plugin's address."""
    name = "_OOT_SUPPORTED_MODELS"
    return dict(registry.table(sources, name)) if registry.has(sources, name) else {}


def told_plugins(release: Release) -> Facts:
    """kvplan's table."""
    return {name: plugin.address for name, plugin in resolve.OUT_OF_TREE.items() if release.within(plugin)}


def row_plugins(name: str, value: Any, since: str) -> str:
    """A row of kvplan's table."""
    return f'"{name}": "{value}",'


SUBJECT = Subject(name="architectures", table="engine/models/registered.tsv", read=read, told=told, row=row)
RETIRED = Subject(
    name="retired_architectures",
    table="engine/models/resolve.py RETIRED",
    read=read_retired,
    told=told_retired,
    row=row_plugins,
)
PLUGINS = Subject(
    name="plugin_architectures",
    table="engine/models/resolve.py OUT_OF_TREE",
    read=read_plugins,
    told=told_plugins,
    row=row_plugins,
)
