"""A launch in two lines, for every format that people read: what comes of it, and what it runs on."""

from __future__ import annotations

from kvplan.engine.values import Plan, StartupError
from kvplan.launch.values import PARSER_REFUSES
from kvplan.report.values import Report
from kvplan.rules.values import Severity
from kvplan.words import counted, listed


def outcome(report: Report) -> str:
    """What comes of the launch: `GLM-5.2-FP8 starts on vLLM 0.33.0, with 1 warning`."""
    plan = report.plan
    name, where = plan.checkpoint.name, f"on vLLM {plan.release}"
    if plan.stops_with is None:
        return f"{name} starts {where}{f', with {tally(report)}' if report.findings else ''}"
    if is_out_of_reach(plan.stops_with):
        return f"kvplan cannot say what {name} does {where}"
    return f"{name} does not start {where} ({plan.stops_with.stage})"


def stop(error: StartupError, message: str) -> str:
    """Who stops the start, and with which words: `vLLM stops with RuntimeError: …`."""
    who = "not emulated" if is_out_of_reach(error) else f"vLLM stops with {error.type}"
    if error.type == PARSER_REFUSES:
        who = "vLLM's argument parser refuses"
    return f"{who}: {message}" if message else who


def is_out_of_reach(error: StartupError) -> bool:
    """Whether it is kvplan that stops here, not vLLM."""
    return error.type == "NotEmulated"


def tally(report: Report) -> str:
    """`1 warning and 2 notes`."""
    counts = [(report.count(severity), severity) for severity in Severity]
    return listed([counted(count, severity) for count, severity in counts if count])


def circumstances(plan: Plan) -> str:
    """The launch in one line: GPU, split, dtype and block size."""
    hardware, settings = plan.launch.hardware, plan.settings
    parts = [f"{hardware.name} (sm {hardware.capability_text}{', assumed' if hardware.assumed else ''})"]
    if settings is not None:
        split = {
            "TP": settings.tensor_parallel,
            "PP": settings.pipeline_parallel,
            "DP": settings.data_parallel,
            "DCP": settings.decode_context_parallel,
            "PCP": settings.prefill_context_parallel,
        }
        parts.append(" ".join(f"{name} {count}" for name, count in split.items() if count != 1))
        asked, got = settings.requested_cache_dtype, settings.cache_dtype_after_load
        resolved = settings.model_dtype if got == "auto" else got
        parts.append(f"cache dtype {asked}" if asked == resolved else f"cache dtype {asked} -> {resolved}")
        parts.append(f"block size {settings.block_size}")
    return "; ".join(part for part in parts if part)
