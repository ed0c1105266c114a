"""What textbooks say that a token takes in the cache, to stand beside what vLLM takes."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.engine.facade import element_bytes
from kvplan.engine.values import Plan
from kvplan.words import counted


@dataclass(frozen=True, slots=True)
class Textbook:
    """The usual estimate of one token's bytes on one GPU, and how it comes about."""

    bytes_per_token: float
    formula: str


def textbook(plan: Plan) -> Textbook | None:
    """The estimate 2 x layers x KV heads x head size x bytes of an element, divided by the ranks that share it.

    It counts every decoder layer as full attention and pads nothing: that it differs from what vLLM takes is why it
    is shown. With MLA a token is one latent row, which tensor parallelism does not divide. None where start-up ended
    before, and for dtypes whose elements share scales.
    """
    geometry, settings = plan.geometry, plan.settings
    if geometry is None or settings is None:
        return None
    element = element_bytes(settings.cache_dtype_after_load, settings.model_dtype)
    if element is None or geometry.num_layers == 0:
        return None
    ranks = settings.pipeline_parallel * settings.decode_context_parallel
    if geometry.use_mla:
        told = f"{geometry.num_layers} layers x {geometry.head_size} x {element} B"
        total = geometry.num_layers * geometry.head_size * element
    else:
        ranks = settings.pipeline_parallel * settings.tensor_parallel
        told = (
            f"2 x {geometry.num_layers} layers x {counted(geometry.total_kv_heads, 'KV head')} x {geometry.head_size} "
            f"x {element} B"
        )
        total = 2 * geometry.num_layers * geometry.total_kv_heads * geometry.head_size * element
    return Textbook(total / ranks, told if ranks == 1 else f"{told} / {ranks} GPUs")
