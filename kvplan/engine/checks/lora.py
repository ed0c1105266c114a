"""What `--enable-lora` asks: sizes that fit each other, and a model class that adapters can be put on.

Sources: `LoRAConfig` (config/lora.py), `create_engine_config` (engine/arg_utils.py) and, for the classes with
`SupportsLoRA`, the models of each release (`engine/models/lora.tsv`).
"""

from __future__ import annotations

from kvplan.engine.checks import bounds
from kvplan.engine.failures import InvalidValue, LoraUnsupported
from kvplan.engine.models.numbers import ModelNumbers
from kvplan.engine.options import given
from kvplan.engine.stop import config_refuses, stop
from kvplan.engine.values import Stage
from kvplan.history import checks as history
from kvplan.launch.values import Launch

_FUSED_WHOLE = (
    "deep_gemm_mega_moe",
    "flashinfer_moe_ep_cutedsl",
    "flashinfer_moe_ep_mega_deep_gemm",
    "aiter_mega_moe",
)
"""Backends that run a whole layer of experts in one kernel."""


def check_sizes(launch: Launch, model: ModelNumbers, *, batched: int, seqs: int, draft_tokens: int) -> None:
    """Raises StartupStops for adapter options that vLLM refuses; `draft_tokens` is 0 without speculative decoding."""
    if launch.get("default_mm_loras") and not model.multimodal:
        raise stop(
            Stage.OPTIONS,
            InvalidValue(option="--default-mm-loras"),
            "Default modality-specific LoRA(s) were provided for a non multimodal model",
        )
    if not given.flag(launch, "enable_lora"):
        return
    bounds.check(launch, bounds.LORA_BOUNDS)
    most, held = given.number(launch, "max_loras"), launch.get("max_cpu_loras")
    if held is not None and 0 < held < most:
        raise config_refuses(
            Stage.OPTIONS,
            InvalidValue(option="--max-cpu-loras", value=held),
            f"max_cpu_loras ({held}) must be >= max_loras ({most}).",
        )
    if draft_tokens and batched < seqs * (draft_tokens + 1):
        raise stop(
            Stage.OPTIONS,
            InvalidValue(option="--max-num-batched-tokens", value=batched),
            "Consider increasing max_num_batched_tokens or decreasing num_speculative_tokens",
        )


def check_model(launch: Launch, model: ModelNumbers) -> None:
    """Raises StartupStops where the model's class takes no adapters, in releases that ask with the engine config.

    Older ones find out once the weights are loaded (`rules/options/kv123_lora_not_supported.py`).
    """
    if not given.flag(launch, "enable_lora"):
        return
    release = launch.release
    if release.has(history.LORA_ASKED_WITH_CONFIG) and model.runner_type != "draft":
        backend = given.value(launch, "moe_backend")
        if backend in _FUSED_WHOLE:
            raise config_refuses(
                Stage.OPTIONS,
                InvalidValue(option="--moe-backend", value=backend),
                f"LoRA is not supported with moe_backend={backend!r}. Disable LoRA or select a MoE backend that "
                "supports LoRA.",
            )
        if not model.takes_adapters:
            # vLLM goes on with the path of the model, which is another on every machine
            raise config_refuses(
                Stage.OPTIONS,
                LoraUnsupported(architecture=model.architecture),
                f"LoRA is not supported for {model.architecture}",
            )
    fused = launch.environment.get("INKLING_MULTIMEM_AR", "1") != "0"
    if fused and release.has(history.INKLING_ADAPTERS_NEED_PLAIN_REDUCE) and "Inkling" in model.architecture:
        raise config_refuses(
            Stage.OPTIONS,
            InvalidValue(option="--enable-lora"),
            "Inkling LoRA requires INKLING_MULTIMEM_AR=0: the Lamport fused-collective path bypasses the LoRA-wrapped "
            "wo_ud and dense down_proj layers on decode-sized batches, silently dropping their LoRA. Set "
            "INKLING_MULTIMEM_AR=0.",
        )
