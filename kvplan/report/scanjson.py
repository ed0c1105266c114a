"""A scan as JSON: the `kvplan-scan/1` contract, one `kvplan/1` object a launch with where it was found."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.report import jsonreport
from kvplan.report.canvas import Canvas
from kvplan.report.fieldwise import JsonObject, told
from kvplan.report.inert import dumps
from kvplan.report.scanvalues import NotFollowed, ScannedLaunch, ScanReport
from kvplan.rules.limits import kv912_launch_not_followed

SCHEMA_ID = "kvplan-scan/1"


def render(report: ScanReport, _canvas: Canvas | None = None) -> str:
    """The scan as JSON text, one line a launch: a scan of hundreds of launches is no reading matter."""
    return "".join(_lines(report))


def to_dict(report: ScanReport) -> JsonObject:
    """The scan as JSON values."""
    return {
        "schema": SCHEMA_ID,
        "launches": [launch_dict(launch) for launch in report.launches],
        "unreadable": [lost_dict(lost) for lost in report.unreadable],
        "suppressed_unreadable": [suppressed_dict(lost) for lost in report.lost if lost.suppressed],
        "stale": [told(one) for one in report.stale],
        "files": report.files,
        "suppressed_count": report.suppressed,
        "verdict": str(report.verdict),
    }


def _lines(report: ScanReport) -> Iterator[str]:
    yield f'{{"schema": "{SCHEMA_ID}",\n "launches": ['
    yield ",".join(f"\n  {_text(launch_dict(launch))}" for launch in report.launches)
    yield '],\n "unreadable": ['
    yield ",".join(f"\n  {_text(lost_dict(lost))}" for lost in report.unreadable)
    yield '],\n "suppressed_unreadable": ['
    yield ",".join(f"\n  {_text(suppressed_dict(lost))}" for lost in report.lost if lost.suppressed)
    yield '],\n "stale": ['
    yield ",".join(f"\n  {_text(told(one))}" for one in report.stale)
    yield f'],\n "files": {report.files},\n "suppressed_count": {report.suppressed},\n'
    yield f' "verdict": "{report.verdict}"}}\n'


def _text(value: JsonObject) -> str:
    return dumps(value)


def launch_dict(launch: ScannedLaunch) -> JsonObject:
    """The launch's `kvplan/1` object, with `found`: where it stands and in what."""
    found = launch.found
    around = found.around
    launched = jsonreport.to_dict(launch.report)
    for name, option in launched["launch"]["options"].items():
        place = launch.report.plan.launch.settings[name].location
        option["location"] = None if place is None else told(place)
    return {
        **launched,
        "found": {
            "location": told(found.location),
            "kind": around.kind,
            "name": around.name,
            "role": around.role,
            "entry": str(found.entry),
            "wrapper": found.wrapper,
            "release_given": around.release,
            "gpu_given": None if around.gpu is None else around.gpu.name,
            "gpus_given": around.count,
        },
    }


def lost_dict(lost: NotFollowed) -> JsonObject:
    """What could not be followed, and why."""
    place = lost.unreadable.location
    return {
        "file": lost.unreadable.file,
        "location": None if place is None else told(place),
        "reason": lost.unreadable.reason,
        "rule": kv912_launch_not_followed.CODE,
        "severity": str(lost.severity),
    }


def suppressed_dict(lost: NotFollowed) -> JsonObject:
    """The same of something that was let be, and why it was."""
    gone = lost.suppressed
    why = None if gone is None else told(gone, without=frozenset({"finding"}))
    return {**lost_dict(lost), "suppressed": why}
