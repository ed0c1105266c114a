"""The upstream reader: facts of a vLLM release, read from its unpacked sources and held against kvplan's tables.

\b
    python -m tests.upstream extract RELEASE [SOURCES]            reads a release and keeps what was read
    python -m tests.upstream extract RELEASE --subject messages   reads one subject again and keeps the others
    python -m tests.upstream check [RELEASE]                      where kvplan's tables say something else; exit code 1
    python -m tests.upstream rows RELEASE --after OLD [SOURCES]   the rows that a new release needs, table by table
    python -m tests.upstream show RELEASE [SUBJECT]               an extract as text
    python -m tests.upstream readers OPTION RELEASE [SOURCES]     where the sources read an option, by its name alone
    python -m tests.upstream unfollowed [RELEASE]                 options that kvplan's engine does not name

SOURCES is the unpacked vllm package or a folder around it; without it, ~/.cache/vllm-src/vllm-RELEASE.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from kvplan.releases import KNOWN, NEWEST
from tests.upstream import checking, readers, reading, store, unfollowed
from tests.upstream.sources import Moved, open_release
from tests.upstream.subjects import SUBJECTS, options, read_places

_SUBJECT = click.Choice([subject.name for subject in SUBJECTS])


def main(arguments: Sequence[str]) -> int:
    """Runs one command; returns the exit code."""
    try:
        return int(commands.main(list(arguments), prog_name="python -m tests.upstream", standalone_mode=False))
    except (click.ClickException, FileNotFoundError, LookupError) as problem:
        told = problem.format_message() if isinstance(problem, click.ClickException) else problem
        print(told, file=sys.stderr)
        return 2


@click.group(help=__doc__)
def commands() -> None:
    """The commands."""


def _sources(function: Callable[..., int]) -> Callable[..., int]:
    return click.argument("sources", required=False, type=click.Path(path_type=Path))(function)


@commands.command()
@click.argument("release")
@_sources
@click.option("--subject", type=_SUBJECT)
def extract(release: str, sources: Path | None, subject: str | None) -> int:
    """Read a release (or every known one, `all`), all subjects or one, and keep what was read."""
    return max(_extract(one, sources, subject) for one in (KNOWN if release == "all" else (release,)))


def _extract(release: str, sources: Path | None, subject: str | None) -> int:
    read, moved = reading.read(open_release(release, sources), subject)
    _tell(moved)
    if not moved:
        read = read if subject is None else {**store.load(release), **read}
        file = store.save(release, read)
        print(f"{file}: {sum(map(len, read.values()))} facts on {len(read)} subjects, {file.stat().st_size} bytes")
    return 2 if moved else 0


@commands.command()
@click.argument("release", required=False)
def check(release: str | None) -> int:
    """Print where kvplan's tables and the extracts differ."""
    releases = KNOWN if release is None else (release,)
    found = [(name, one) for name in releases for one in checking.unintended(name, store.load(name))]
    for name, difference in found:
        print(f"{name}: {difference}")
    print(f"{len(releases)} releases, {len(found)} differences (kvplan's table first)")
    return 1 if found else 0


@commands.command()
@click.argument("release")
@_sources
@click.option("--after", required=True, help="The release before, whose extract is there.")
def rows(release: str, sources: Path | None, after: str) -> int:
    """Print what a release adds to, takes from and changes in the facts of the one before."""
    read, moved = reading.read(open_release(release, sources))
    _tell(moved)
    for line in reading.news(store.load(after), read, after, release):
        print(line)
    return 2 if moved else 0


@commands.command()
@click.argument("release")
@click.argument("subject", required=False, type=_SUBJECT)
def show(release: str, subject: str | None) -> int:
    """Print an extract, or one subject of it."""
    kept = store.load(release)
    print(store.dump({subject: kept[subject]} if subject else kept), end="")
    return 0


@commands.command("readers", context_settings={"ignore_unknown_options": True})
@click.argument("option", metavar="--OPTION")
@click.argument("release")
@_sources
def readers_of(option: str, release: str, sources: Path | None) -> int:
    """Print where the sources read an option, by its own name and by the names of the fields that it fills."""
    opened = open_release(release, sources)
    names = options.field_names(opened, option.lstrip("-").replace("-", "_"))
    found = Counter(readers.places(opened, names))
    for (place, expression), times in sorted(found.items()):
        print(f"{place}: {expression}" + (f" ({times} times)" if times > 1 else ""))
    print(f"{len(found)} places read {', '.join(sorted(names))}")
    return 0 if found else 1


@commands.command("unfollowed")
@click.argument("release", default=NEWEST)
@click.option("--refusing", "only", is_flag=True, help="Only those that some place refuses.")
def options_unfollowed(release: str, only: bool) -> int:
    """Print the options, and fields of config objects, that the engine does not name, with the places of reading."""
    found = [
        (name, places)
        for name, places in unfollowed.unfollowed(store.load(release)["read_places"])
        if not only or read_places.refusing(places)
    ]
    for name, places in found:
        told = [f"{side} {place}" for side, each in places.items() for place in each]
        print(f"{name}: {'; '.join(told) or 'no place found'}")
    print(f"{len(found)} options of {release}")
    return 0


def _tell(moved: Sequence[tuple[str, Moved]]) -> None:
    for subject, problem in moved:
        print(f"{subject}: {problem}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
