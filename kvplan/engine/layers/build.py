"""Stage 4: every attention layer as the model's code constructs it: skip list, cache dtype, backend.

Layers are built in the order in which vLLM registers them, rank by rank, because building a layer may rewrite the
launch-wide cache dtype that the next one reads. Sources: `Attention.__init__` and `MLAAttention.__init__`
(model_executor/layers/attention), `extract_layer_index` (model_executor/models/utils.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.backends.blocks import is_mla
from kvplan.engine.backends.values import BackendQuery
from kvplan.engine.cache_dtypes.dtypes import is_quantised, quant_mode, storage_dtype
from kvplan.engine.cache_dtypes.kv_scheme import check_scheme, compressed_tensors_scheme
from kvplan.engine.checks import attention, config_values
from kvplan.engine.checks.cache_methods import refuses_e5m2
from kvplan.engine.config import EngineConfig
from kvplan.engine.failures import (
    AssertionFails,
    DraftNotBuilt,
    E5m2WithScales,
    InvalidValue,
    KvHeadsNotDivisible,
    LayerNameRejected,
    StageRefused,
    StateModeRefused,
)
from kvplan.engine.layers.backend_questions import BackendQuestions
from kvplan.engine.layers.built import Built, BuiltLayer
from kvplan.engine.layers.custom_caches import Settled, settle
from kvplan.engine.layers.reasons import LayerReasons
from kvplan.engine.models.by_name import OLDEST_WITH_STATES_AND_DRAFT
from kvplan.engine.models.geometry import BACKEND_FIRST, HEADED, Kind, LayerGeometry, ModelGeometry, State
from kvplan.engine.models.shapes import Form
from kvplan.engine.parallelism.context import check_dense_mla, check_layer
from kvplan.engine.parallelism.split import Split, check_kv_heads
from kvplan.engine.speculation.drafting import backend_wish, refusal
from kvplan.engine.speculation.values import Speculation
from kvplan.engine.states.tensors import BuiltState, build_state
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import Skip, Stage, StartupError
from kvplan.history import cache, checks
from kvplan.history import speculation as speculative
from kvplan.history import state as state_history
from kvplan.releases import Behaviour, Release

_INDEXER_DTYPE = "uint8"
_DEFAULT_BLOCK_SIZE = 16
"""Tokens a block before anything asked for more."""


def build(
    checkpoint: Checkpoint, geometry: ModelGeometry, config: EngineConfig, split: Split, cache_dtype: str
) -> Built:
    """Construct every layer. A refusal is returned as `error`, with the layers built before it."""
    _check_device_dtype(config)
    reasons = LayerReasons()
    built: list[BuiltLayer] = []
    keepless: tuple[tuple[str, BackendQuery], ...] = ()
    first_rank_dtype = cache_dtype
    error: StartupError | None = None
    of_draft = False
    whole = len(split.stage_starts)
    for rank in range(len(split.stage_starts)):
        mine = [layer for layer in geometry.layers if split.rank_of(layer.index) == rank]
        builder = _RankBuilder(checkpoint, geometry, config, split, cache_dtype, reasons, rank)
        try:
            if geometry.encoder is not None and rank == 0:
                keepless = (builder.ask_for(geometry.encoder),)
            for layer in mine:
                built += builder.add(layer, built)
            _check_stage(geometry, split, rank)
        except StartupStops as stopped:
            error, whole = error or stopped.error, min(whole, rank)
        built = _of_rank(built, rank, builder.run_cache_dtype)
        if rank == len(split.stage_starts) - 1 and error is None and config.speculation is not None:
            drafted, error = _draft(config.speculation, builder, config)
            of_draft = error is not None
            whole = whole if error is None else rank
            built = _of_rank(built, rank, builder.run_cache_dtype) + drafted
        if rank == 0:
            first_rank_dtype = builder.run_cache_dtype
    return Built(
        layers=tuple(built),
        cache_dtype=first_rank_dtype,
        skip=Skip(
            tokens=config.skip_tokens,
            matched_layers=tuple(sorted(reasons.matched)),
            ignored_layers=tuple(sorted(reasons.ignored)),
            canonicalised_layers=tuple(sorted(reasons.canonicalised)),
            unmatched_tokens=tuple(token for token in config.skip_tokens if token not in reasons.used_tokens),
            matched_drafts=tuple(reasons.drafts),
        ),
        backends=reasons.backend_choices(config.release),
        steps=reasons.steps(),
        error=error,
        of_draft=of_draft,
        whole_stages=whole,
        keepless=keepless,
    )


def _check_stage(geometry: ModelGeometry, split: Split, stage: int) -> None:
    """Raises StartupStops where the model's class refuses the stage that it has built."""
    start, end = split.bounds(stage, geometry.num_layers)
    need = next((need for need in geometry.stage_needs if need.fails(stage, start, end)), None)
    if need is not None:
        facts = StageRefused(stage=stage, start=start, end=end)
        raise stop(Stage.LAYERS, facts, need.message, exception=need.exception)


