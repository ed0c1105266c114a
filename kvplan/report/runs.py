"""The cached layers folded into runs of equal ones, which is how people read a plan of 99 layers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kvplan.engine.facade import Role
from kvplan.engine.values import LayerPlan
from kvplan.report.words import layer_list

_UNQUANTISED = (None, "auto")


@dataclass(frozen=True, slots=True)
class Run:
    """Equal layers: `like` is the first of them."""

    like: LayerPlan
    indices: tuple[int, ...]
    count: int

    @property
    def label(self) -> str:
        """`0-1` for the attention layers, `21 × indexer` for caches beside them."""
        if self.like.role is Role.ATTENTION:
            return layer_list(self.indices)
        return f"{self.count} × {self.like.role.value.replace('_', ' ')}"

    @property
    def dtype(self) -> str:
        """What the cache holds: the cache dtype, or the element type where no cache dtype is at work."""
        if self.like.state_dtypes:
            return "+".join(dict.fromkeys(self.like.state_dtypes))
        return str(self.like.storage_dtype if self.like.cache_dtype in _UNQUANTISED else self.like.cache_dtype)

    @property
    def heads(self) -> str:
        """KV heads of one rank and the elements of a row: `8 × 128`, `8 × 192+128` where values differ; the shapes of
        a state: `3×8192 + 32×128×128`."""
        layer = self.like
        if layer.state_shapes:
            return " + ".join("×".join(map(str, shape)) for shape in layer.state_shapes)
        if layer.head_size_v and layer.head_size_v != layer.head_size:
            return f"{layer.num_kv_heads} × {layer.head_size}+{layer.head_size_v}"
        return f"{layer.num_kv_heads} × {layer.head_size}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What sets this run apart."""
        layer, notes = self.like, []
        if layer.skipped:
            notes.append("skipped")
        if layer.sliding_window is not None:
            notes.append(f"window {layer.sliding_window}")
        if layer.page_bytes > layer.unpadded_page_bytes > 0:
            notes.append(f"padded {layer.page_bytes / layer.unpadded_page_bytes - 1:.0%}")
        if layer.states_per_request is not None:
            notes.append(f"{layer.states_per_request} a request")
        return tuple(notes)


def fold(layers: Iterable[LayerPlan]) -> tuple[Run, ...]:
    """Layers that are alike in everything but their place, main attention first, then in order of appearance."""
    alike: dict[tuple[object, ...], list[LayerPlan]] = {}
    for layer in layers:
        alike.setdefault(_likeness(layer), []).append(layer)
    runs = [Run(same[0], tuple(sorted({layer.index for layer in same})), len(same)) for same in alike.values()]
    return tuple(sorted(runs, key=lambda run: (run.like.role is not Role.ATTENTION, run.indices)))


def _likeness(layer: LayerPlan) -> tuple[object, ...]:
    return (
        layer.role,
        layer.spec,
        layer.backend,
        layer.cache_dtype,
        layer.storage_dtype,
        layer.quant_mode,
        layer.block_size,
        layer.num_kv_heads,
        layer.head_size,
        layer.head_size_v,
        layer.sliding_window,
        layer.page_bytes,
        layer.unpadded_page_bytes,
        layer.state_shapes,
        layer.skipped,
    )
