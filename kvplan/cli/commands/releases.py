"""`kvplan releases`: the releases known, and what changed in each."""

from __future__ import annotations

import click

from kvplan.cli.completing import releases as known_releases
from kvplan.cli.options import plain_output_options
from kvplan.cli.output import canvas, write


@click.command(
    "releases",
    short_help="List the vLLM releases, and what changed in each.",
    epilog="""
\b
Examples:
  kvplan releases
  kvplan releases 0.26.0
  kvplan releases --format json
""",
)
@click.argument("release", required=False, shell_complete=known_releases)
@plain_output_options
def command(release: str | None, format_name: str, output: str | None) -> int:
    """List the vLLM releases that kvplan knows, with every behaviour that began (+) or ended (-) in each.

    With RELEASE, only what changed in that one.
    """
    from kvplan.history import entries
    from kvplan.releases import KNOWN, resolve
    from kvplan.report.listings import as_json, behaviour_dict, changed_in, releases_text

    asked = None if release is None else resolve(release)
    chosen = KNOWN if asked is None else (asked.acts_as,)
    history = entries()
    if format_name == "json":
        told = [entry for entry in history if release is None or changed_in(entry, chosen[0])]
        content = {"releases": list(chosen), "history": [behaviour_dict(entry) for entry in told]}
        write(as_json("kvplan-releases/1", **content), output)
    else:
        remark = ""
        if asked is not None and asked.name != asked.acts_as:
            why = "newer than kvplan knows" if asked.beyond_known else "none of them"
            remark = f"{asked} is {why}: it acts as {asked.acts_as}"
        write(releases_text(chosen, history, canvas(output), remark), output)
    return 0
