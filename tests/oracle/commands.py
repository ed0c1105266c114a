"""The command line: `python -m tests.oracle …`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kvplan.errors import InputError
from kvplan.releases import KNOWN, NEWEST
from tests.golden import build
from tests.oracle import asking, drawing, drift, places, questions, summary
from tests.oracle.condense import condensed, own_failure
from tests.oracle.configs import Configs, opened
from tests.oracle.drawing import Draw
from tests.oracle.errors import OracleError
from tests.oracle.gpus import GPUS
from tests.oracle.questions import Question

JOBS = min(4, os.cpu_count() or 1)
"""Processes at a time; one holds 1 to 3 GB."""
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

with_configs = click.option(
    "--configs", "given", type=FOLDER, multiple=True, help="Folder with one folder a config; before the golden ones."
)
with_jobs = click.option("--jobs", type=click.IntRange(1), default=JOBS, show_default=True, help="Processes at a time.")
with_timeout = click.option(
    "--timeout", type=click.IntRange(1), default=300, show_default=True, help="Seconds that a question may take."
)
with_packages = click.option(
    "--packages", type=FOLDER, help="Folder of packages before the environment's own (another Transformers, say)."
)


class _Refusing(click.Group):
    """Tells errors of asking as one line."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (OracleError, InputError) as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Refusing, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Ask vLLM itself, without a GPU: its own start-up runs on a CPU up to where the cache would be allocated."""


@main.command()
def setup() -> None:
    """Make the environment that runs vLLM (once; about 3 GB in ~/.cache/vllm-oracle, or $VLLM_ORACLE_HOME)."""
    click.echo(places.set_up())


@main.command()
@click.argument("releases", nargs=-1, required=True, metavar="RELEASE…")
def sources(releases: Sequence[str]) -> None:
    """Unpack the Python sources of releases (into ~/.cache/vllm-src, or $VLLM_SOURCES). Nothing is installed."""
    for release in releases:
        click.echo(places.unpack_sources(release))


@main.command()
@click.argument("release")
@click.argument("config")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
@click.option("--gpu", type=click.Choice(list(GPUS)), default="h200", show_default=True)
@click.option("--mem-gib", type=float, help="Memory for the cache on each GPU, in GiB.  [default: 60]")
@click.option("--available-bytes", type=int, help="The same in bytes.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable of vLLM's environment.")
@click.option("--json", "as_json", is_flag=True, help="The whole answer.")
@click.option("--record", "as_record", is_flag=True, help="The golden record that it would be.")
@with_configs
@with_timeout
@with_packages
def ask(
    release: str,
    config: str,
    flags: Sequence[str],
    gpu: str,
    mem_gib: float | None,
    available_bytes: int | None,
    variables: Sequence[str],
    as_json: bool,
    as_record: bool,
    given: Sequence[Path],
    timeout: int,
    packages: Path | None,
) -> None:
    """Ask one launch: `ask 0.33.0 CONFIG --gpu h200 -- -tp 8 --kv-cache-dtype fp8`.

    CONFIG is a folder with a config.json, or the name of one of the golden records' configs.
    """
    folder = Path(config)
    if (folder / "config.json").is_file():
        given, config = (folder.resolve().parent, *given), folder.resolve().name
    told: dict[str, Any] = {"id": "asked", "release": release, "gpu": gpu, "config": config, "flags": list(flags)}
    told["env"] = dict(_pair(text) for text in variables)
    told |= {} if mem_gib is None else {"mem_gib": mem_gib}
    told |= {} if available_bytes is None else {"available_bytes": available_bytes}
    question = questions.of_line(told)
    with opened(given) as configs:
        answer = asking.ask([question], configs, jobs=1, timeout=timeout, packages=packages)[question.id]
        if as_json:
            click.echo(json.dumps(answer, indent=1))
            return
        failed = own_failure(answer)
        if failed is not None:
            raise OracleError(f"the oracle's own failure, not vLLM's: {failed}")
        record = condensed(question, answer, configs)
    click.echo(json.dumps(record) if as_record else "\n".join(summary.lines(record)))


@main.command()
@click.argument("file", metavar="QUESTIONS", type=FILE)
@click.argument("output", type=click.Path(dir_okay=False, path_type=Path))
@with_configs
@with_jobs
@with_timeout
@with_packages
def record(file: Path, output: Path, given: Sequence[Path], jobs: int, timeout: int, packages: Path | None) -> None:
    """Make golden records (OUTPUT, a .jsonl.xz file) of QUESTIONS, a file of JSON lines or of other records.

    A question names release, gpu and config, and may name id, flags, env, available_bytes or mem_gib, category and
    sets. What the oracle could not answer is left out and told. Records of release X.Y.Z belong into
    tests/golden/extra; `python -m tests.golden.build --configs DIR` then takes their configs into configs.zip.
    """
    if output.exists():
        raise OracleError(f"{output} exists already")
    asked = questions.read(file)
    with opened(given) as configs:
        records = _records(asked, configs, jobs, timeout, packages)
    build.write(output, records)
    click.echo(f"{len(records)} records of {len(asked)} questions in {output}")