def _check_norm(layer: LayerGeometry, tensor: int) -> None:
    """Raises StartupStops where the groups of a layer's norm do not divide over the ranks."""
    groups = layer.norm_groups
    if groups is None or (tensor <= groups and groups % tensor == 0):
        return
    few = "tp_size must be <= group_norm_size for local rms norm"
    message = few if tensor > groups else "group_norm_size must be divisible by tp_size"
    facts = AssertionFails(check="groups of the norm divide over the ranks", layer=layer.name)
    raise stop(Stage.LAYERS, facts, message, exception="AssertionError")


def _of_rank(built: list[BuiltLayer], rank: int, run_cache_dtype: str) -> list[BuiltLayer]:
    """The layers, those of `rank` with what became of its launch-wide cache dtype."""
    return [
        replace(layer, run_cache_dtype=run_cache_dtype)
        if layer.rank == rank and layer.run_cache_dtype != run_cache_dtype
        else layer
        for layer in built
    ]


def _draft(
    speculation: Speculation, target: _RankBuilder, config: EngineConfig
) -> tuple[list[BuiltLayer], StartupError | None]:
    """The draft's layers, built on the last rank after the target's and with the draft's own settings.

    Without a cache dtype of its own the draft shares the rank's launch-wide one, and may rewrite it.
    """
    release = config.release
    wish = backend_wish(speculation, config.attention_backend, config.model_runner, release)
    geometry = speculation.geometry or replace(target.geometry, layers=target.geometry.layers + speculation.layers)
    builder = _RankBuilder(
        speculation.checkpoint or target.checkpoint,
        geometry,
        replace(config, attention_backend=wish),
        target.split,
        speculation.cache_dtype or target.run_cache_dtype,
        target.reasons,
        target.rank,
        draft=speculation,
    )
    built: list[BuiltLayer] = []
    failure = refusal(speculation, release, config.model_runner, prefix_caching=config.prefix_caching)
    if failure is not None:
        return built, failure
    taken = {layer.name for layer in target.geometry.layers if target.split.rank_of(layer.index) == target.rank}
    twice = next((layer.name for layer in speculation.layers if layer.name in taken), None)
    if twice is not None:
        message = f"Duplicate layer name: {twice}"
        return built, StartupError(Stage.LAYERS, "ValueError", message, DraftNotBuilt())
    try:
        for layer in speculation.layers:
            built += builder.add(layer, built)
    except StartupStops as stopped:
        return built, stopped.error
    if speculation.cache_dtype is None:
        target.run_cache_dtype = builder.run_cache_dtype
    own = speculation.cache_dtype is not None and release.has(speculative.DRAFT_VIEW_FOLLOWS_OWN_DTYPE)
    run_dtype = builder.run_cache_dtype if own else target.run_cache_dtype
    return [replace(layer, run_cache_dtype=run_dtype) for layer in built], None


