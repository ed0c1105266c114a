"""What a shell is told while a command line is typed: models, releases, GPUs, rules, and vLLM's own options.

Nothing here raises: whoever types is not to be told what is wrong yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from kvplan.errors import InputError

if TYPE_CHECKING:
    from kvplan.releases import Release

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def files(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shell's own names of files."""
    return [CompletionItem(incomplete, type="file")]


def releases(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Releases of vLLM, newest first."""
    from kvplan.releases import KNOWN

    return _last(incomplete, reversed(KNOWN))


def release_spans(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What --releases takes, as far as it can be listed."""
    from kvplan.releases import KNOWN

    return _last(incomplete, ("all", *reversed(KNOWN)))


def gpus(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """GPUs by name."""
    from kvplan.launch.hardware import GPUS

    return _last(incomplete, [(gpu.name, gpu.device_name) for gpu in GPUS])


def rules(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Codes of rules."""
    from kvplan.rules import rules as all_rules

    return _last(incomplete, [(rule.code, rule.name) for rule in all_rules()])


def launch_words(
    ctx: click.Context, before: Sequence[str], literal: Sequence[str] | None, incomplete: str
) -> list[CompletionItem]:
    """What may come next of a launch: `before` are the words that are not kvplan's own, `literal` those after `--`."""
    if literal is not None:
        start = ("vllm", "serve")
        if len(literal) < len(start):
            return _beginning(incomplete, [start[len(literal)]])
        before = literal[len(start) :]
    release = _release(ctx)
    if before and (values := _values(before[-1], release)) is not None:
        return _last(incomplete, values) if values else [CompletionItem(incomplete, type="file")]
    if incomplete.startswith("-"):
        return _beginning(incomplete, _flags(release))
    if any(not word.startswith("-") for word in before[:1]) or "--model" in before:
        return []
    if incomplete.startswith((".", "/", "~")):
        return [CompletionItem(incomplete, type="file")]
    return models(incomplete)


def models(incomplete: str) -> list[CompletionItem]:
    """The project's own models and the catalog's: by their whole names, or without organisation once one is begun."""
    from kvplan.checkpoint.catalog import names

    catalog = [entry.name for entry in names()]
    bare = [name.partition("/")[2] for name in catalog] if incomplete and "/" not in incomplete else []
    return _beginning(incomplete, dict.fromkeys((*_own_models(), *catalog, *bare)))


def _own_models() -> list[str]:
    from kvplan.runs.settings.finding import find

    try:
        file = find(Path())
        if file is None:
            return []
        from kvplan.runs.settings.reading import read

        return [one.name for one in read(file).additions.listed()]
    except (InputError, OSError):
        return []


def _release(ctx: click.Context) -> Release:
    from kvplan.releases import resolve

    try:
        return resolve(str(ctx.params.get("vllm_version") or "latest"))
    except InputError:
        return resolve("latest")


def _flags(release: Release) -> list[str]:
    """vLLM's long flags."""
    from kvplan.launch.options import table_of

    options = table_of(release).by_name.values()
    return sorted(flag for option in options for flag in option.flags if flag.startswith("--"))


def _values(flag: str, release: Release) -> list[str] | None:
    """The values that may stand behind a flag of vLLM's; empty where any may, None where none does."""
    from kvplan.engine.cache_dtypes.dtypes import known
    from kvplan.launch.options import table_of

    option = table_of(release).by_flag.get(flag)
    if option is None or not option.takes_value:
        return None
    if option.name == "kv_cache_dtype":
        # No longer choices of the parser in the newest releases.
        return list(known(release))
    return [str(choice) for choice in option.choices or ()]


Offered = Iterable[str | tuple[str, str]]
"""Values, or values with a word of help."""


def _last(incomplete: str, values: Offered) -> list[CompletionItem]:
    """The values that the last part of a list with commas may become."""
    before, comma, last = incomplete.rpartition(",")
    return _beginning(last, values, f"{before}{comma}")


def _beginning(incomplete: str, values: Offered, before: str = "") -> list[CompletionItem]:
    """The values that begin with what was typed, in any case."""
    pairs = [(value, None) if isinstance(value, str) else value for value in values]
    return [
        CompletionItem(f"{before}{value}", help=words)
        for value, words in pairs
        if value.lower().startswith(incomplete.lower())
    ]
