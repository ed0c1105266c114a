"""The tensors of one state on one rank: shapes, dtypes, bytes, and how many states a request keeps.

Shapes (a rank of `t`, `k` the convolution's width, `s` speculative tokens where the layer counts them):

- Mamba 1: convolution (k - 1, width / t); state (width / t, state_size)
- Mamba 2: convolution (k - 1 + s, (width + 2 * groups * state_size) / t); state (heads / t, head_dim, state_size);
  one group becomes one for every rank
- gated delta net: convolution (k - 1 + s, (2 * key_heads * key_dim + heads * head_dim) / t); state
  (heads / t, head_dim, key_dim)
- KDA: convolution (k - 1 + s, 3 * heads * head_dim / t); state (heads / t, head_dim, head_dim)
- short convolution: (k - 1 + s, width / t)
- linear attention: (heads / t, head_dim, head_dim)

Sources: `model_executor/layers/mamba/mamba_utils.py` and the layer classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from kvplan.engine.cache_dtypes.dtypes import ITEM_BYTES
from kvplan.engine.failures import InvalidValue, StateNotDivisible
from kvplan.engine.models.geometry import State, StateDtype, StateKind
from kvplan.engine.states.options import StateOptions
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage
from kvplan.history import state as history
from kvplan.launch.values import Hardware
from kvplan.releases import Release

Shape = tuple[int, ...]

DELTA_CHECKPOINT_TOKENS = 64
"""Positions at which FlashInfer's gated delta net can store a state inside a prompt are multiples of this."""


@dataclass(frozen=True, slots=True)
class BuiltState:
    """One layer's state on one rank."""

    shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    cache_mode: str = "none"
    extra_states: int = 0
    """States a request keeps beside the one it works on (mode `all`: beside those of its blocks)."""
    checkpoint_tokens: int | None = None
    """Positions inside a prompt at which it can do so are multiples of this; None: the layer does not say."""

    @property
    def per_request(self) -> int | None:
        """States one request keeps; None where it keeps one for every block."""
        return None if self.cache_mode == "all" else 1 + self.extra_states

    @property
    def bytes(self) -> int:
        """Bytes of the state, before padding."""
        return state_bytes(self.shapes, self.dtypes)


def state_bytes(shapes: Sequence[Shape], dtypes: Sequence[str]) -> int:
    """Bytes of tensors of these shapes and dtypes, one after the other."""
    return sum(prod(shape) * ITEM_BYTES[dtype] for shape, dtype in zip(shapes, dtypes, strict=True))


def build_state(
    state: State,
    options: StateOptions,
    release: Release,
    *,
    tensor: int,
    model_dtype: str,
    hardware: Hardware,
    stage: Stage = Stage.LAYERS,
) -> BuiltState:
    """The state on one of `tensor` ranks. Raises StartupStops where it cannot be divided or stored so."""
    if state.kind is StateKind.MAMBA2 and stage is Stage.LAYERS:
        _check_mixer(state, tensor)
    drafts = options.speculative_tokens if state.counts_drafts else 0
    if state.kind is StateKind.MAMBA2 and state.counts_drafts:
        drafts = drafts or options.canvas_tokens  # classes with other states ask the speculative config alone
    tensor = 1 if state.replicated else tensor
    shapes = _shapes(state, tensor, drafts, stage)
    dtypes = _dtypes(state, options, release, model_dtype, len(shapes), stage)
    if options.replay_window is not None and state.kind is StateKind.MAMBA2:
        ring = _replay_ring(state, options, release, tensor, stage)
        shapes = (*shapes, *ring)
        dtypes = (*dtypes, model_dtype, "float32", model_dtype)
    checkpoints, tokens = _checkpoints(state, options, release, model_dtype, dtypes, hardware)
    extra = options.speculative_tokens
    if release.has(history.STATES_COUNT_CANVAS):
        extra = 0 if options.replay_window is not None else extra or options.canvas_tokens
    if options.cache_mode == "align":
        extra += 1 + checkpoints
    elif options.cache_mode == "all" and not release.has(history.EVERY_STATE_COUNTS_DRAFTS):
        extra = 0
    return BuiltState(shapes, dtypes, options.cache_mode, extra, tokens)


def _check_mixer(state: State, tensor: int) -> None:
    """What a Mamba 2 mixer asserts when it is built, before anybody asks for its shapes."""
    if state.heads % tensor:
        size, message = state.heads, "Tensor parallel world size must divide num heads."
    elif state.groups % tensor and state.groups != 1:
        size = state.groups
        message = "If tensor parallel world size does not divide num_groups, then num_groups must equal 1."
    else:
        return
    raise stop(Stage.LAYERS, StateNotDivisible(size=size, tensor_parallel=tensor), message, exception="AssertionError")


