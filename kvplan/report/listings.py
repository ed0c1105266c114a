"""What kvplan knows, told as lists: rules, releases with their history, models and architectures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvplan.releases import KNOWN, Behaviour, Release
from kvplan.report.canvas import PIPED_WIDTH, Canvas
from kvplan.report.inert import dumps
from kvplan.report.page import GAP, Page
from kvplan.report.places import relative
from kvplan.report.words import lifetime, span
from kvplan.words import counted

if TYPE_CHECKING:
    from kvplan.checkpoint.additions import Own
    from kvplan.checkpoint.catalog import CatalogEntry
    from kvplan.engine.facade import Overview
    from kvplan.rules.rule import Rule


_FOLDING = 60
"""Columns from which on a long name may rather be folded than left out."""


def as_json(schema: str, **content: Any) -> str:
    """A list as JSON text under a schema name of its own."""
    return dumps({"schema": schema, **content}, indent=2) + "\n"


def rule_text(rule: Rule, canvas: Canvas) -> str:
    """One rule at full length."""
    page = Page(canvas)
    page.line((rule.code, str(rule.severity)), (rule.name, "bold"), f"({rule.severity})")
    page.line(rule.summary)
    for paragraph in rule.explanation.split("\n\n"):
        page.gap()
        page.line(paragraph)
    for title, example in (("Bad", rule.bad), ("Good", rule.good)):
        page.heading(title)
        for line in example.text.splitlines():
            page.unbroken(line, indent=GAP)
    page.gap()
    page.line(f"Releases: {_bounds(rule.since, rule.until)}")
    if rule.references:
        page.line(f"See: {', '.join(rule.references)}")
    return page.text()


def rule_dict(rule: Rule) -> dict[str, Any]:
    """One rule as JSON values."""
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": str(rule.severity),
        "summary": rule.summary,
        "explanation": rule.explanation,
        "bad": rule.bad.text,
        "good": rule.good.text,
        "references": list(rule.references),
        "since": rule.since,
        "until": rule.until,
    }


def rules_text(rules: Sequence[Rule], canvas: Canvas) -> str:
    """All rules, one line each."""
    page = Page(canvas)
    page.table(
        ("code", "severity", "what it finds"),
        [(rule.code, str(rule.severity), rule.summary) for rule in rules],
    )
    page.gap()
    page.line("More about one: kvplan explain CODE")
    return page.text()


def releases_text(releases: Sequence[str], entries: Sequence[Behaviour], canvas: Canvas, remark: str = "") -> str:
    """Releases, and under each what began with it or ended before it; `remark` stands above them."""
    page = Page(canvas)
    page.line(f"{counted(len(KNOWN), 'release')} of vLLM known; a version between them acts as the one of its minor")
    if remark:
        page.line(remark)
    for release in releases:
        begun = [entry for entry in entries if entry.since == release]
        ended = [entry for entry in entries if _ended_in(entry, release)]
        page.heading(release)
        page.pairs([("+", _told(entry)) for entry in begun] + [("-", _told(entry)) for entry in ended])
        if not begun and not ended:
            page.line("nothing that kvplan tells apart", indent=GAP)
    return page.text()


def behaviour_dict(entry: Behaviour) -> dict[str, Any]:
    """A history entry as JSON values."""
    return {
        "name": entry.name,
        "summary": entry.summary,
        "since": entry.since,
        "until": entry.until,
        "releases": span(entry),
        "reference": entry.reference,
        "where": entry.where,
    }


def models_text(own: Sequence[Own], known: Sequence[CatalogEntry], file: str, canvas: Canvas) -> str:
    """The models of the settings `file`, marked, and what they stand for; then those of the catalog."""
    page = Page(canvas)
    rows = [(one.name, one.architecture, one.model_type) for one in known]
    mine = [(one.name, one.architecture, one.model_type, relative(one.reference)) for one in own]
    if mine:
        page.line((f"Of this project ({file})", "bold"))
        _table(page, ("name", "architecture", "model type", "stands for"), mine, ("model type", "architecture"))
    for problem in (one.problem for one in own if one.problem):
        page.line(("unusable:", "error"), problem, indent=GAP, hanging=GAP)
    if mine and rows:
        page.heading("Catalog")
    if rows:
        spare = ("model type",) if page.width >= _FOLDING else ("model type", "architecture")
        _table(page, ("name", "architecture", "model type"), rows, spare)
    page.gap()
    total = counted(len(mine) + len(rows), "model")
    page.line(f"{total}, {len(mine):,} of them of this project" if mine else total)
    return page.text()


def _table(page: Page, headings: Sequence[str], rows: Sequence[Sequence[str]], dispensable: Sequence[str]) -> None:
    """A table that goes without the `dispensable` columns, first to last, on a terminal too narrow for them; cells of
    wider ones fold."""
    columns: dict[str, Sequence[str]] = dict(zip(headings, zip(*rows, strict=True), strict=True))
    if page.width < PIPED_WIDTH:
        columns = page.fitting(columns, dispensable)
    page.table(tuple(columns), zip(*columns.values(), strict=True))


def architectures_text(known: Sequence[Overview], release: Release, canvas: Canvas) -> str:
    """Architectures of a release, one line each, and why some are not computed."""
    page = Page(canvas)
    rows = [
        (entry.architecture, entry.kind, _built_by(entry), lifetime(entry.releases), _confirmed(entry, release))
        for entry in known
    ]
    _table(page, ("architecture", "kind", "built by", "in vLLM", "confirmed"), rows, ("built by", "in vLLM", "kind"))
    page.gap()
    page.line(counted(len(known), "architecture"))
    page.line(
        "Built by: the file in kvplan/engine/models/families, or the language model that it wraps. Confirmed: whether "
        f"vLLM {release}'s own answers were compared and all agree, and in how many releases this is so."
    )
    reasons = {entry.kind: entry.not_computed for entry in known if entry.not_computed is not None}
    if reasons:
        page.heading("Not computed")
        page.pairs(sorted(reasons.items()))
    return page.text()


def _built_by(entry: Overview) -> str:
    if entry.not_computed is not None:
        return "not computed"
    if entry.wraps is not None:
        return entry.wraps
    return entry.family or ""


def _confirmed(entry: Overview, release: Release) -> str:
    here = release.acts_as in entry.covered and not release.beyond_known
    return f"{'yes' if here else 'no'} ({len(entry.covered)})"


def _told(entry: Behaviour) -> str:
    reference = f" ({entry.reference})" if entry.reference else ""
    return f"{entry.summary}{reference}"


def changed_in(entry: Behaviour, release: str) -> bool:
    """Whether the behaviour began in `release`, or is first missing from it."""
    return entry.since == release or _ended_in(entry, release)


def _ended_in(entry: Behaviour, release: str) -> bool:
    at = KNOWN.index(release)
    return at > 0 and entry.until == KNOWN[at - 1]


def _bounds(since: str | None, until: str | None) -> str:
    return f"{since or KNOWN[0]} to {until or KNOWN[-1]}"
