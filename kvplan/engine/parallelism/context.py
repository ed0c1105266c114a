"""Context parallelism: the tokens of a request spread over ranks that would else hold the same heads.

DCP (`--decode-context-parallel-size`) reuses tensor-parallel ranks: each stores every D-th token of what all of them
would have kept. PCP (`--prefill-context-parallel-size`) adds ranks for the prefill. Sources: `ParallelConfig`
(config/parallel.py), `ModelConfig.verify_with_parallel_config` (config/model.py), v1/kv_cache_interface.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kvplan.engine.failures import ContextParallelRefused, SlidingWindowDivided
from kvplan.engine.options import connectors, given
from kvplan.engine.specs.base import LayerSpec, SlidingWindowSpec
from kvplan.engine.stop import StartupStops, config_refuses, stop
from kvplan.engine.values import Stage
from kvplan.history import backends as backend_history
from kvplan.history import connectors as connector_history
from kvplan.history import parallel as history
from kvplan.launch.values import Launch
from kvplan.releases import ALWAYS, Release, Span

DECODE = "--decode-context-parallel-size"
PREFILL = "--prefill-context-parallel-size"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Ranks that a request's tokens are spread over, while decoding and while prefilling."""

    decode: int
    prefill: int


def sizes(launch: Launch) -> Sizes:
    """The two sizes of `launch`. Raises StartupStops where the ranks cannot be arranged so."""
    release = launch.release
    decode, prefill = _size(launch, "decode_context_parallel_size"), _size(launch, "prefill_context_parallel_size")
    tensor, data = _size(launch, "tensor_parallel_size"), _size(launch, "data_parallel_size")
    if prefill > 1 and data > 1 and release.has(history.PCP_EXCLUDES_DATA_PARALLEL):
        on_platform = release.has(history.PCP_CHECKED_BY_PLATFORM)
        raise _refused(f"PCP does not support data parallelism {'on CUDA ' if on_platform else ''}yet.", PREFILL)
    if prefill == 1 or not release.has(history.PCP_HAS_RANKS_OF_ITS_OWN):
        if tensor % decode:
            space = " " if release.has(history.PCP_HAS_RANKS_OF_ITS_OWN) else ""
            raise _refused(f"tp_size={tensor} must be divisible by{space}dcp_size={decode}.", DECODE)
    elif decode not in (1, prefill, tensor * prefill):
        valid = sorted({1, prefill, tensor * prefill})
        raise _refused(
            "When PCP is enabled, DCP must be disabled, span the PCP axis, or span the full TP x PCP axis. "
            f"Got TP={tensor}, PCP={prefill}, DCP={decode}; valid DCP sizes are {valid}.",
            DECODE,
        )
    if launch.get("dcp_comm_backend") == "a2a" and decode == 1 and release.has(history.A2A_NEEDS_DCP):
        raise _refused("dcp_comm_backend='a2a' requires decode_context_parallel_size > 1.", "--dcp-comm-backend")
    return Sizes(decode, prefill)


def check_connector(launch: Launch, asked: Sizes, *, use_mla: bool, is_hybrid: bool) -> None:
    """NIXL reads a side that is either replicated or divided over all its ranks, and divides latent rows only.

    It is asked of the connector that was named, before offloading takes its place.
    """
    release = launch.release
    if not release.has(connector_history.NIXL_SHARDS_WHOLLY) or not connectors.named(launch, "NixlConnector"):
        return
    tensor, first = _size(launch, "tensor_parallel_size"), release.has(connector_history.NIXL_WITHOUT_PREFILL_RANKS)
    if first and asked.prefill > 1:
        raise _refused("NIXL does not support prefill context parallelism.", PREFILL, "AssertionError")
    ranks = tensor if first else max(tensor, asked.prefill)
    if asked.decode not in (1, ranks):
        whole = f"tensor_parallel_size={ranks} when using NixlConnector"
        whole = whole if first else f"the NIXL transfer parallel size={ranks}"
        message = f"decode_context_parallel_size={asked.decode} must be 1 or equal to {whole}."
        raise _refused(message, DECODE, "AssertionError")
    if asked.decode > 1 and not use_mla:
        message = "PD with decode_context_parallel_size > 1 is only supported for MLA models."
        raise _refused(message, DECODE, "AssertionError")
    if first and asked.decode > 1 and is_hybrid:
        message = "PD with decode_context_parallel_size > 1 is not supported for hybrid Mamba/SSM models."
        raise _refused(message, DECODE, "AssertionError")


def _size(launch: Launch, name: str) -> int:
    """A size; newer releases have refused one below 1 before (`checks.bounds`)."""
    value = given.value(launch, name)
    size = 1 if value is None else int(value)
    if size < 1:
        flag = "--" + name.replace("_", "-")
        if flag == DECODE and size == 0:
            raise _refused("integer modulo by zero", flag, "ZeroDivisionError")
        raise _refused(f"{flag} must be at least 1, got {size}", flag)
    return size


def _refused(message: str, option: str, raised: str = "ValueError", max_dcp: int | None = None) -> StartupStops:
    facts = ContextParallelRefused(option=option, max_dcp=max_dcp)
    return config_refuses(Stage.OPTIONS, facts, message, raised=raised)


def shards(decode: int, prefill: int, release: Release) -> int:
    """Ranks that share the cached tokens of a request: all of DCP's, and through 0.25 PCP's on top."""
    return decode if release.has(history.PCP_REPLICATES_CACHE) else decode * prefill


