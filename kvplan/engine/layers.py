"""Stage 4: every attention layer as the model's code constructs it: skip list, cache dtype, backend.

Layers are built in the order in which vLLM registers them, rank by rank, because building a layer may rewrite the
launch-wide cache dtype that the next one reads. Sources: `Attention.__init__` and `MLAAttention.__init__`
(model_executor/layers/attention), `extract_layer_index` (model_executor/models/utils.py).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.backends.blocks import is_mla
from kvplan.engine.backends.forced import Forced, heterogeneous_heads, sparse_with_sinks
from kvplan.engine.backends.selection import dtypes_with_backend, select
from kvplan.engine.backends.values import BackendDecision, BackendQuery
from kvplan.engine.config import EngineConfig
from kvplan.engine.dtypes import is_quantized, quant_mode, storage_dtype
from kvplan.engine.kv_scheme import check_scheme, compressed_tensors_scheme, refuses_e5m2
from kvplan.engine.models.geometry import Kind, LayerGeometry, ModelGeometry
from kvplan.engine.packing import ROCM_ONLY
from kvplan.engine.parallel import Split, check_kv_heads
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import BackendChoice, Skip, Stage, StartupError, Step
from kvplan.history import cache
from kvplan.releases import Behaviour, Release

_INDEXER_DTYPE = "uint8"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltLayer:
    """A constructed layer: what the spec is made from. Head counts are those of one rank."""

    geometry: LayerGeometry
    rank: int
    cache_dtype: str | None
    storage: str
    quant_mode: str | None
    backend: str
    query: BackendQuery
    sliding_window: int | None
    num_kv_heads: int
    skipped: bool
    run_cache_dtype: str
    """The launch-wide cache dtype once this rank's layers were built."""


@dataclass(frozen=True, slots=True)
class Built:
    """All layers of all ranks, and what building them showed."""

    layers: tuple[BuiltLayer, ...]
    cache_dtype: str
    """The launch-wide cache dtype that the first rank ended with."""
    skip: Skip
    backends: tuple[BackendChoice, ...]
    steps: tuple[Step, ...]
    error: StartupError | None = None


class _Trail:
    """Collects which layers share a fate, so that one step or choice speaks for all of them."""

    def __init__(self) -> None:
        self.matched: dict[int, None] = {}
        self.ignored: dict[int, None] = {}
        self.canonicalised: dict[int, None] = {}
        self.used_tokens: set[str] = set()
        self.causes: dict[tuple[str, str, str, str | None, Behaviour | None], dict[int, None]] = defaultdict(dict)
        self.choices: dict[tuple[str, BackendDecision, BackendQuery], dict[int, None]] = defaultdict(dict)

    def note(
        self,
        index: int,
        value: str,
        result: str,
        cause: str,
        option: str | None = None,
        behaviour: Behaviour | None = None,
    ) -> None:
        self.causes[value, result, cause, option, behaviour][index] = None

    def steps(self) -> tuple[Step, ...]:
        return tuple(
            Step(
                Stage.BACKEND if value == "layer.backend" else Stage.LAYERS,
                value,
                result,
                cause,
                tuple(sorted(layers)),
                option,
                behaviour,
            )
            for (value, result, cause, option, behaviour), layers in self.causes.items()
        )


def build(
    checkpoint: Checkpoint, geometry: ModelGeometry, config: EngineConfig, split: Split, cache_dtype: str
) -> Built:
    """Construct every layer. A refusal is returned as `error`, with the layers built before it."""
    _check_device_dtype(config)
    trail = _Trail()
    built: list[BuiltLayer] = []
    first_rank_dtype = cache_dtype
    error: StartupError | None = None
    for rank in range(len(split.stage_starts)):
        mine = [layer for layer in geometry.layers if split.rank_of(layer.index) == rank]
        builder = _RankBuilder(checkpoint, geometry, config, split, cache_dtype, trail, rank)
        try:
            for layer in mine:
                built += builder.add(layer)
        except StartupStops as stopped:
            error = error or stopped.error
        built = [
            layer if layer.rank != rank else replace(layer, run_cache_dtype=builder.run_cache_dtype) for layer in built
        ]
        if rank == 0:
            first_rank_dtype = builder.run_cache_dtype
    return Built(
        layers=tuple(built),
        cache_dtype=first_rank_dtype,
        skip=Skip(
            tokens=config.skip_tokens,
            matched_layers=tuple(sorted(trail.matched)),
            ignored_layers=tuple(sorted(trail.ignored)),
            canonicalised_layers=tuple(sorted(trail.canonicalised)),
            unmatched_tokens=tuple(token for token in config.skip_tokens if token not in trail.used_tokens),
        ),
        backends=_choices(trail, config.release),
        steps=trail.steps(),
        error=error,
    )


