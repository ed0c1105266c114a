"""SARIF 2.1.0, for code scanning: rules with help, results with places and fingerprints.

Plain values: of the SARIF libraries of PyPI, none that is both light and kept up. The tests hold the result against
the schema that OASIS publishes.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan import __version__
from kvplan.launch.locations import Location
from kvplan.report import documentation, outcomes
from kvplan.report.canvas import Canvas
from kvplan.report.fieldwise import JsonObject
from kvplan.report.inert import dumps
from kvplan.report.outcomes import LostOutcome, Reported, Told
from kvplan.report.places import uri
from kvplan.rules import Rule, get
from kvplan.rules.suppression import Suppressed

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_UNREADABLE = "unreadable"
_LIMIT = 1024
"""Characters of a description that GitHub takes."""


def render(report: Reported, _canvas: Canvas | None = None) -> str:
    """The log as JSON text, with a newline at its end."""
    return dumps(to_dict(report), indent=2) + "\n"


def to_dict(report: Reported) -> JsonObject:
    """The log as JSON values: one run, with the rules that found something."""
    told = outcomes.everything(outcomes.outcomes(report))
    rules = [get(code) for code in sorted({one.finding.rule for one in told})]
    index = {rule.code: position for position, rule in enumerate(rules)}
    lost = outcomes.all_lost(report)
    driver: JsonObject = {"name": "kvplan", "version": __version__, "rules": [_rule(rule) for rule in rules]}
    if lost:
        driver["notifications"] = [
            {
                "id": _UNREADABLE,
                "shortDescription": {"text": "Nothing could be found out about a launch, a file or a combination."},
            }
        ]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "invocations": [
                    {"executionSuccessful": True, "toolExecutionNotifications": [_notification(one) for one in lost]}
                ],
                "columnKind": "unicodeCodePoints",
                "results": [_result(one, index[one.finding.rule]) for one in told],
                "properties": {"verdict": str(report.verdict)},
            }
        ],
    }


def _rule(rule: Rule) -> JsonObject:
    """A rule with its explanation as help, and the page that tells the same."""
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.explanation.split("\n\n", maxsplit=1)[0][:_LIMIT]},
        "help": {"text": rule.explanation, "markdown": _help(rule)},
        "helpUri": documentation.of_rule(rule.code),
        "defaultConfiguration": {"level": str(rule.severity)},
        "properties": {
            "tags": ["vllm", "kv-cache"],
            "problem.severity": {"error": "error", "warning": "warning"}.get(str(rule.severity), "recommendation"),
        },
    }


def _help(rule: Rule) -> str:
    parts = [f"**{rule.code} {rule.name}**", rule.explanation]
    for title, example in (("Fires", rule.bad), ("Does not fire", rule.good)):
        parts.append(f"{title}:\n\n```sh\n{example.text}\n```")
    links = [f"[{name}]({page})" for name in rule.references if (page := outcomes.address(name))]
    if links:
        parts.append(f"See {', '.join(links)}.")
    return "\n\n".join(parts)


def _result(told: Told, rule: int) -> JsonObject:
    finding, plan = told.finding, told.outcome.report.plan
    result = {
        "ruleId": finding.rule,
        "ruleIndex": rule,
        "level": str(finding.severity),
        "message": {"text": told.full_text},
        "locations": [_location(told)],
        "partialFingerprints": {"kvplanFinding/v1": told.fingerprint},
        "properties": {
            "model": plan.checkpoint.name,
            "release": plan.release.name,
            "layers": list(finding.layers),
            "options": list(finding.options),
            "fix": finding.fix,
            "references": list(finding.references),
            **_combination(told.outcome.combination),
        },
    }
    return result if told.suppressed is None else {**result, "suppressions": [_suppression(told.suppressed)]}


def _combination(options: Mapping[str, str]) -> JsonObject:
    return {"combination": dict(options)} if options else {}


def _suppression(suppressed: Suppressed) -> JsonObject:
    return {
        "kind": "inSource" if suppressed.by == "comment" else "external",
        "status": "accepted",
        "justification": outcomes.reason(suppressed),
    }


def _location(told: Told) -> JsonObject:
    """The place in a file, and the launch by name. Without a place, the file is the model's, or called like the model:
    GitHub refuses a log with a result that has none."""
    place = told.place or Location(told.outcome.subject, 1, 1)
    return {
        "physicalLocation": _physical(place),
        "logicalLocations": [{"fullyQualifiedName": told.outcome.title, "kind": "resource"}],
    }


def _physical(place: Location) -> JsonObject:
    address = uri(place.file)
    artifact = {"uri": address} if address.startswith("file:") else {"uri": address, "uriBaseId": "%SRCROOT%"}
    return {
        "artifactLocation": artifact,
        "region": {"startLine": max(place.line, 1), "startColumn": max(place.column, 1)},
    }


def _notification(lost: LostOutcome) -> JsonObject:
    told: JsonObject = {
        "descriptor": {"id": _UNREADABLE, "index": 0},
        "level": "none" if lost.suppressed else str(lost.severity),
        "message": {"text": f"{lost.text} ({outcomes.reason(lost.suppressed)})" if lost.suppressed else lost.text},
    }
    if lost.combination:
        told["properties"] = _combination(lost.combination)
    return told if lost.place is None else {**told, "locations": [{"physicalLocation": _physical(lost.place)}]}
