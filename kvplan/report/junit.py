"""JUnit XML: one test suite a launch, one test case a finding; what --fail-on names fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from xml.etree import ElementTree

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from kvplan.report import headline, outcomes
from kvplan.report.canvas import Canvas
from kvplan.report.inert import markup
from kvplan.report.outcomes import LostOutcome, Outcome, Reported, Told
from kvplan.report.words import printable
from kvplan.rules import get
from kvplan.rules.values import Severity


def render(report: Reported, _canvas: Canvas | None = None, fail_on: Severity = Severity.ERROR) -> str:
    """The report as XML text. Findings below `fail_on` are test cases that pass and tell about them; those that
    were let be are skipped."""
    document = JUnitXml("kvplan")
    launches = outcomes.outcomes(report)
    told = outcomes.everything(launches)
    of_launch: dict[int, list[Told]] = {}
    for one in told:
        of_launch.setdefault(id(one.outcome), []).append(one)
    for launch in launches:
        document.add_testsuite(_suite(launch, of_launch.get(id(launch), []), fail_on))
    if lost := outcomes.all_lost(report):
        document.add_testsuite(_lost(lost, fail_on))
    document.update_statistics()
    root = ElementTree.fromstring(document.tostring())
    # The schema knows this count for suites only.
    root.attrib.pop("skipped", None)
    ElementTree.indent(root)
    return markup(f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n')


def _suite(launch: Outcome, told: Sequence[Told], fail_on: Severity) -> TestSuite:
    """The suite of one launch; where nothing was found, its one test case is that it starts."""
    plan = launch.report.plan
    suite = TestSuite(printable(launch.label))
    suite.add_property("launch", printable(headline.outcome(launch.report)))
    suite.add_property("circumstances", printable(headline.circumstances(plan)))
    seen: Counter[str] = Counter()
    for one in told:
        seen[one.finding.rule] += 1
        suite.add_testcase(_finding(one, seen[one.finding.rule], fail_on))
    if not told:
        case = TestCase("starts", printable(launch.title))
        if launch.report.verdict.reaches(fail_on):
            case.result = [Failure(printable(headline.outcome(launch.report)), "error")]
        suite.add_testcase(case)
    return suite


def _finding(told: Told, number: int, fail_on: Severity) -> TestCase:
    finding = told.finding
    again = "" if number == 1 else f" ({number})"
    case = TestCase(f"{finding.rule} {get(finding.rule).name}{again}", printable(told.outcome.title))
    message = printable(finding.message)
    rows = [f"{name}: {printable(value)}" for name, value in outcomes.details(told)]
    text = "\n".join([f"{finding.severity} {finding.rule}: {message}", *rows])
    if told.suppressed is not None:
        case.result = [Skipped(printable(outcomes.reason(told.suppressed)))]
        case.system_out = text
    elif finding.severity.rank <= fail_on.rank:
        failure = Failure(message, str(finding.severity))
        failure.text = text
        case.result = [failure]
    else:
        case.system_out = text
    return case


def _lost(lost: Sequence[LostOutcome], fail_on: Severity) -> TestSuite:
    """What nothing could be found out about: skipped tests, or errors where --fail-on takes them."""
    suite = TestSuite("not checked")
    seen: Counter[str] = Counter()
    for one in lost:
        name = printable(one.name)
        seen[name] += 1
        case = TestCase(name if seen[name] == 1 else f"{name} ({seen[name]})", "not checked")
        reason = printable(one.reason)
        if one.suppressed is not None:
            case.result = [Skipped(printable(outcomes.reason(one.suppressed)))]
            case.system_out = reason
        elif one.severity.rank <= fail_on.rank:
            case.result = [Error(reason, str(one.severity))]
        else:
            case.result = [Skipped(reason)]
        suite.add_testcase(case)
    return suite