def check_heads(decode: int, tensor: int, heads: int, kv_heads: int, release: Release) -> None:
    """For models with KV heads: ranks beyond one a KV head must exist, and DCP may use no more than those.

    Qwen3-30B-A3B, 4 KV heads over 8 ranks: every KV head is there twice, so 2 is the largest size.
    """
    if decode == 1 or not kv_heads:
        return
    texts = release.has(history.DCP_REFUSALS_HAVE_TEXTS)
    largest, queries = tensor // kv_heads, heads // kv_heads
    if tensor <= kv_heads:
        text = (
            f"Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` ({tensor}) to be greater than "
            f"the model's total number of KV heads ({kv_heads})."
            if texts
            else f"tensor parallel size {tensor} must be greater than total num kv heads {kv_heads} when enable "
            "decode context parallel for GQA/MQA"
        )
        raise _refused(text, DECODE, max_dcp=1)
    if decode > largest:
        text = (
            f"`--decode-context-parallel-size` ({decode}) exceeds the maximum supported value ({largest}) for "
            f"`--tensor-parallel-size` ({tensor}) and {kv_heads} model KV heads."
            if texts
            else "decode context parallel size must less than or equal to (tensor parallel size "
            f"{tensor} // total num kv heads {kv_heads}) = {largest}, but got {decode}"
        )
        raise _refused(text, DECODE, max_dcp=largest)
    if queries % decode:
        text = (
            f"The model's number of query heads per KV head ({queries}) must be divisible by "
            f"`--decode-context-parallel-size` ({decode}) for GQA/MQA."
            if texts
            else f"Total number of q per kv attn heads ({queries}) must be divisible by dcp world size when enable "
            f"decode context parallel for GQA ({decode})."
        )
        raise _refused(text, DECODE)


def check_layer(backend: str, cache_dtype: str, decode: int, layer: str, release: Release) -> None:
    """FlashMLA's sparse kernels share the work of decoding only over packed rows."""
    if decode == 1 or backend != "FLASHMLA_SPARSE" or not release.has(history.SPARSE_DCP_NEEDS_PACKED_ROWS):
        return
    if cache_dtype in ("auto", "bfloat16", "float16"):
        raise stop(
            Stage.LAYERS,
            ContextParallelRefused(option=DECODE, layer=layer),
            "DCP for FlashMLA sparse requires an fp8_ds_mla kv-cache; the bf16 sparse path is not supported under DCP.",
            exception="NotImplementedError",
        )


def check_dense_mla(decode: int, prefill: int, layer: str, release: Release) -> None:
    """Dense MLA layers cannot put both kinds of ranks together; DeepSeek's sparse ones can."""
    if decode > 1 and prefill > 1 and release.has(history.DENSE_MLA_EXCLUDES_BOTH):
        raise stop(
            Stage.LAYERS,
            ContextParallelRefused(option=DECODE, layer=layer),
            "MLAAttention does not support PCP+DCP.",
            exception="NotImplementedError",
        )


def check_specs(specs: Iterable[LayerSpec], decode: int) -> None:
    """A sliding-window cache cannot be divided: the need of a request is asked for, and an assertion fails."""
    if decode > 1 and any(isinstance(spec, SlidingWindowSpec) and spec.divided for spec in specs):
        raise stop(
            Stage.CAPACITY, SlidingWindowDivided(), "DCP not support sliding window.", exception="AssertionError"
        )


def check_interleave(launch: Launch, decode: int, block_size: int) -> None:
    """Runs of tokens that go to one rank must fill a block evenly."""
    if decode == 1:
        return
    run = launch.get("cp_kv_cache_interleave_size") or 1
    legacy = launch.get("dcp_kv_cache_interleave_size") or 1
    run = int(legacy if legacy > 1 and not launch.release.has(history.INTERLEAVE_FOLLOWS_GROUPS) else run)
    if run > block_size or block_size % run:
        raise stop(
            Stage.BLOCK_SIZE,
            ContextParallelRefused(option="--cp-kv-cache-interleave-size"),
            f"Block_size({block_size}) should be greater than or equal to and divisible by "
            f"cp_kv_cache_interleave_size ({run}).",
            exception="AssertionError",
        )


SOFTMAX_SUMS: Mapping[str, Span] = {
    "CUTLASS_MLA": ALWAYS,
    "FLASHINFER": ALWAYS,
    "FLASHINFER_MLA": Span(since="0.25.1"),
    "FLASHINFER_MLA_SPARSE": Span(since="0.25.1"),
    "FLASHMLA": ALWAYS,
    "FLASHMLA_SPARSE": Span(since="0.29.0"),
    "FLASH_ATTN": ALWAYS,
    "FLASH_ATTN_DIFFKV": ALWAYS,
    "FLASH_ATTN_MLA": ALWAYS,
    "TOKENSPEED_MLA": Span(since="0.26.0"),
    "TRITON_MLA": ALWAYS,
}
"""Backends whose kernels return the sums of their softmax, with the releases in which they do."""


def returns_softmax_sums(backend: str, release: Release) -> bool:
    """Whether ranks can put together what `backend` computed on their shares of the tokens."""
    if release.has(backend_history.BACKEND_SEES_DCP):
        return True  # such backends were not selected
    return backend in SOFTMAX_SUMS and release.within(SOFTMAX_SUMS[backend])


def needs_one_group(release: Release) -> bool:
    """Whether the engine core refuses context parallelism with several KV cache groups."""
    return release.has(history.DCP_NEEDS_ONE_GROUP)
