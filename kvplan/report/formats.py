"""The formats a report can be told in. A new one is a module with `render`, and one entry here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from kvplan.report.canvas import Canvas

if TYPE_CHECKING:
    from kvplan.report.values import Report


@dataclass(frozen=True, slots=True)
class Format:
    """One output format. `module` is imported when it is used, so that no format slows another down."""

    name: str
    summary: str
    module: str

    def render(self, report: Report, canvas: Canvas) -> str:
        """The report in this format, ending in a newline."""
        draw: Callable[[Report, Canvas], str] = import_module(self.module).render
        return draw(report, canvas)


FORMATS: dict[str, Format] = {
    entry.name: entry
    for entry in (
        Format("text", "for people at a terminal", "kvplan.report.text"),
        Format("json", "for programs: the kvplan/1 contract", "kvplan.report.jsonreport"),
    )
}
