"""KV cache specs: what one layer asks of the cache, its page in bytes, and what one request needs of it.

The classes carry vLLM's names (`v1/kv_cache_interface.py`), because reports and rules speak of them.

Page formulas (bytes), with H KV heads a rank, D and Dv the key and value head sizes, e bytes an element:

- `FullAttentionSpec`: block_size * H * (D + Dv) * e
- `SlidingWindowSpec`: the same; before 0.20.2 block_size * H * 2 * D * e
- `MLAAttentionSpec`: block_size * D * e; 656 bytes a token as fp8_ds_mla, 352 as nvfp4_ds_mla
- `MambaSpec`: the bytes of one state, whatever the block size
- packed layouts of keys and values: `kvplan.engine.cache_dtypes.packing`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from kvplan.engine.cache_dtypes.dtypes import DS_MLA_ROW_BYTES, ITEM_BYTES
from kvplan.engine.cache_dtypes.packing import Keeps, head_bytes
from kvplan.engine.failures import AssertionFails
from kvplan.history import cache
from kvplan.releases import Release


class BareAssertion(Exception):  # noqa: N818  (it stands for vLLM's own AssertionError without a text)
    """An `assert` without a message fails inside vLLM."""

    def __init__(self, facts: AssertionFails) -> None:
        super().__init__(facts.check)
        self.facts = facts


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What a spec's need of one request depends on, in tokens."""

    max_model_len: int
    in_flight_tokens: int
    retained_tokens: int = 0
    """Tokens below a window that a draft of several MTP modules makes sliding layers keep."""
    encoder_tokens: int = 0
    """Tokens that an encoder may be given at once."""
    context_shards: int = 1
    """Ranks that share the tokens of a request (context parallelism)."""