def _choices(trail: _Trail, release: Release) -> tuple[BackendChoice, ...]:
    return tuple(
        BackendChoice(
            backend=decision.backend,
            layers=tuple(sorted(layers)),
            cache_dtype=cache_dtype,
            rejected=decision.rejected,
            precluded_by_block_size=decision.precluded_by_block_size,
            dtypes_with_backend=() if decision.backend is not None else dtypes_with_backend(query, release),
        )
        for (cache_dtype, decision, query), layers in trail.choices.items()
    )


def _check_device_dtype(config: EngineConfig) -> None:
    """The worker refuses bfloat16 on a GPU that lacks it before it builds the model."""
    if config.model_dtype == "bfloat16" and config.hardware.capability < (8, 0):
        raise stop(
            Stage.LAYERS,
            "invalid_value",
            "Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your "
            f"{config.hardware.device_name} GPU has compute capability {config.hardware.capability_text}. You can use "
            "float16 instead by explicitly setting the `dtype` flag in CLI, for example: --dtype=half.",
            facts={"option": "--dtype", "value": "bfloat16", "accepted": ("float16", "float32")},
        )


class _RankBuilder:
    """Builds the layers of one rank; `run_cache_dtype` is the rank's own copy of the launch-wide cache dtype."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        geometry: ModelGeometry,
        config: EngineConfig,
        split: Split,
        cache_dtype: str,
        trail: _Trail,
        rank: int,
    ) -> None:
        self.geometry = geometry
        self.config = config
        self.release = config.release
        self.split = split
        self.run_cache_dtype = cache_dtype
        self.trail = trail
        self.rank = rank
        self.scheme = compressed_tensors_scheme(checkpoint.quantization)
        self.e5m2_refused = refuses_e5m2(checkpoint.quantization, self.release)
        self.model_kv_heads = 1 if geometry.use_mla else split.heads(geometry.num_kv_heads)
        self.decisions: dict[BackendQuery, BackendDecision] = {}

    def add(self, layer: LayerGeometry) -> list[BuiltLayer]:
        """Construct one layer; a layer that shares another's cache is built but owns nothing."""
        check_kv_heads(layer, self.split.tensor)
        if layer.kind is Kind.INDEXER:
            return [self._indexer(layer)]
        window = layer.sliding_window
        if layer.kind is Kind.ATTENTION and window is None and layer.reads_cache_config:
            window = self.config.sliding_window
        if not layer.replicates_kv_heads and layer.num_kv_heads < self.split.tensor:
            raise stop(
                Stage.LAYERS,
                "kv_heads_not_divisible",
                "integer modulo by zero",
                exception="ZeroDivisionError",
                facts={"kv_heads": layer.num_kv_heads, "tensor_parallel": self.split.tensor, "layer": layer.name},
            )
        asked, skipped = self._layer_dtype(layer, window)
        query = self._query(layer, asked, window)
        backend = layer.own_backend or self._select(layer, query)
        cache_dtype = self._canonical(layer, backend, asked, skipped)
        if layer.kind is Kind.ATTENTION and self.scheme is not None:
            check_scheme(self.scheme, layer.name, backend, query, self.release)
        if cache_dtype == "fp8_e5m2" and self.e5m2_refused:
            raise stop(
                Stage.LAYERS,
                "invalid_value",
                "fp8_e5m2 kv-cache is not supported with fp8 checkpoints.",
                facts={"option": "--kv-cache-dtype", "value": "fp8_e5m2", "layer": layer.name},
            )
        if layer.shares_cache_of is not None:
            return []
        return [
            BuiltLayer(
                geometry=layer,
                rank=self.rank,
                cache_dtype=cache_dtype,
                storage=storage_dtype(cache_dtype, self.config.model_dtype),
                quant_mode=quant_mode(cache_dtype, self.release),
                backend=backend,
                query=query,
                sliding_window=window,
                num_kv_heads=1 if layer.kind is Kind.MLA else self.split.heads(layer.num_kv_heads),
                skipped=skipped,
                run_cache_dtype=self.run_cache_dtype,
            )
        ]

    def _indexer(self, layer: LayerGeometry) -> BuiltLayer:
        """An indexer's key cache has a storage format of its own, whatever the cache dtype."""
        backend = layer.own_backend or "DEEPSEEK_V32_INDEXER"
        query = BackendQuery(
            capability=self.config.hardware.capability,
            head_size=layer.head_size,
            dtype=self.config.model_dtype,
            use_mla=True,
        )
        storage = self.config.model_dtype if layer.stores_model_dtype else _INDEXER_DTYPE
        return BuiltLayer(
            geometry=layer,
            rank=self.rank,
            cache_dtype=None,
            storage=storage,
            quant_mode="NONE" if self.release.has(cache.QUANT_MODE_EXISTS) else None,
            backend=backend,
            query=query,
            sliding_window=None,
            num_kv_heads=1,
            skipped=False,
            run_cache_dtype=self.run_cache_dtype,
        )

    def _layer_dtype(self, layer: LayerGeometry, window: int | None) -> tuple[str, bool]:
        """(the cache dtype this layer asks its backend for, whether the skip list set it)."""
        if not layer.reads_cache_config:
            return self._dtype_without_config(layer), False
        asked = self.run_cache_dtype
        if layer.kind is Kind.ATTENTION and self.scheme is not None:
            overrides = self.release.has(cache.COMPRESSED_TENSORS_OVERRIDES_FLAG)
            if asked == "auto" or (overrides and asked != "fp8"):
                self.trail.note(
                    layer.index,
                    "layer.cache_dtype",
                    "fp8",
                    f"the compressed-tensors checkpoint declares a kv_cache_scheme (the launch said {asked})",
                    "--kv-cache-dtype",
                    cache.COMPRESSED_TENSORS_OVERRIDES_FLAG if overrides else None,
                )
                asked = self.run_cache_dtype = "fp8"
        tokens = self.config.skip_tokens
        if not tokens or not self.release.has(cache.SKIP_LIST_EXISTS):
            return asked, False
        index_token = str(layer.index)
        honours = layer.reads_skip_list and (
            layer.kind is Kind.ATTENTION or self.release.has(cache.MLA_HONOURS_SKIP_LIST)
        )
        if not honours:
            if index_token in tokens:
                self.trail.used_tokens.add(index_token)
                self.trail.ignored[layer.index] = None
                self.trail.note(
                    layer.index,
                    "layer.cache_dtype",
                    asked,
                    f"the skip list names it, but {layer.layer_class} does not look at the list",
                    "--kv-cache-dtype-skip-layers",
                    cache.MLA_HONOURS_SKIP_LIST if layer.kind is Kind.MLA else None,
                )
            return asked, False
        index_token = str(layer_index(layer.name))
        hits = [index_token] if index_token in tokens else []
        if layer.kind is Kind.ATTENTION and window is not None and "sliding_window" in tokens:
            hits.append("sliding_window")
        if not hits:
            return asked, False
        self.trail.used_tokens.update(hits)
        self.trail.matched[layer.index] = None
        self.trail.note(
            layer.index,
            "layer.cache_dtype",
            "auto",
            f"the skip list names it (token {hits[0]})",
            "--kv-cache-dtype-skip-layers",
        )
        return "auto", True

    def _dtype_without_config(self, layer: LayerGeometry) -> str:
        """The cache dtype of a layer that the model's code builds without the cache config."""
        asked = "auto" if self.scheme is None else "fp8"
        if asked != self.run_cache_dtype:
            self.trail.note(
                layer.index,
                "layer.cache_dtype",
                asked,
                "the model's code does not hand the cache config to this layer",
                "--kv-cache-dtype",
            )
        if str(layer.index) in self.config.skip_tokens:
            self.trail.used_tokens.add(str(layer.index))
        return asked

    def _query(self, layer: LayerGeometry, asked: str, window: int | None) -> BackendQuery:
        config = self.config
        mla = layer.kind is Kind.MLA
        query = BackendQuery(
            capability=config.hardware.capability,
            head_size=layer.head_size,
            head_size_v=layer.head_size_v,
            dtype=config.model_dtype,
            kv_cache_dtype=asked,
            run_cache_dtype=self.run_cache_dtype,
            block_size=config.user_block_size,
            use_mla=mla,
            use_sparse=mla and layer.latent is not None and layer.latent.sparse,
            has_sink=layer.has_sinks and not mla,
            has_sliding_window=window is not None,
            use_mm_prefix=self.geometry.uses_mm_prefix and not mla,
            use_per_head_quant_scales=bool(
                not mla and self.scheme is not None and self.scheme.get("strategy") == "attn_head"
            ),
            use_batch_invariant=config.batch_invariant,
            use_kv_connector=config.kv_connector,
            requested=config.attention_backend,
            flash_attn_version=config.flash_attn_version,
            num_heads=layer.num_heads // self.split.tensor,
            num_kv_heads=1 if mla else self.split.heads(layer.num_kv_heads),
            latent=layer.latent,
            is_hybrid=self.geometry.is_hybrid,
            logits_soft_cap=self.geometry.logits_soft_cap,
            model_head_size=self.geometry.head_size,
            model_num_heads=self.geometry.num_attention_heads // self.split.tensor,
            model_num_kv_heads=self.model_kv_heads,
        )
        if self.geometry.backend_by_head_sizes:
            forced: Forced = heterogeneous_heads((each.head_size for each in self.geometry.layers), query, self.release)
            query = replace(query, requested=forced.backend, flash_attn_version=forced.flash_attn_version)
        return query

    def _select(self, layer: LayerGeometry, query: BackendQuery) -> str:
        decision = self.decisions.get(query)
        if decision is None:
            choose = sparse_with_sinks if layer.has_sinks and layer.kind is Kind.MLA else select
            decision = self.decisions[query] = choose(query, self.release)
        self.trail.choices[query.kv_cache_dtype, decision, query][layer.index] = None
        if decision.backend is None:
            outside = query.kv_cache_dtype in ROCM_ONLY
            code = "layout_outside_cuda" if outside else "no_backend"
            raise stop(
                Stage.BACKEND,
                "invalid_backend" if query.wanted is not None else code,
                decision.error or "",
                exception=decision.error_type or "ValueError",
                facts={
                    "cache_dtype": query.kv_cache_dtype,
                    "layer": layer.name,
                    "requested": query.wanted,
                    "head_size": query.head_size,
                    "sparse": query.use_sparse,
                    "mla": query.use_mla,
                },
            )
        self.trail.note(
            layer.index,
            "layer.backend",
            decision.backend,
            f"cache dtype {query.kv_cache_dtype}, head size {query.head_size}, "
            f"compute capability {self.config.hardware.capability_text}"
            + (f"; refused: {_refusals(decision)}" if decision.rejected else ""),
            "--attention-backend" if query.wanted is not None else None,
        )
        return decision.backend

    def _canonical(self, layer: LayerGeometry, backend: str, asked: str, skipped: bool) -> str:
        """The cache dtype after the layer looked at its backend; a change also rewrites the launch-wide one."""
        if layer.kind is not Kind.MLA or not is_mla(backend):
            return asked
        packed, behaviour = _packed_dtype(backend, asked, self.release)
        if packed == asked:
            return asked
        self.run_cache_dtype = packed
        if skipped:
            self.trail.canonicalised[layer.index] = None
        self.trail.note(
            layer.index,
            "layer.cache_dtype",
            packed,
            f"{backend} stores {asked} as {packed}",
            "--kv-cache-dtype",
            behaviour,
        )
        return packed


