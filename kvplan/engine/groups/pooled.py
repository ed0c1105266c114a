"""Grouping of states beside pooled indexers in 0.30 and 0.31: states live in the slots of latent pages.

All latent and index rows form one group; tails are padded to an index page and states to a latent page, so that a block
is as large as the first group. Source: v1/core/kv_cache_utils.py (`_get_kv_cache_groups_glm5_next`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kvplan.engine.failures import AssertionFails
from kvplan.engine.specs.base import BareAssertion, LayerSpec, MambaSpec, MLAAttentionSpec, ceil_div, same_type
from kvplan.engine.specs.compressed import KpoolTailSpec
from kvplan.history import compressed as history
from kvplan.releases import Release

Specs = Mapping[str, LayerSpec]


@dataclass(frozen=True, slots=True)
class PooledGroups:
    """The groups: those with unlike pages under one block table, then the groups of states."""

    uniform: tuple[Specs, ...]
    plain: tuple[Specs, ...]


class StateTooLarge(Exception):  # noqa: N818 - an outcome of vLLM, not an error of kvplan
    """A state does not fit a latent page."""

    def __init__(self, state_bytes: int, page_bytes: int) -> None:
        super().__init__(
            f"the mamba state page ({state_bytes} bytes) does not fit the MLA page ({page_bytes} bytes); increase "
            "tensor parallelism or use a wider KV cache dtype"
        )
        self.state_bytes = state_bytes
        self.page_bytes = page_bytes


def pooled_groups(specs: Specs, release: Release) -> PooledGroups | None:
    """The groups of a model with states and pooled indexers; None for any other model or release.

    34 states and 11 latent layers: ceil(34 / 11) = 4 groups of states, dealt out in turn.
    """
    if not release.has(history.KPOOL_HAS_OWN_GROUPS):
        return None
    states = {name: spec for name, spec in specs.items() if isinstance(spec, MambaSpec)}
    tails = {name: spec for name, spec in specs.items() if isinstance(spec, KpoolTailSpec)}
    rows = {name: spec for name, spec in specs.items() if name not in states and name not in tails}
    latent = {name: spec for name, spec in rows.items() if isinstance(spec, MLAAttentionSpec)}
    index_pages = {spec.page_bytes for spec in latent.values() if spec.tokens_per_state > 1}
    if not states or len(latent) != len(rows) or not index_pages:
        return None
    pages = [spec.page_bytes for spec in latent.values() if spec.tokens_per_state == 1]
    if len(index_pages) != 1 or len(set(pages)) != 1 or not same_type(list(latent.values())):
        raise BareAssertion(AssertionFails(check="latent rows have one page, pooled rows another"))
    page, index_page = pages[0], index_pages.pop()
    state_bytes = max(spec.unpadded_page_bytes for spec in states.values())
    if state_bytes > page:
        raise StateTooLarge(state_bytes, page)
    padded_states = {name: replace(spec, page_size_padded=page) for name, spec in states.items()}
    padded_tails: Specs = {name: replace(spec, page_size_padded=index_page) for name, spec in tails.items()}
    first: Specs = {name: replace(spec, row_alignment=1) for name, spec in latent.items()}
    count = ceil_div(len(states), len(pages))
    names = list(padded_states)
    return PooledGroups(
        uniform=(first, padded_tails) if padded_tails else (first,),
        plain=tuple({name: padded_states[name] for name in names[part::count]} for part in range(count)),
    )
