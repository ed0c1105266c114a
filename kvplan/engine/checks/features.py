"""Features that exclude other options or kinds of models, whatever they do to the cache.

Each is refused while `VllmConfig` is made (config/vllm.py) or just before (engine/arg_utils.py): what the model has to
be, which runner has to work, what may not stand beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.failures import InvalidValue
from kvplan.engine.models.numbers import ModelNumbers
from kvplan.engine.options import connectors, given
from kvplan.engine.stop import StartupStops, config_refuses, of_field, stop
from kvplan.engine.values import Stage
from kvplan.history import checks as history
from kvplan.launch.values import Launch

ENGRAM_LAYERS: Mapping[str, str] = {
    "DeepseekV41ForCausalLM": "engram_layer_ids",
    "Qwen4ExpForCausalLM": "ple_layer_ids",
    "Qwen4ExpForConditionalGeneration": "ple_layer_ids",
}
"""Classes with n-gram embeddings, and the field of the text config that lists their layers."""

_VERSION = re.compile(
    r"v?(\d+!)?\d+(\.\d+)*([-_.]?(a|b|c|rc|alpha|beta|pre|preview)[-_.]?\d*)?"
    r"(-\d+|[-_.]?(post|rev|r)[-_.]?\d*)?([-_.]?dev[-_.]?\d*)?(\+[a-z\d]+([-_.][a-z\d]+)*)?",
    re.IGNORECASE,
)
"""A version as PEP 440 has it."""
_SEPARATE_SIDES = ("NixlConnector", "NixlPullConnector", "NixlPushConnector", "MoRIIOConnector", "MooncakeConnector")
_ROUTED = "--enable-return-routed-experts"


def check_encoder_only(launch: Launch, model: ModelNumbers) -> None:
    """A producer of encoder outputs has to have an encoder."""
    if produces_encodings(launch) and not model.multimodal and launch.release.has(history.PRODUCERS_ENCODE_ONLY):
        raise _refused("--ec-transfer-config", "An EC producer-only instance requires a multimodal model.")


def produces_encodings(launch: Launch) -> bool:
    """Whether the launch only runs the encoder and hands its outputs on."""
    config = launch.get("ec_transfer_config")
    return isinstance(config, Mapping) and config.get("ec_role") == "ec_producer"


def check_engram(launch: Launch, model: ModelNumbers, checkpoint: Checkpoint) -> None:
    """`--engram-config` needs a model with n-gram embeddings, and those no microbatches."""
    config = launch.get("engram_config")
    field = ENGRAM_LAYERS.get(model.architecture)
    layers = None if field is None else checkpoint.text_config.get(field)
    microbatches = given.flag(launch, "enable_dbo") or given.number(launch, "ubatch_size") > 1
    if model.architecture == "DeepseekV41ForCausalLM" and layers and microbatches:
        raise _refused(
            "--enable-dbo" if given.flag(launch, "enable_dbo") else "--ubatch-size",
            "DeepSeek V4.1 Engram does not support DBO or microbatching. Disable --enable-dbo and set --ubatch-size to "
            "0.",
        )
    if not isinstance(config, Mapping):
        return
    if not layers:
        raise _refused(
            "--engram-config",
            "EngramConfig requires a model with supported Engram embeddings and non-empty n-gram layer ids.",
        )
    ranks, elastic = given.number(launch, "data_parallel_size"), given.flag(launch, "enable_elastic_ep")
    message = None
    if config.get("dp_shared_memory") and ranks <= 1:
        message = "dp_shared_memory requires data_parallel_size > 1."
    elif config.get("dp_shared_memory") and elastic:
        message = "dp_shared_memory is not supported with elastic EP."
    elif config.get("embedding_across_dp") and ranks > 1 and elastic:
        message = "Engram embedding_across_dp is not supported with elastic EP yet."
    if message is not None:
        raise _refused("--engram-config", message)


def check_routed_experts(launch: Launch) -> None:
    """What older releases refuse beside --enable-return-routed-experts with the parallel sizes."""
    release = launch.release
    if not release.has(history.ROUTED_EXPERTS_BESIDE_FEW):
        return
    if not given.flag(launch, "enable_return_routed_experts"):
        return
    if given.number(launch, "pipeline_parallel_size") > 1:
        raise _refused(_ROUTED, f"{_ROUTED} is incompatible with pipeline parallelism (PP > 1).")
    if _spreads_context(launch) and release.has(history.ROUTED_EXPERTS_EXCLUDE_CONTEXT_RANKS):
        raise _refused(_ROUTED, f"{_ROUTED} is incompatible with context parallelism (DCP > 1 or PCP > 1).")
    if connectors.transfer_before_offloading(launch) is not None:
        raise _refused(_ROUTED, f"{_ROUTED} is incompatible with KV connectors (PD disaggregation, KV cache offload).")


def check_routed_experts_validated(launch: Launch, *, asynchronous: bool) -> None:
    """The same in the first release that lists what routed experts were not tried with."""
    if not launch.release.has(history.ROUTED_EXPERTS_NOT_VALIDATED):
        return
    if not given.flag(launch, "enable_return_routed_experts"):
        return
    names = (
        ("pipeline_parallel_size", "pipeline parallelism"),
        ("prefill_context_parallel_size", "prefill context parallelism"),
        ("decode_context_parallel_size", "decode context parallelism"),
    )
    sizes = ((name, text, given.number(launch, name)) for name, text in names)
    found = [f"{text} ({name}={size})" for name, text, size in sizes if size > 1]
    found += ["async scheduling"] if asynchronous else []
    if found:
        raise _refused(_ROUTED, f"{_ROUTED} is not yet validated with: {', '.join(found)}.")


def check_sampling_mask(launch: Launch, *, runner: str, speculates: bool, adaptive: bool, is_diffusion: bool) -> None:
    """`--return-sampling-mask` and `--enable-trace-replay`."""
    if given.flag(launch, "return_sampling_mask"):
        if runner != "V2":
            message = "sampling distribution replay requires Model Runner V2"
        elif speculates and launch.release.has(history.SAMPLING_MASK_EXCLUDES_DRAFTS):
            message = "sampling distribution replay does not support speculative decoding"
        elif adaptive:
            message = (
                "sampling distribution replay with speculative decoding requires fixed verification boundaries; "
                "disable adaptive verification"
            )
        elif is_diffusion:
            message = "sampling distribution replay does not support diffusion models"
        elif launch.get("logits_processors"):
            message = "sampling distribution replay does not support custom logits processors"
        elif given.value(launch, "logprobs_mode") != "processed_logprobs":
            message = (
                "sampling distribution replay requires logprobs_mode='processed_logprobs' so that returned logprobs "
                "are normalized over the same nucleus as the sampling mask"
            )
        else:
            message = None
        if message is not None:
            raise _refused("--return-sampling-mask", message)
    if given.flag(launch, "enable_trace_replay") and runner != "V2":
        raise _refused("--enable-trace-replay", "trace replay requires Model Runner V2")


def check_metrics(launch: Launch, *, speculates: bool) -> None:
    """Metrics of drafts without a draft."""
    if given.value(launch, "per_request_spec_decode_metrics") not in (None, "none") and not speculates:
        raise _refused(
            "--per-request-spec-decode-metrics",
            "--per-request-spec-decode-metrics requires speculative decoding to be enabled (via --speculative-config).",
        )


def check_shared_tensors(launch: Launch, model: ModelNumbers, *, ranks: int | None = None) -> None:
    """Multimodal inputs through shared memory: one rank, and workers that are spawned.

    `ranks` is the number of all ranks where that is to be held, None where the way of starting workers is.
    """
    if not model.multimodal or given.value(launch, "mm_tensor_ipc") != "torch_shm":
        return
    if ranks is None and launch.environment.get("VLLM_WORKER_MULTIPROC_METHOD") != "spawn":
        raise _refused(
            "--mm-tensor-ipc", "torch_shm is known to fail without VLLM_WORKER_MULTIPROC_METHOD set to spawn"
        )
    if ranks is not None and ranks > 1:
        raise _refused(
            "--mm-tensor-ipc",
            "mm_tensor_ipc='torch_shm' is not supported with data_parallel_size > 1 or tensor_parallel_size > 1 or "
            "pipeline_parallel_size > 1.",
        )


def check_fast_prefill(launch: Launch, *, reads_states: bool) -> None:
    """Fast prefill gives no right logits for the prompt, which drafts from hidden states need."""
    if given.flag(launch, "kv_sharing_fast_prefill") and reads_states:
        raise _refused(
            "--kv-sharing-fast-prefill",
            "Fast prefill optimization for KV sharing is not compatible with EAGLE as EAGLE requires correct logits "
            "for all tokens while fast prefill gives incorrect logits for prompt tokens.",
        )


def check_outputs(launch: Launch, model: ModelNumbers, *, runner: str, prefix_caching: bool, adaptive: bool) -> None:
    """What newer releases ask of outputs beside the text, at the very end of the engine config."""
    nested = launch.get("aux_output_config")
    wanted = given.flag(launch, "enable_return_routed_experts") or (
        isinstance(nested, Mapping) and bool(nested.get("enable_return_routed_experts"))
    )
    if not wanted or not launch.release.has(history.ROUTED_EXPERTS_ARE_AUXILIARY):
        return
    message = None
    if runner != "V2":
        message = "AuxOutput Connector requires Model Runner V2; set VLLM_USE_V2_MODEL_RUNNER=1."
    elif model.runner_type != "generate":
        message = "AuxOutput Connector only supports generate runners."
    elif not model.is_moe:
        message = "AuxOutput Connector only supports MoE models."
    elif not prefix_caching:
        message = "AuxOutput Connector requires prefix caching."
    elif adaptive:
        message = f"{_ROUTED} is incompatible with adaptive speculative verification."
    elif given.number(launch, "pipeline_parallel_size") > 1:
        message = f"{_ROUTED} is incompatible with pipeline parallelism (PP > 1)."
    elif _spreads_context(launch):
        message = f"{_ROUTED} is incompatible with context parallelism (DCP/PCP > 1)."
    else:
        name = next((name for name in _SEPARATE_SIDES if connectors.named(launch, name)), None)
        if name is not None:
            message = f"{_ROUTED} is incompatible with {name}; PD auxiliary output is not supported."
    if message is not None:
        raise _refused(_ROUTED, message)


def check_offloaded_weights(launch: Launch) -> None:
    """Weights fetched ahead in groups: a group holds what is fetched, and something is fetched ahead."""
    size = given.number(launch, "offload_group_size") if launch.get("offload_group_size") is not None else 0
    if given.value(launch, "offload_backend") != "prefetch" and size <= 0:
        return
    inside, ahead = given.number(launch, "offload_num_in_group"), given.number(launch, "offload_prefetch_step")
    if inside > size:
        raise _refused(
            "--offload-group-size", f"offload_num_in_group ({inside}) must be <= offload_group_size ({size})"
        )
    if ahead < 1:
        raise _refused(
            "--offload-prefetch-step",
            f"offload_prefetch_step ({ahead}) must be >= 1 when prefetch offloading is enabled (offload_group_size > "
            "0)",
        )


def check_observability(launch: Launch) -> None:
    """Metrics of an old version, bounds of histograms; detailed traces need somewhere to go."""
    version, buckets = launch.get("show_hidden_metrics_for_version"), launch.get("custom_histogram_buckets")
    if version is not None and _VERSION.fullmatch(str(version).strip()) is None:
        raise _refused(
            "--show-hidden-metrics-for-version",
            of_field("show_hidden_metrics_for_version", f"Value error, Invalid version: {version!r}"),
        )
    if buckets is not None and not isinstance(buckets, Mapping):
        raise _refused(
            "--custom-histogram-buckets", of_field("custom_histogram_buckets", "Input should be a valid dictionary")
        )
    if launch.get("collect_detailed_traces") and not launch.get("otlp_traces_endpoint"):
        raise _refused(
            "--collect-detailed-traces", "collect_detailed_traces requires `--otlp-traces-endpoint` to be set."
        )


def check_additional(launch: Launch) -> None:
    """What platforms are told has to be an object."""
    config = launch.get("additional_config")
    if config is not None and not isinstance(config, Mapping):
        raise _refused(
            "--additional-config", of_field("additional_config.dict[any,any]", "Input should be a valid dictionary")
        )


def check_prefill_kernels(launch: Launch) -> None:
    """Kernels for Kimi's linear attention that only ROCm has."""
    if given.value(launch, "kda_prefill_backend") == "fused":
        raise stop(
            Stage.OPTIONS,
            InvalidValue(option="--kda-prefill-backend", value="fused"),
            "--kda-prefill-backend=fused is only available on ROCm.",
        )


def check_graph_sizes(launch: Launch) -> None:
    """Sizes of CUDA graphs said by a flag and in the compilation config."""
    nested: Any = launch.get("compilation_config")
    for name in ("cudagraph_capture_sizes", "max_cudagraph_capture_size"):
        both = isinstance(nested, Mapping) and nested.get(name) is not None and launch.get(name) is not None
        if both:
            raise stop(
                Stage.OPTIONS,
                InvalidValue(option="--" + name.replace("_", "-")),
                f"{name} and compilation_config.{name} are mutually exclusive",
            )


def _spreads_context(launch: Launch) -> bool:
    names = ("decode_context_parallel_size", "prefill_context_parallel_size")
    return any(given.number(launch, name) > 1 for name in names)


def _refused(option: str, message: str) -> StartupStops:
    return config_refuses(Stage.OPTIONS, InvalidValue(option=option), message)
