"""What the commands about launches share: reading what was asked, and telling what comes of it."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from kvplan.cli.configured import acting, announce, settings_of
from kvplan.cli.options import codes
from kvplan.cli.output import deliver, say, targets
from kvplan.cli.words import words_of

if TYPE_CHECKING:
    from kvplan.engine.values import Plan
    from kvplan.report.values import Report
    from kvplan.runs.judging import Choice
    from kvplan.runs.launching import LaunchRequest


def asked(ctx: click.Context, overridden: Collection[str] = ()) -> LaunchRequest:
    """The launch that the command of `ctx` is about; options of its own stand in for those in `overridden`."""
    from kvplan.launch.environment import parse_assignments
    from kvplan.runs.launching import LaunchRequest, Sources

    given, words = ctx.params, words_of(ctx)
    hear_of_requests()
    announce(ctx, overridden)
    return LaunchRequest(
        options=words.options,
        literal=words.literal,
        own_flags=tuple(name for parameter in ctx.command.get_params(ctx) for name in parameter.opts),
        vllm_version=given["vllm_version"],
        gpu=given["gpu"],
        available_kv_memory=given["available_kv_memory"],
        weights=given["weights"],
        environment=parse_assignments(given["env"]),
        sources=Sources(offline=given["offline"], additions=settings_of(ctx).additions, beside=True, stdin=sys.stdin),
    )


def hear_of_requests() -> None:
    """Say on standard error whenever the Hub is asked for something."""
    from kvplan.checkpoint import asking

    asking.listener.set(lambda what: say([what]))


def choice_of(ctx: click.Context) -> Choice:
    """What --select, --ignore, --no-ignore and the settings file make of the rules."""
    from kvplan.runs.judging import Choice

    everything, settings = ctx.params["no_ignore"], settings_of(ctx)
    return Choice(
        select=codes(ctx.params["select"]) or None,
        ignore=None if everything else codes(ctx.params["ignore"]) or None,
        severities=settings.severities,
        suppressing=not everything,
        entries=settings.suppressions,
        settings=acting(ctx),
    )


def plan_of(ctx: click.Context) -> Plan:
    """The emulated start-up of the launch that the command of `ctx` is about."""
    from kvplan.runs.launching import planned

    found = planned(asked(ctx))
    say(found.notices)
    return found.plan


def report_of(ctx: click.Context, plan: Plan, **shape: Any) -> Report:
    """The report on `plan` with the findings that the operator wants to hear."""
    from kvplan.report.values import Detail
    from kvplan.runs.judging import report_of

    choice = choice_of(ctx)
    if shape.get("detail") is Detail.WHY or any(target.format.name == "json" for target in targets(ctx.params)):
        choice = replace(choice, fixes=None)
    return report_of(plan, choice, **shape)


def tell(ctx: click.Context, report: Report) -> None:
    """Write the report in the formats and to the places asked for."""
    from kvplan.rules.values import Severity

    given = ctx.params.get("fail_on")
    fail_on = None if given is None else Severity(given)
    deliver(targets(ctx.params), lambda one, canvas: one.render(report, canvas, fail_on))
