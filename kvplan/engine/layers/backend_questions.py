"""What the layers of one rank ask the attention backends, and which one is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from kvplan.engine.backends.forced import Forced, different_values, heterogeneous_heads, sparse_with_sinks
from kvplan.engine.backends.selection import select
from kvplan.engine.backends.values import BackendDecision, BackendQuery
from kvplan.engine.cache_dtypes.packing import ROCM_ONLY
from kvplan.engine.config import EngineConfig
from kvplan.engine.failures import Failure, InvalidBackend, LayoutOutsideCuda, NoBackend
from kvplan.engine.layers.reasons import LayerReasons
from kvplan.engine.models.geometry import BACKEND_FIRST, Kind, LayerGeometry, ModelGeometry
from kvplan.engine.parallelism.split import Split
from kvplan.engine.speculation.drafting import verifies_adaptively
from kvplan.engine.speculation.values import Speculation
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage

_ATTENTION_TYPES = {Kind.CROSS: "encoder_decoder", Kind.ENCODER: "encoder_only"}
"""What vLLM calls the attention of layers that are no decoder's."""
_ASKED_OF = attrgetter("kind", "head_size", "head_size_v", "latent", "has_sinks", "total_heads", "total_kv_heads")
"""What a layer's question to the backends depends on, of the layer itself."""


class BackendQuestions:
    """The questions of one rank; layers that ask the same share question and answer."""

    def __init__(
        self,
        geometry: ModelGeometry,
        config: EngineConfig,
        split: Split,
        reasons: LayerReasons,
        *,
        scheme: Mapping[str, Any] | None,
        draft: Speculation | None,
    ) -> None:
        self._geometry = geometry
        self._config = config
        self._release = config.release
        self._split = split
        self._trail = reasons
        self._scheme = scheme
        self._draft = draft
        self._model_kv_heads = 1 if geometry.use_mla else split.heads(geometry.total_kv_heads)
        self._backend_by_kind = dict(config.backend_by_kind)
        self._queries: dict[tuple[object, ...], BackendQuery] = {}
        self._decisions: dict[BackendQuery, tuple[BackendDecision, dict[int, None], str]] = {}

    def unasked(self, layer: LayerGeometry, *, mla: bool) -> BackendQuery:
        """What stands for the question of a layer whose backend is fixed."""
        key = (layer.head_size, mla)
        query = self._queries.get(key)
        if query is None:
            query = self._queries[key] = BackendQuery(
                capability=self._config.hardware.capability,
                head_size=layer.head_size,
                dtype=self._config.model_dtype,
                use_mla=mla,
            )
        return query

    def of(
        self, layer: LayerGeometry, asked: str, run_cache_dtype: str, window: int | None, tokens_per_state: int = 1
    ) -> BackendQuery:
        """What the layer asks the backends; layers that ask the same share one question. `run_cache_dtype` is the
        launch-wide cache dtype as it stands when the layer is built, `window` and `tokens_per_state` are tokens."""
        key = (asked, run_cache_dtype, window is None, tokens_per_state, *_ASKED_OF(layer))
        query = self._queries.get(key)
        if query is None:
            query = self._queries[key] = self._new(layer, asked, run_cache_dtype, window, tokens_per_state)
        return query

    def _new(
        self, layer: LayerGeometry, asked: str, run_cache_dtype: str, window: int | None, tokens_per_state: int
    ) -> BackendQuery:
        config = self._config
        mla = layer.kind is Kind.MLA
        query = BackendQuery(
            capability=config.hardware.capability,
            head_size=layer.head_size,
            head_size_v=layer.head_size_v,
            tokens_per_state=tokens_per_state,
            dtype=config.model_dtype,
            kv_cache_dtype=asked,
            run_cache_dtype=run_cache_dtype,
            block_size=config.block_size_at_selection,
            use_mla=mla,
            use_sparse=mla and layer.latent is not None and layer.latent.sparse,
            has_sink=layer.has_sinks and not mla,
            has_sliding_window=window is not None and layer.kind not in BACKEND_FIRST,
            use_mm_prefix=self._geometry.uses_mm_prefix and layer.kind is Kind.ATTENTION,
            attn_type=_ATTENTION_TYPES.get(layer.kind, "decoder"),
            use_per_head_quant_scales=bool(
                not mla
                and layer.kind not in BACKEND_FIRST
                and self._scheme is not None
                and self._scheme.get("strategy") == "attn_head"
            ),
            use_non_causal=config.use_non_causal or (self._draft is not None and self._draft.non_causal),
            use_adaptive_verification=verifies_adaptively(config.speculation, of_draft=self._draft is not None),
            use_batch_invariant=config.batch_invariant,
            use_pcp=config.prefill_context_parallel > 1,
            use_dcp=config.decode_context_parallel > 1,
            dcp_size=config.decode_context_parallel,
            requested=config.attention_backend,
            flash_attn_version=config.flash_attn_version,
            use_trtllm_attention=config.use_trtllm_attention,
            use_rswa=self._geometry.uses_rswa,
            is_diffusion=self._geometry.is_diffusion,
            num_heads=layer.total_heads // self._split.tensor,
            num_kv_heads=1 if mla else self._split.heads(layer.total_kv_heads),
            latent=layer.latent,
            is_hybrid=self._geometry.is_hybrid,
            state_cache_float32="float32" in (config.state.cache_dtype, config.state.recurrent_dtype),
            logits_soft_cap=self._geometry.logits_soft_cap,
            model_head_size=self._geometry.head_size,
            model_num_heads=self._geometry.total_heads // self._split.tensor,
            model_num_kv_heads=self._model_kv_heads,
        )
        if self._geometry.backend_by_head_sizes:
            forced: Forced = heterogeneous_heads(
                (each.head_size for each in self._geometry.layers), query, self._release
            )
            query = replace(query, requested=forced.backend, flash_attn_version=forced.flash_attn_version)
        if config.mixes_directions and query.wanted is None:
            query = replace(query, use_non_causal=True)
        return query

    def brought(self, layer: LayerGeometry, query: BackendQuery) -> str | None:
        """The backend that the model's code picks for values narrower than keys, which nobody asks beforehand."""
        if not layer.brings_value_backend or layer.head_size_v in (None, layer.head_size):
            return None
        return different_values(query, self._release)

    def answer(self, layer: LayerGeometry, query: BackendQuery) -> str:
        """The backend that is chosen for the layer. Raises StartupStops where there is none."""
        own = self._backend_by_kind.get(_kind(query))
        if own is not None:
            query = replace(query, requested=own)
        known = self._decisions.get(query)
        if known is None:
            choose = sparse_with_sinks if layer.has_sinks and layer.kind is Kind.MLA else select
            chosen = choose(query, self._release)
            choosing = self._trail.choices[query.kv_cache_dtype, chosen, query, self._draft is not None]
            known = self._decisions[query] = (chosen, choosing, self._why(query, chosen))
        decision, layers, cause = known
        layers[layer.index] = None
        if decision.backend is None:
            raise stop(
                Stage.BACKEND,
                _failure(layer.name, query),
                decision.error or "",
                exception=decision.error_type or "ValueError",
            )
        self._trail.note(
            layer.index if self._draft is None else None,
            "layer.backend",
            decision.backend,
            cause,
            "--attention-backend" if query.wanted is not None else None,
        )
        return decision.backend

    def _why(self, query: BackendQuery, decision: BackendDecision) -> str:
        return (
            f"cache dtype {query.kv_cache_dtype}, head size {query.head_size}, "
            f"compute capability {self._config.hardware.capability_text}"
            + (f"; refused: {_refusals(decision)}" if decision.rejected else "")
        )


