"""An exception at which start-up stopped."""

from __future__ import annotations

import traceback
from typing import Any


def failure(error: BaseException, stage: str, sources: str) -> dict[str, Any]:
    """Stage, type, message and the frames of vLLM that it came through; paths are relative to `sources`."""
    trace = traceback.extract_tb(error.__traceback__)
    frames = [f"{frame.filename.removeprefix(f'{sources}/')}:{frame.lineno} in {frame.name}" for frame in trace]
    own = [frame for frame in frames if frame.startswith("vllm/")]
    message = str(error)
    return {
        "stage": stage,
        "type": type(error).__name__,
        "first_line": message.strip().split("\n")[0][:2000],
        "message": message[:6000],
        "where": own[-1] if own else None,
        "vllm_frames": own[-8:],
        "raised_in": frames[-1] if frames else None,
        "traceback": "".join(traceback.format_exception(error)),
    }
