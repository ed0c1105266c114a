"""Draft models: built through the release's own speculator or proposer, with only the loading of weights replaced."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from tests.oracle.inside.answer import Answer
from tests.oracle.inside.construct import construct
from tests.oracle.inside.versions import v2_by_config
from tests.oracle.inside.worker import Worker

WITHOUT_MODEL = frozenset({"ngram", "suffix", "medusa"})
"""Methods that have no draft with a cache."""


def wanted(config: Any) -> bool:
    """Whether the launch has a draft model to build."""
    speculative = config.speculative_config
    return (
        speculative is not None
        and getattr(speculative, "draft_model_config", None) is not None
        and speculative.method not in WITHOUT_MODEL
    )


def load(config: Any, worker: Worker, answer: Answer) -> None:
    """Build the launch's draft beside the target; its layers join the target's in the static context.

    Where the release's loader fails on what is pretended, the draft is built as a model by itself; the answer's notes
    say which way was taken.
    """
    context = config.compilation_config.static_forward_context
    before = set(context)
    try:
        how = _by_release(config, worker, answer)
    except Exception as error:
        failed = f"{type(error).__name__}: {str(error)[:300]}"
        if set(context) - before:
            how = f"real loader, stopped after construction by: {failed}"
        else:
            _by_itself(config, answer)
            how = f"fallback plain construction (real loader failed: {failed})"
    answer.note(f"draft model: {how}")
    answer.told["draft_layers"] = [name for name in context if name not in before]
    _mark(context, answer)


def _by_release(config: Any, worker: Worker, answer: Answer) -> str:
    from vllm.config import set_current_vllm_config

    replace = _replacement(answer)
    replace()
    with set_current_vllm_config(config, check_compile=False):
        return _v2(config, worker, replace) if v2_by_config(config) else _v1(config, replace)


def _v2(config: Any, worker: Worker, replace: Callable[[], None]) -> str:
    from vllm.v1.worker.gpu.spec_decode import init_speculator

    speculator = init_speculator(config, torch.device("cuda:0"), None)
    # it may have imported modules that hold the function
    replace()
    if hasattr(speculator, "load_model"):
        speculator.load_model(worker.model)
    worker.speculator = speculator
    return f"real V2 {type(speculator).__name__}.load_model"


def _v1(config: Any, replace: Callable[[], None]) -> str:
    speculative = config.speculative_config
    if speculative.method == "draft_model":
        from vllm.v1.spec_decode.draft_model import DraftModelProposer as Proposer
    else:
        from vllm.v1.spec_decode.eagle import EagleProposer as Proposer
    replace()
    proposer = object.__new__(Proposer)
    proposer.vllm_config, proposer.speculative_config = config, speculative
    proposer.draft_model_config = speculative.draft_model_config
    proposer.method, proposer.device = speculative.method, torch.device("cuda:0")
    proposer._get_model()
    return f"real V1 {Proposer.__name__}._get_model"


def _replacement(answer: Answer) -> Callable[[], None]:
    """Puts a constructor in the place of vLLM's `get_model`, in every module that holds it by now."""
    from vllm.model_executor import model_loader

    real = model_loader.get_model

    def get_model(*, vllm_config: Any, model_config: Any = None, prefix: str = "", **more: Any) -> Any:
        return construct(vllm_config, model_config or vllm_config.model_config, answer, prefix)

    def replace() -> None:
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("vllm") and module.__dict__.get("get_model") is real:
                module.__dict__["get_model"] = get_model

    return replace


def _by_itself(config: Any, answer: Answer) -> None:
    speculative = config.speculative_config
    if speculative.method != "draft_model":
        construct(config, speculative.draft_model_config, answer)
        return
    from vllm.config import replace

    own = replace(config, model_config=speculative.draft_model_config, quant_config=None)
    construct(own, speculative.draft_model_config, answer, "draft_model")
    for name, layer in own.compilation_config.static_forward_context.items():
        config.compilation_config.static_forward_context.setdefault(name, layer)


def _mark(context: dict[str, Any], answer: Answer) -> None:
    """Tell the draft's layers that they are a draft's, as the runner does in releases that ask."""
    try:
        from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
    except ImportError as error:
        answer.note(f"is_draft_layer: {error!r}")
        return
    if hasattr(AttentionLayerBase, "is_draft_layer"):
        for name in answer.told["draft_layers"]:
            if isinstance(context[name], AttentionLayerBase):
                context[name].is_draft_layer = True