def ceil_div(numerator: int, denominator: int) -> int:
    """Integer division rounded up."""
    return -(-numerator // denominator)


def pad_to_alignment(spec: AttentionSpec, alignment: int | None) -> None:
    """Settle the padded page of a spec under construction: 37,376 bytes become 37,440 with an alignment of 576."""
    if alignment is None:
        return
    page = spec.unpadded_page_bytes
    padded = ceil_div(page, alignment) * alignment
    if padded != page:
        object.__setattr__(spec, "page_size_padded", padded)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSpec:
    """What the specs of all attention layers have in common. Sizes in bytes, block size in tokens."""

    block_size: int
    num_kv_heads: int
    head_size: int
    head_size_v: int | None
    dtype: str
    quant_mode: str | None
    token_bytes: int
    """Bytes of one token in one layer, before padding."""
    sliding_window: int | None = None
    """Tokens of the window, where the layer has one."""
    page_size_padded: int | None = None
    indexes_by_block_stride: bool = False
    """Whether the layer's backend can read pages that stand further apart than they are long."""
    row_alignment: int = 1
    """Bytes that the distance between blocks must be a multiple of (0.31.0)."""
    divided: bool = True
    """Whether ranks that share the tokens of a request keep a part of them each, rather than all."""

    @property
    def shares_prefixes(self) -> bool:
        """Whether the cache of a prefix may serve several requests."""
        return True

    @property
    def unpadded_page_bytes(self) -> int:
        """Bytes of a page before padding."""
        return self.block_size * self.token_bytes

    @property
    def page_bytes(self) -> int:
        """Bytes of a page. Raises BareAssertion if a page is padded to less than it holds, as vLLM's assert does."""
        return padded_page(self.unpadded_page_bytes, self.page_size_padded)

    @property
    def type_key(self) -> tuple[object, ...]:
        """Layers with equal keys and equal block sizes need the same number of token slots, so that one block table
        can serve them all (`UniformTypeKVCacheSpecs.is_uniform_type`)."""
        raise NotImplementedError

    @property
    def merge_key(self) -> tuple[object, ...]:
        """Layers with equal keys can be told by one spec (`merge`)."""
        return (type(self), self)

    @property
    def recorded_window(self) -> int | None:
        """A window that merging may add to a spec without one, but not to one with another."""
        return None

    def request_blocks(self, limits: RequestLimits) -> int:
        """Blocks that one request of `limits.max_model_len` tokens needs."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class FullAttentionSpec(AttentionSpec):
    """Every token of a request stays in the cache. `sliding_window` and `chunk_size` only record that a local layer was
    promoted."""

    chunk_size: int | None = None
    """Tokens of a chunk, where a layer that attends in chunks was promoted."""

    @property
    def type_key(self) -> tuple[object, ...]:
        """All layers that keep every token are of one type, MLA included."""
        return ("full", self.divided)

    @property
    def merge_key(self) -> tuple[object, ...]:
        """Everything but the recorded window or chunk."""
        return (type(self), replace(self, sliding_window=None, chunk_size=None))

    @property
    def recorded_window(self) -> int | None:
        """The window of the local layer that this spec was promoted from."""
        return self.sliding_window

    def request_blocks(self, limits: RequestLimits) -> int:
        """One block for every `block_size` tokens of the longest request, or of a rank's share of it."""
        ranks = limits.context_shards if self.divided else 1
        return ceil_div(ceil_div(limits.max_model_len, ranks), self.block_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class MLAAttentionSpec(FullAttentionSpec):
    """One latent row a token (or one key row of an indexer), no separate value.

    Compressed caches store one row for `tokens_per_state` tokens (`token_bytes` is then the row's) and pad pages to a
    multiple of `alignment`. As in vLLM the padding is settled when a spec is made, and a copy with another block size
    keeps the old padding where its own page needs none.
    """

    cache_dtype: str | None = None
    indexer: bool = False
    group_leader: bool = False
    """Whether the layer owns the indexer that other layers' sparse attention follows."""
    tokens_per_state: int = 1
    alignment: int | None = None

    def __post_init__(self) -> None:
        """Pad the page to whole alignment units."""
        pad_to_alignment(self, self.alignment)

    @property
    def recorded_window(self) -> int | None:
        """None: merging latent specs never looks at windows."""
        return None

    @property
    def unpadded_page_bytes(self) -> int:
        """Rows of a block times their bytes. DeepSeek-V4, 256 tokens, one row for 4, packed: 64 * 584 = 37,376."""
        return self.block_size // self.tokens_per_state * self.token_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindowSpec(AttentionSpec):
    """Only the last `sliding_window` tokens stay, plus what is in flight."""

    sliding_window: int

    @property
    def type_key(self) -> tuple[object, ...]:
        """Layers with one window are of one type."""
        return ("sliding", self.sliding_window, self.divided)

    def request_blocks(self, limits: RequestLimits) -> int:
        """The window and the tokens in flight, never more than the request, and one block for a ragged start."""
        kept = self.sliding_window - 1 + limits.retained_tokens
        tokens = min(kept + limits.in_flight_tokens, limits.max_model_len)
        return ceil_div(tokens, self.block_size) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MambaSpec:
    """One state of fixed size, kept a few times a request or, in mode `all`, for every block."""

    block_size: int
    """Tokens between two states of one request."""
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    cache_mode: str
    kind: str
    state_bytes: int
    page_size_padded: int | None = None
    extra_states: int = 0
    """States a request keeps beside the one it works on (mode `all`: beside those of its blocks)."""
    type_knows_page: bool = False
    """Whether only layers with equal pages need the same number of states (0.29.0)."""
    row_alignment: int = 1
    indexes_by_block_stride: bool = False
    replicated: bool = False
    """Whether every tensor-parallel rank keeps the whole state."""

    num_kv_heads: None = None
    head_size: None = None
    head_size_v: None = None
    dtype: None = None
    quant_mode: None = None
    sliding_window: None = None

    @property
    def shares_prefixes(self) -> bool:
        """Whether the cache of a prefix may serve several requests."""
        return True

    @property
    def unpadded_page_bytes(self) -> int:
        """Bytes of a state."""
        return self.state_bytes

    @property
    def page_bytes(self) -> int:
        """Bytes of a state's page. Raises BareAssertion if it is padded to less than the state holds."""
        return padded_page(self.state_bytes, self.page_size_padded)

    @property
    def type_key(self) -> tuple[object, ...]:
        """Layers that keep equally many states (later also of one size), divided alike, are of one type."""
        return ("state", self.extra_states, self.replicated, self.page_bytes if self.type_knows_page else None)

    @property
    def merge_key(self) -> tuple[object, ...]:
        """Layers with equal states can be told by one spec."""
        return (type(self), self)

    @property
    def recorded_window(self) -> int | None:
        """States have no window."""
        return None

    def request_blocks(self, limits: RequestLimits) -> int:
        """The states of one request."""
        if self.cache_mode == "all":
            return ceil_div(limits.max_model_len, self.block_size) + self.extra_states
        return 1 + self.extra_states


Recast = TypeVar("Recast", bound=AttentionSpec)

LayerSpec = AttentionSpec | MambaSpec
"""What grouping, capacity and views work with; every layer's spec is one."""


def padded_page(content: int, padded: int | None) -> int:
    """Bytes of a page that holds `content` bytes. Raises BareAssertion if it is padded to less."""
    if padded is None:
        return content
    if padded < content:
        facts = AssertionFails(
            check="the padded page is smaller than the page", padded_page_bytes=padded, page_bytes=content
        )
        raise BareAssertion(facts)
    return padded


@dataclass(frozen=True, slots=True, kw_only=True)
class TQFullAttentionSpec(FullAttentionSpec):
    """A layer that keeps every token in TurboQuant's packed slots (until 0.27; then a FullAttentionSpec)."""


def attention_token_bytes(
    release: Release,
    *,
    num_kv_heads: int,
    head_size: int,
    head_size_v: int | None,
    dtype: str,
    sliding: bool,
    quant_mode: str | None = None,
    backend: str | None = None,
    with_scales: bool = True,
) -> int:
    """Bytes of one token's key and value in one layer of plain attention.

    `quant_mode` and `backend` say whether and how the layout is packed. `with_scales` False leaves out scales that
    the spec counts apart from the values, as vLLM does in one place.
    Llama-3-8B in bfloat16: 8 * (128 + 128) * 2 = 4,096 bytes a token, 65,536 a page of 16 tokens.
    """
    value = head_size if head_size_v is None else head_size_v
    if sliding and not release.has(cache.SLIDING_SPEC_COUNTS_VALUE_HEAD):
        value = head_size
    keeps = Keeps.WINDOW if sliding else Keeps.ALL
    packed = head_bytes(release, quant_mode, keeps, head_size=head_size, head_size_v=value, backend=backend)
    if packed is None:
        return num_kv_heads * (head_size + value) * ITEM_BYTES[dtype]
    values, scales = packed
    return num_kv_heads * (values + scales if with_scales else values)


def latent_token_bytes(cache_dtype: str | None, head_size: int, dtype: str) -> int:
    """Bytes of one token's latent row: DeepSeek-V3 576 * 2 = 1,152 in bfloat16, 656 as fp8_ds_mla."""
    if cache_dtype in DS_MLA_ROW_BYTES:
        return DS_MLA_ROW_BYTES[cache_dtype]
    return head_size * ITEM_BYTES[dtype]


def recast(spec: AttentionSpec, kind: type[Recast], **own: Any) -> Recast:
    """The spec as one of class `kind`: fields that both have are kept, `own` sets others."""
    shared = {field.name for field in fields(kind)} - own.keys()
    kept = {field.name: getattr(spec, field.name) for field in fields(spec) if field.name in shared}
    return kind(**kept, **own)


def can_merge(specs: Sequence[LayerSpec]) -> bool:
    """Whether vLLM's `merge` would make one spec of `specs`.

    Raises ValueError, as vLLM does, where specs of one class record different windows.
    """
    distinct = set(specs)
    if len({spec.merge_key[0] for spec in distinct}) > 1:
        return False
    if len({spec.recorded_window for spec in distinct} - {None}) > 1:
        raise ValueError("All attention layers in the same KV cache group must have the same window size.")
    return len({spec.merge_key for spec in distinct}) == 1


def same_type(specs: Sequence[LayerSpec]) -> bool:
    """Whether one block table can serve all `specs`: one block size and one `type_key`."""
    return len({(spec.block_size, spec.type_key) for spec in specs}) == 1