def _check_device_dtype(config: EngineConfig) -> None:
    """The worker refuses bfloat16 on a GPU that lacks it before it builds the model."""
    if config.model_dtype == "bfloat16" and config.hardware.capability < (8, 0):
        raise stop(
            Stage.LAYERS,
            InvalidValue(option="--dtype", value="bfloat16", accepted=("float16", "float32")),
            "Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your "
            f"{config.hardware.device_name} GPU has compute capability {config.hardware.capability_text}. You can use "
            "float16 instead by explicitly setting the `dtype` flag in CLI, for example: --dtype=half.",
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
        reasons: LayerReasons,
        rank: int,
        draft: Speculation | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.draft = draft
        self.geometry = geometry
        self.config = config
        self.release = config.release
        self.split = split
        self.run_cache_dtype = cache_dtype
        self.reasons = reasons
        self.rank = rank
        self.scheme = compressed_tensors_scheme(checkpoint.quantization)
        self.quantization = checkpoint.quantization
        self.questions = BackendQuestions(geometry, config, split, reasons, scheme=self.scheme, draft=draft)
        self.settled: dict[tuple[object, ...], Settled] = {}
        self.states: dict[State, BuiltState] = {}

    def add(self, layer: LayerGeometry, before: Sequence[BuiltLayer] = ()) -> list[BuiltLayer]:
        """Construct one layer; a layer that shares another's cache is built but owns nothing."""
        if layer.own is None or not layer.own.replicated_heads:
            check_kv_heads(layer, self.split.tensor)
        if layer.kind is Kind.INDEXER:
            return [self._indexer(layer)]
        if layer.kind is Kind.OWN:
            return [self._own(layer, before)]
        if layer.kind is Kind.STATE:
            return [self._state(layer)]
        window = layer.sliding_window
        if layer.kind in HEADED and window is None and layer.reads_cache_config:
            window = self.config.sliding_window
        if not layer.replicates_kv_heads and layer.total_kv_heads < self.split.tensor:
            raise stop(
                Stage.LAYERS,
                KvHeadsNotDivisible(kv_heads=layer.total_kv_heads, tensor_parallel=self.split.tensor, layer=layer.name),
                "integer modulo by zero",
                exception="ZeroDivisionError",
            )
        if layer.kind in HEADED:
            config_values.check_heads(layer, self.split)
        launch_wide = self.run_cache_dtype
        asked, skipped = self._layer_dtype(layer, window)
        query = self.questions.of(
            layer, launch_wide if layer.kind in BACKEND_FIRST else asked, self.run_cache_dtype, window
        )
        if layer.kind is Kind.MLA and not self.release.has(checks.MLA_SELECTS_BEFORE_SCALES):
            self._check_scales(layer, asked, query, layer.custom_backend or "")
        backend = layer.custom_backend or self.questions.brought(layer, query) or self.questions.answer(layer, query)
        cache_dtype = self._canonical(layer, backend, asked, skipped)
        self._construct(layer, backend, cache_dtype, query)
        check_layer(backend, cache_dtype, self.config.decode_context_parallel, layer.name, self.release)
        if layer.kind is Kind.MLA and not query.use_sparse:
            check_dense_mla(
                self.config.decode_context_parallel, self.config.prefill_context_parallel, layer.name, self.release
            )
        if layer.then_asserts is not None:
            facts = AssertionFails(check=layer.then_asserts, layer=layer.name)
            raise stop(Stage.LAYERS, facts, "", exception="AssertionError")
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
                num_kv_heads=1 if layer.kind is Kind.MLA else self.split.heads(layer.total_kv_heads),
                skipped=skipped,
                run_cache_dtype=self.run_cache_dtype,
            )
        ]

    def ask_for(self, layer: LayerGeometry) -> tuple[str, BackendQuery]:
        """Construct a layer that keeps nothing: it chooses a backend and its implementation all the same, by the
        launch-wide cache dtype. The backend and what it was asked."""
        dtype = self.run_cache_dtype if layer.reads_cache_config else "auto"
        query = self.questions.of(layer, dtype, dtype, None)
        backend = self.questions.answer(layer, query)
        config_values.check_heads(layer, self.split)
        attention.check(layer, backend, self._layer_dtype(layer, None)[0], query, self.config.hardware, self.release)
        return backend, query

    def _construct(self, layer: LayerGeometry, backend: str, cache_dtype: str, query: BackendQuery) -> None:
        """What stops the layer once it has its backend; MLA layers look at the checkpoint's scales first."""
        if layer.kind is Kind.MLA:
            self._check_scales(layer, cache_dtype, query, backend)
        attention.check(layer, backend, cache_dtype, query, self.config.hardware, self.release)
        if layer.kind is not Kind.MLA:
            self._check_scales(layer, cache_dtype, query, backend)

    def _check_scales(self, layer: LayerGeometry, cache_dtype: str, query: BackendQuery, backend: str) -> None:
        """What the checkpoint's KV cache method refuses, if the layer gets one."""
        method = self.config.quantization_method
        if layer.kind in HEADED and self.scheme is not None:
            check_scheme(self.scheme, layer.name, backend, query, self.release)
        if cache_dtype == "fp8_e5m2" and refuses_e5m2(
            method, self.quantization, mla=layer.kind is Kind.MLA, release=self.release
        ):
            raise stop(
                Stage.LAYERS,
                E5m2WithScales(layer=layer.name, method=method),
                "fp8_e5m2 kv-cache is not supported with fp8 checkpoints.",
            )

    def _number(self, layer: LayerGeometry) -> int | None:
        """The decoder layer that `layer` is, None for a layer of the draft."""
        return layer.index if self.draft is None else None

    def _state(self, layer: LayerGeometry) -> BuiltLayer:
        """A state is stored in dtypes of its own, whatever the cache dtype; its backend is never chosen."""
        if layer.state is None or layer.custom_backend is None:
            raise ValueError(f"{layer.name} is a state layer without a state")
        config = self.config
        _check_norm(layer, self.split.tensor)
        if (
            config.num_speculative_tokens
            and self.release.has(state_history.DRAFTS_ONLY_WITH_QWEN3_NEXT)
            and self.checkpoint.model_type not in OLDEST_WITH_STATES_AND_DRAFT
        ):
            raise stop(
                Stage.SPECS,
                StateModeRefused(option="--speculative-config", layer=layer.name),
                "Mamba with speculative decoding is not supported yet.",
                exception="NotImplementedError",
            )
        if layer.index not in self.reasons.matched and str(layer.index) in config.skip_tokens:
            self._note_ignored(layer, "none (a state)")
        built = self.states.get(layer.state)
        if built is None:
            built = self.states[layer.state] = build_state(
                layer.state,
                config.state,
                self.release,
                tensor=self.split.tensor,
                model_dtype=config.model_dtype,
                hardware=config.hardware,
            )
        return BuiltLayer(
            geometry=layer,
            rank=self.rank,
            cache_dtype=None,
            storage=built.dtypes[0],
            quant_mode=None,
            backend=layer.custom_backend,
            query=self.questions.unasked(layer, mla=False),
            sliding_window=None,
            num_kv_heads=0,
            skipped=False,
            run_cache_dtype=self.run_cache_dtype,
            state=built,
        )

    def _indexer(self, layer: LayerGeometry) -> BuiltLayer:
        """An indexer's key cache has a storage format of its own, whatever the cache dtype."""
        backend = layer.custom_backend or "DEEPSEEK_V32_INDEXER"
        storage = layer.index_dtype or _INDEXER_DTYPE
        return BuiltLayer(
            geometry=layer,
            rank=self.rank,
            cache_dtype=None,
            storage=storage,
            quant_mode="NONE" if self.release.has(cache.QUANT_MODE_EXISTS) else None,
            backend=backend,
            query=self.questions.unasked(layer, mla=True),
            sliding_window=None,
            num_kv_heads=1,
            skipped=False,
            run_cache_dtype=self.run_cache_dtype,
        )

    def _own(self, layer: LayerGeometry, before: Sequence[BuiltLayer]) -> BuiltLayer:
        """A cache module of the model's own code; those that follow the attention's format settle it first."""
        assert layer.own is not None
        own = layer.own.for_drafts(self.config.num_speculative_tokens)
        own = replace(own, replays=own.replays and self.config.replays_windows)
        if own.form is Form.HIDDEN_STATES and not self.release.has(speculative.HIDDEN_STATES_HAVE_SPEC):
            own = replace(own, block_size=self.config.block_size_at_selection or _DEFAULT_BLOCK_SIZE)
        layer = replace(layer, own=own)
        if not layer.replicates_kv_heads and layer.total_kv_heads < self.split.tensor:
            raise stop(
                Stage.LAYERS,
                KvHeadsNotDivisible(kv_heads=layer.total_kv_heads, tensor_parallel=self.split.tensor, layer=layer.name),
                f"the cache supports tp_size <= num_kv_heads ({layer.total_kv_heads}), got {self.split.tensor}",
                exception="AssertionError",
            )
        asked, skipped = self.run_cache_dtype, False
        if own.is_attention:
            asked, skipped = self._layer_dtype(layer, layer.sliding_window)
        query = self.questions.of(layer, asked, self.run_cache_dtype, layer.sliding_window, own.tokens_per_state)
        settled = self._settled(layer, query)
        if settled.cache_dtype != asked:
            self.run_cache_dtype = settled.cache_dtype
            self.reasons.note(
                self._number(layer),
                "layer.cache_dtype",
                settled.cache_dtype,
                f"{settled.backend} stores {asked} as {settled.cache_dtype}",
                "--kv-cache-dtype",
                settled.behaviour,
            )
        if query.run_cache_dtype != self.run_cache_dtype:
            query = replace(query, run_cache_dtype=self.run_cache_dtype)
        return BuiltLayer(
            geometry=layer if settled.own is own else replace(layer, own=settled.own),
            rank=self.rank,
            cache_dtype=settled.cache_dtype if own.is_attention else None,
            storage=settled.storage,
            quant_mode=quant_mode(settled.cache_dtype if own.mode_follows_format else "auto", self.release),
            backend=settled.backend,
            query=query,
            sliding_window=layer.sliding_window,
            num_kv_heads=layer.total_kv_heads if own.replicated_heads else self.split.heads(layer.total_kv_heads),
            skipped=skipped,
            run_cache_dtype=self.run_cache_dtype,
            asked_first=settled.asked_first,
            page_of=_named(own.fills_page_of, before),
        )

    def _settled(self, layer: LayerGeometry, query: BackendQuery) -> Settled:
        key = (query, layer.own, layer.role, layer.custom_backend)
        found = self.settled.get(key)
        if found is None:
            found = self.settled[key] = settle(self.geometry.cache_format, layer, query, self.release)
        return found

    def _layer_dtype(self, layer: LayerGeometry, window: int | None) -> tuple[str, bool]:
        """(the cache dtype this layer asks its backend for, whether the skip list set it)."""
        if not layer.reads_cache_config:
            return self._dtype_without_config(layer), False
        asked = self.run_cache_dtype
        if layer.kind in HEADED and self.scheme is not None:
            overrides = self.release.has(cache.COMPRESSED_TENSORS_OVERRIDES_FLAG)
            if asked == "auto" or (overrides and asked != "fp8"):
                self.reasons.note(
                    self._number(layer),
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
        own_code = layer.kind in HEADED or layer.kind is Kind.OWN
        honours = layer.reads_skip_list and (own_code or self.release.has(cache.MLA_HONOURS_SKIP_LIST))
        if not honours:
            if index_token in tokens:
                self._note_ignored(layer, asked)
            return asked, False
        index_token = str(layer_index(layer.name))
        hits = [index_token] if index_token in tokens else []
        if layer.kind in HEADED and window is not None and "sliding_window" in tokens:
            hits.append("sliding_window")
        if not hits:
            return asked, False
        self.reasons.used_tokens.update(hits)
        if self.draft is None:
            self.reasons.matched[layer.index] = None
        else:
            self.reasons.drafts[layer.name] = None
        self.reasons.note(
            self._number(layer),
            "layer.cache_dtype",
            "auto",
            f"the skip list names it (token {hits[0]})",
            "--kv-cache-dtype-skip-layers",
        )
        return "auto", True

    def _note_ignored(self, layer: LayerGeometry, kept: str) -> None:
        """The skip list names a layer whose class does not look at it."""
        self.reasons.used_tokens.add(str(layer.index))
        if self.draft is None:
            self.reasons.ignored[layer.index] = None
        self.reasons.note(
            self._number(layer),
            "layer.cache_dtype",
            kept,
            f"the skip list names it, but {layer.layer_class} does not look at the list",
            "--kv-cache-dtype-skip-layers",
            cache.MLA_HONOURS_SKIP_LIST if layer.kind is Kind.MLA else None,
        )

    def _dtype_without_config(self, layer: LayerGeometry) -> str:
        """The cache dtype of a layer that the model's code builds without the cache config."""
        asked = "auto" if self.scheme is None else "fp8"
        if asked != self.run_cache_dtype:
            self.reasons.note(
                layer.index,
                "layer.cache_dtype",
                asked,
                "the model's code does not hand the cache config to this layer",
                "--kv-cache-dtype",
            )
        if str(layer.index) in self.config.skip_tokens:
            self.reasons.used_tokens.add(str(layer.index))
        return asked

    def _canonical(self, layer: LayerGeometry, backend: str, asked: str, skipped: bool) -> str:
        """The cache dtype after the layer looked at its backend; a change also rewrites the launch-wide one."""
        if layer.kind is not Kind.MLA or not is_mla(backend):
            return asked
        packed, behaviour = _packed_dtype(backend, asked, self.release)
        if packed == asked:
            return asked
        self.run_cache_dtype = packed
        if skipped and self.draft is None:
            self.reasons.canonicalised[layer.index] = None
        self.reasons.note(
            self._number(layer),
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
        and is_quantised(asked)
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


def _named(name: str | None, layers: Sequence[BuiltLayer]) -> BuiltLayer | None:
    if name is None:
        return None
    return next((layer for layer in layers if layer.geometry.name == name), None)


def layer_index(name: str) -> int:
    """The layer number in a module name. Raises StartupStops, as vLLM's assertion does, unless there is just one."""
    numbers = [int(part) for part in name.split(".") if part.isdigit()]
    if len(numbers) != 1:
        raise stop(
            Stage.SKIP_LIST,
            LayerNameRejected(layer=name),
            f"layer name {name} should only contain one integer",
            exception="AssertionError",
        )
    return numbers[0]
