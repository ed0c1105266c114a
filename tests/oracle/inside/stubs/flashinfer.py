"""FlashInfer as far as vLLM looks into it while it starts: its version, and two things that depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.oracle.inside.stubs.modules import Fill
from tests.oracle.inside.stubs.noted import STUBBED

PINNED: Mapping[str, str] = {
    "0.20.2": "0.6.8.post1",
    "0.25.1": "0.6.13",
    "0.26.0": "0.6.14",
    "0.29.0": "0.6.18",
    "0.31.0": "0.7.0.post1",
    "0.32.0": "0.7.0.post1",
    "0.33.0": "0.7.2.post1",
}
"""Release to the version that its requirements pin, as far as it was looked up."""
OTHERWISE = "0.6.8"
SCALE_ARRAYS_SINCE = (0, 6, 18)
"""The first version whose MLA wrapper takes one scale a token block."""


def fills(release: str) -> dict[str, Fill]:
    """The attributes of FlashInfer's modules, by module name, in the version that `release` pins."""
    return {"flashinfer.mla": _mla(PINNED.get(release, OTHERWISE)), "flashinfer.mla._sparse_mla_sm120": _sm120}


def _mla(version: str) -> Fill:
    def give(module: Any) -> None:
        numbers = tuple(int(part) for part in version.split(".post", maxsplit=1)[0].split("."))
        if numbers >= SCALE_ARRAYS_SINCE:
            module.BatchMLAPagedAttentionWrapper = BatchMLAPagedAttentionWrapper
            STUBBED["flashinfer.mla"] = (
                "stub; BatchMLAPagedAttentionWrapper.run has kw-only ckv_scale_arr "
                f"(as in the pinned flashinfer {version}; read from the wheel for 0.7.0.post1/0.7.2.post1)"
            )

    return give


class BatchMLAPagedAttentionWrapper:
    """Only its signature is looked at."""

    def run(
        self,
        q_nope: object = None,
        q_pe: object = None,
        ckv_cache: object = None,
        kpe_cache: object = None,
        out: object = None,
        lse: object = None,
        return_lse: bool = False,
        *,
        ckv_scale: object = None,
        ckv_scale_arr: object = None,
        kpe_scale: object = None,
        sinks: object = None,
        **more: object,
    ) -> None:
        """Never called."""
        raise NotImplementedError


def _sm120(module: Any) -> None:
    module._DECODE_DSV4_DISPATCH = _Dispatch()


class _Dispatch:
    """The table of compiled (heads, keys) pairs, by the bounds within which they lie."""

    def __contains__(self, pair: tuple[int, int]) -> bool:
        heads, keys = pair
        return 1 <= heads <= 128 and keys >= 64
