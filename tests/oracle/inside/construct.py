"""Models built by vLLM's own classes, all layers of them, without weights."""

from __future__ import annotations

from typing import Any

import torch

from tests.oracle.inside import versions
from tests.oracle.inside.answer import Answer
from tests.oracle.inside.stubs.devices import SMALL, SmallOnCpu


def construct(config: Any, model_config: Any, answer: Answer, prefix: str = "") -> Any:
    """The model of `model_config` on the meta device.

    A model that looks at values while it is built cannot be; it is built anew with its small tensors on the CPU.
    """
    initialize = versions.initialize_model()
    named = {"prefix": prefix} if prefix else {}
    context = config.compilation_config.static_forward_context
    before = dict(context)
    try:
        return _built(initialize, config, model_config, torch.device("meta"), named)
    except (NotImplementedError, RuntimeError) as error:
        if "meta" not in str(error).lower():
            raise
    context.clear()
    context.update(before)
    experts = getattr(config.compilation_config, "static_all_moe_layers", None)
    if isinstance(experts, list):
        experts.clear()
    model = _built(initialize, config, model_config, SmallOnCpu(), named)
    answer.note(f"model built in small-on-cpu mode (tensors under {SMALL >> 20}M elements on CPU, larger on meta)")
    return model


def _built(initialize: Any, config: Any, model_config: Any, place: Any, named: dict[str, str]) -> Any:
    from vllm.config import set_current_vllm_config

    dtype = versions.set_default_torch_dtype()
    with set_current_vllm_config(config, check_compile=False), dtype(model_config.dtype), place:
        return initialize(vllm_config=config, model_config=model_config, **named)