def _shapes(state: State, tensor: int, drafts: int, stage: Stage) -> tuple[Shape, ...]:
    columns = state.kernel - 1 + drafts

    def share(size: int) -> int:
        if size % tensor:
            raise stop(
                stage,
                StateNotDivisible(size=size, tensor_parallel=tensor),
                f"{size} is not divisible by {tensor}",
                exception="AssertionError",
            )
        return size // tensor

    match state.kind:
        case StateKind.MAMBA1:
            return (columns, share(state.width)), (share(state.width), state.state_size)
        case StateKind.MAMBA2:
            channels = state.width + 2 * _groups(state, tensor) * state.state_size
            return (columns, share(channels)), (share(state.heads), state.head_dim, state.state_size)
        case StateKind.DELTA:
            channels = 2 * state.key_heads * state.key_dim + state.heads * state.head_dim
            return (columns, share(channels)), (share(state.heads), state.head_dim, state.key_dim)
        case StateKind.KDA:
            projected = state.heads * state.head_dim
            recurrent = (share(state.heads), state.head_dim, state.head_dim)
            if state.split_convolution:
                each = (columns, share(projected))
                return each, each, each, recurrent
            return (columns, share(3 * projected)), recurrent
        case StateKind.CONVOLUTION:
            return ((columns, share(state.width)),)
        case StateKind.LINEAR:
            return ((state.heads // tensor, state.head_dim, state.head_dim),)


def _groups(state: State, tensor: int) -> int:
    """Groups of a Mamba 2 mixer once every rank has the groups that its heads need."""
    return state.groups if state.groups % tensor == 0 else tensor


def _dtypes(
    state: State, options: StateOptions, release: Release, model_dtype: str, count: int, stage: Stage
) -> tuple[str, ...]:
    convolution = model_dtype if options.cache_dtype == "auto" else options.cache_dtype
    if state.kind is StateKind.LINEAR:
        if options.cache_dtype == "float32" and release.has(history.LINEAR_STATE_NOT_FLOAT32):
            raise stop(
                stage,
                InvalidValue(option="--mamba-cache-dtype", value="float32", accepted=("auto", "float16")),
                "fp32 state for minimax is not yet supported",
            )
        return (convolution,)
    if state.kind is StateKind.CONVOLUTION:
        return (convolution,)
    return (convolution,) * (count - 1) + (_recurrent_dtype(state, options, convolution, stage),)


def _recurrent_dtype(state: State, options: StateOptions, convolution: str, stage: Stage) -> str:
    asked = options.recurrent_dtype
    match state.recurrent:
        case StateDtype.AS_CONVOLUTION:
            return convolution
        case StateDtype.OPTION:
            return convolution if asked == "auto" else _storage(asked, stage)
        case StateDtype.FLOAT32:
            return "float32"
        case StateDtype.FLOAT32_OR_OPTION:
            if asked not in ("auto", "float32", "bfloat16"):
                raise stop(
                    stage,
                    InvalidValue(
                        option="--mamba-ssm-cache-dtype", value=asked, accepted=("auto", "float32", "bfloat16")
                    ),
                    f"KDA recurrent state supports only auto, float32, and bfloat16; got {asked}",
                )
            return "float32" if asked == "auto" else asked


_SPELLED = {"half": "float16", "float": "float32", "fp8": "uint8", "fp8_e4m3": "uint8", "fp8_e5m2": "uint8"}
"""Names of dtypes in vLLM's table (`STR_DTYPE_TO_TORCH_DTYPE`) and what they are stored as."""


def _storage(name: str, stage: Stage) -> str:
    """The dtype of a name that may come from the config, where nothing has checked it. Raises StartupStops."""
    dtype = _SPELLED.get(name, name)
    if dtype not in ITEM_BYTES:
        raise stop(stage, InvalidValue(value=name, accepted=("float32", "bfloat16")), repr(name), exception="KeyError")
    return dtype


def _replay_ring(state: State, options: StateOptions, release: Release, tensor: int, stage: Stage) -> tuple[Shape, ...]:
    """The ring of the latest inputs that --use-replayssm keeps: inputs, time steps, and the B projections."""
    length = options.replay_window or 0
    if options.flashinfer and release.has(history.REPLAY_RING_LONGER_FOR_FLASHINFER):
        length += 1
        if release.has(history.REPLAY_RING_COUNTS_DRAFTS):
            length += options.speculative_tokens
    groups = _groups(state, tensor)
    if groups % tensor:
        raise stop(
            stage,
            StateNotDivisible(size=groups, tensor_parallel=tensor),
            f"{groups} is not divisible by {tensor}",
            exception="AssertionError",
        )
    heads = state.heads // tensor
    return (heads, length, state.head_dim), (heads, length), (groups // tensor, length, state.state_size)


def _checkpoints(
    state: State,
    options: StateOptions,
    release: Release,
    model_dtype: str,
    dtypes: tuple[str, ...],
    hardware: Hardware,
) -> tuple[int, int | None]:
    """(states that mode align keeps beside the usual two, positions at which one can be stored in a prompt)."""
    if state.follows is not None:
        return _checkpoints(state.follows, options, release, model_dtype, dtypes, hardware)
    if options.cache_mode != "align" or not state.checkpoints:
        return 0, None
    major = hardware.capability[0]
    if state.kind is StateKind.MAMBA2 and release.has(history.MAMBA2_CHECKPOINT_BLOCK):
        return 1, None
    if state.kind is StateKind.KDA and release.has(history.KDA_CHECKPOINT_BLOCK):
        fits = major in (9, 10, 12) and state.head_dim == 128 and model_dtype == "bfloat16"
        return int(fits and dtypes[-1] in ("bfloat16", "float32")), None
    flashinfer = major == 9 or (major in (10, 12) and state.key_dim == 128)
    if state.kind is StateKind.DELTA and flashinfer and release.has(history.DELTA_CHECKPOINT_BLOCK):
        return 1, DELTA_CHECKPOINT_TOKENS
    return 0, None