@main.command("drift")
@click.argument("release")
@click.option("--from", "old", help="The release whose records are asked again.  [default: the newest before RELEASE]")
@click.option("--act-as", help="The release that kvplan plans for.  [default: RELEASE, or the newest known]")
@click.option("--sample", type=click.IntRange(1), help="Ask this many records, drawn evenly and always the same.")
@click.option("--limit", type=click.IntRange(1), help="Ask the first records only.")
@click.option("--records", "recorded", type=FILE, help="Compare recorded answers (.jsonl.xz), and ask nothing.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="File for the new records (.jsonl.xz).")
@with_configs
@with_jobs
@with_timeout
@with_packages
def drift_command(
    release: str,
    old: str | None,
    act_as: str | None,
    sample: int | None,
    limit: int | None,
    recorded: Path | None,
    output: Path | None,
    given: Sequence[Path],
    jobs: int,
    timeout: int,
    packages: Path | None,
) -> None:
    """Ask golden command lines of RELEASE, and tell every record with which kvplan no longer agrees.

    The new records are written to OUTPUT; with --records they are read, which needs no oracle environment.
    """
    act_as = act_as or (release if release in KNOWN else NEWEST)
    with opened(given) as configs:
        if recorded is not None:
            records: list[Any] = drift.chosen(list(build.read(recorded)), sample, limit)
            title = f"{recorded.name}, kvplan as {act_as}"
        else:
            old = old or drift.release_before(release)
            output = output or Path(f"drift-{release}.jsonl.xz")
            wanted = drift.chosen(build.records(old), sample, limit)
            if not wanted:
                raise OracleError(f"no records of {old}")
            records = _records(questions.of_records(wanted, release), configs, jobs, timeout, packages)
            build.write(output, records)
            title = f"{release} asked what {old} was asked, kvplan as {act_as}"
        found = drift.compared(records, act_as, configs, jobs)
    click.echo(drift.report(found, title))


@main.command()
@click.argument("kind", type=click.Choice([str(kind) for kind in Draw]))
@click.argument("release")
@click.option("--count", type=click.IntRange(1), default=100, show_default=True, help="Questions.")
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed draws other questions.")
@click.option("--short", is_flag=True, help="Of models with fewer layers: configs called _short_…")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="File for the records (.jsonl.xz).")
@with_configs
@with_jobs
@with_timeout
@with_packages
def fuzz(
    kind: str,
    release: str,
    count: int,
    seed: int,
    short: bool,
    output: Path | None,
    given: Sequence[Path],
    jobs: int,
    timeout: int,
    packages: Path | None,
) -> None:
    """Draw questions that nobody chose, ask them of RELEASE, and tell where kvplan answers otherwise.

    KIND is `launches` (published configs with the options of deployments) or `options` (options of the parser at
    random). The same seed draws the same questions.
    """
    with opened(given) as configs:
        asked = drawing.drawn(Draw(kind), release, configs.contents("_short_" if short else None), count, seed)
        answered = _records(asked, configs, jobs, timeout, packages)
        records = [record for record in answered if not drawing.of_the_server(record)]
        if output is not None:
            build.write(output, records)
        found = drift.compared(records, release, configs, jobs)
    click.echo(drift.report(found, f"{kind} of {release}, seed {seed}"))


def _records(
    asked: Sequence[Question], configs: Configs, jobs: int, timeout: int, packages: Path | None
) -> list[dict[str, Any]]:
    """The records of all that vLLM answered, in the questions' order; the rest is told on standard error."""
    began = time.monotonic()
    done: list[str] = []

    def told(question: Question, answer: Mapping[str, Any]) -> None:
        done.append(question.id)
        failed = own_failure(answer)
        ended = answer.get("stage_reached") if failed is None else f"left out: {failed}"
        click.echo(f"[{len(done)}/{len(asked)}] {question.id}: {ended}", err=True)

    answers = asking.ask(asked, configs, jobs=jobs, timeout=timeout, packages=packages, told=told)
    click.echo(f"asked for {time.monotonic() - began:.0f} s", err=True)
    return [
        condensed(question, answers[question.id], configs)
        for question in asked
        if own_failure(answers[question.id]) is None
    ]


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise OracleError(f"--env {text!r} is not NAME=VALUE")
    return name, value
