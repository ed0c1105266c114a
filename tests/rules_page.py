"""docs/rules.md, made from the rules themselves: their words, their examples, and what kvplan says of the bad ones."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from kvplan.cli import main
from kvplan.releases import KNOWN
from kvplan.report import outcomes
from kvplan.report.markup import escaped, link, tables
from kvplan.rules import Example, Manifest, Rule, rules

PAGE = Path(__file__).parents[1] / "docs" / "rules.md"

SUBJECTS = {
    "KV1": "Options",
    "KV2": "Cache dtype, quantisation and skip list",
    "KV3": "Attention backends and hardware",
    "KV4": "Parallelism",
    "KV5": "Blocks, pages and groups",
    "KV6": "Capacity",
    "KV7": "Launches that hand caches to each other",
    "KV9": "Limits of kvplan itself",
}
"""What the first digit of a code means."""

_HEAD = """\
# Rules

<!-- made from kvplan/rules/ by `python -m tests.regenerate rules` -->

Each finding has the code of a rule. A code never changes its meaning. `kvplan explain KV201` shows one rule in the
terminal, `kvplan rules TEXT` lists those about something, and [reference.md](reference.md#suppressing-findings) says
how to suppress a finding.

| severity | when |
|---|---|
| error | vLLM does not start, or what it computes is wrong |
| warning | vLLM starts, but you do not get what you asked for |
| note | worth to know |

The severity of a rule is the worst that its findings can have. The first digit is the subject:
"""

_CODE = re.compile(r"(`[^`]*`)")


def page() -> str:
    """The text of the page."""
    return "\n\n".join(part.rstrip("\n") for part in _parts()) + "\n"


def _parts() -> Iterator[str]:
    yield _HEAD
    yield "\n".join(f"- [{start}xx {title}](#{_anchor(start, title)})" for start, title in SUBJECTS.items())
    for start, group in groupby(rules(), key=lambda rule: rule.code[:3]):
        some = list(group)
        yield f"## {start}xx {SUBJECTS[start]}"
        rows = [(f"[{rule.code}](#{rule.code.lower()})", str(rule.severity), _prose(rule.summary)) for rule in some]
        yield from tables(("code", "severity", "what it finds"), rows)
        for rule in some:
            yield from _rule(rule)


def _anchor(start: str, title: str) -> str:
    """The anchor that GitHub gives the heading of a subject."""
    return re.sub(r"[^\w -]", "", f"{start}xx {title}".lower()).replace(" ", "-")


def _rule(rule: Rule) -> Iterator[str]:
    yield f"### {rule.code}"
    yield f"**{rule.name}** ({rule.severity}; vLLM {rule.since or KNOWN[0]} to {rule.until or KNOWN[-1]})"
    yield f"_{_prose(rule.summary)}_"
    yield _prose(rule.explanation)
    yield f"Bad:\n\n```sh\n{rule.bad.text}\n```"
    message, fix = _said(rule)
    yield f"> {rule.code}: {escaped(message)}" + (f"\n>\n> Fix: {escaped(fix)}" if fix else "")
    yield f"Good:\n\n```sh\n{rule.good.text}\n```"
    links = [link(name, address) for name in rule.references if (address := outcomes.address(name))]
    if links:
        yield f"See {', '.join(links)}."


def _prose(text: str) -> str:
    """Sentences with code between backticks as Markdown, in which no other sign has a meaning."""
    parts = _CODE.split(text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_<\[\]|])", r"\\\1", part) for part in parts)


def _said(rule: Rule) -> tuple[str, str | None]:
    """What the first finding of the rule says about its bad example, and how to mend it."""
    report = _asked(rule.bad)
    launches = report.get("launches", [report])
    for finding in (finding for launch in launches for finding in launch["findings"]):
        if finding["rule"] == rule.code:
            return finding["message"], finding["fix"]
    for lost in report.get("unreadable", ()):
        if lost["rule"] == rule.code:
            return lost["reason"], None
    raise LookupError(f"the bad example of {rule.code} does not fire it")


def _asked(example: Example | Manifest) -> dict[str, Any]:
    """kvplan's report on an example, or on the scan of one, as JSON values."""
    if isinstance(example, Example):
        return _run("check", *example.options, "--isolated", "--offline", "--format", "json", "--", *example.words)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, content in example.files:
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(content, "utf-8")
        return _run("scan", "--format", "json", *example.arguments)


def _run(*words: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(CliRunner().invoke(main, words).stdout)
    return report