def _packed_dtype(backend: str, asked: str, release: Release) -> tuple[str, Behaviour | None]:
    if (
        backend == "FLASHMLA_SPARSE"
        and release.has(cache.FP8_DS_MLA_BY_BACKEND)
        and is_quantized(asked)
        and asked != "nvfp4_ds_mla"
    ):
        return "fp8_ds_mla", cache.FP8_DS_MLA_BY_BACKEND
    if (
        backend == "FLASHINFER_MLA_SPARSE_SM120"
        and release.has(cache.SM120_SPARSE_MLA_ALWAYS_PACKED)
        and asked in ("auto", "fp8", "fp8_e4m3")
    ):
        return "fp8_ds_mla", cache.SM120_SPARSE_MLA_ALWAYS_PACKED
    return asked, None


def _refusals(decision: BackendDecision) -> str:
    shown = [f"{name} ({', '.join(reasons)})" for name, reasons in decision.rejected[:4]]
    more = len(decision.rejected) - len(shown)
    return "; ".join(shown) + (f" and {more} more" if more > 0 else "")


def layer_index(name: str) -> int:
    """The layer number in a module name. Raises StartupStops, as vLLM's assertion does, unless there is just one."""
    numbers = [int(part) for part in name.split(".") if part.isdigit()]
    if len(numbers) != 1:
        raise stop(
            Stage.SKIP_LIST,
            "layer_index",
            f"layer name {name} should only contain one integer",
            exception="AssertionError",
            facts={"layer": name, "numbers": tuple(numbers)},
        )
    return numbers[0]
