"""What all tests share: no deadlines, and after them how far kvplan agrees with vLLM's own answers."""

from __future__ import annotations

from collections import Counter

import hypothesis
import pytest
from hypothesis import settings

settings.register_profile("kvplan", deadline=None)
settings.load_profile("kvplan")

hypothesis.settings.register_profile("kvplan", deadline=None)  # a busy machine is no fault of the code
hypothesis.settings.load_profile("kvplan")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    records: Counter[str] = Counter()
    agreeing: Counter[str] = Counter()
    layers: Counter[str] = Counter()
    agreeing_layers: Counter[str] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            properties = dict(getattr(report, "user_properties", ()))
            if "release" not in properties:
                continue
            release, (right, total) = properties["release"], properties["layers"]
            records[release] += 1
            agreeing[release] += outcome == "passed"
            layers[release] += total
            agreeing_layers[release] += right
    if not records:
        return
    terminalreporter.section("agreement with vLLM's own answers")
    for release in sorted(records, key=lambda name: tuple(map(int, name.split(".")))):
        terminalreporter.write_line(
            f"{release}: {agreeing[release]}/{records[release]} records, "
            f"{agreeing_layers[release]}/{layers[release]} layers"
        )