def _kind(query: BackendQuery) -> str:
    """The kind of cache (vLLM's `KVCacheSpecKind`) that a layer will keep, as its question tells it."""
    if query.attn_type == "encoder_only":
        return "encoder_only_attention"
    if query.attn_type == "encoder_decoder":
        return "cross_attention"
    window = query.has_sliding_window
    if query.use_mla:
        return "sliding_window_mla" if window else "mla_attention"
    return "sliding_window" if window else "full_attention"


def _failure(layer: str, query: BackendQuery) -> Failure:
    """What it means that no backend answers the query."""
    if query.wanted is not None:
        return InvalidBackend(layer=layer, requested=query.wanted)
    if query.kv_cache_dtype in ROCM_ONLY:
        return LayoutOutsideCuda(layer=layer, cache_dtype=query.kv_cache_dtype)
    return NoBackend(
        layer=layer,
        cache_dtype=query.kv_cache_dtype,
        head_size=query.head_size,
        mla=query.use_mla,
        sparse=query.use_sparse,
    )


def _refusals(decision: BackendDecision) -> str:
    shown = [f"{name} ({', '.join(reasons)})" for name, reasons in decision.rejected[:4]]
    more = len(decision.rejected) - len(shown)
    return "; ".join(shown) + (f" and {more} more" if more > 0 else "")
