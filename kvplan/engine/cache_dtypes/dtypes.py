"""Cache dtype strings: which release knows them, how they are stored, and which quant mode they mean.

Sources: `config/cache.py` (`CacheDType`), `utils/torch_utils.py` (the string to torch dtype table) and
`v1/kv_cache_interface.py` (`KVQuantMode`).
"""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.history import cache, packed
from kvplan.releases import Release, Span

ITEM_BYTES = {
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "uint8": 1,
    "int8": 1,
    "float8_e4m3fn": 1,
}
"""Bytes per element of a storage dtype."""


@dataclass(frozen=True, slots=True)
class CacheDtype(Span):
    """One value of `--kv-cache-dtype` in the releases that take it.

    `storage` is the torch dtype of the cache tensor (None: the model's own), `mode` the KVQuantMode name, and
    `packed` marks layouts with a page formula of their own (`kvplan.engine.cache_dtypes.packing`).
    """

    name: str
    storage: str | None
    mode: str = "NONE"
    packed: bool = False
    cuda: bool = True
    """Whether some backend on NVIDIA GPUs takes it."""


CACHE_DTYPES: tuple[CacheDtype, ...] = (
    CacheDtype("auto", None),
    CacheDtype("float16", "float16", since="0.18.1"),
    CacheDtype("bfloat16", "bfloat16"),
    CacheDtype("fp8", "uint8", "FP8_PER_TENSOR"),
    CacheDtype("fp8_e4m3", "uint8", "FP8_PER_TENSOR"),
    CacheDtype("fp8_e5m2", "uint8", "FP8_PER_TENSOR"),
    CacheDtype("fp8_inc", "float8_e4m3fn", "FP8_PER_TENSOR", cuda=False),
    CacheDtype("fp8_ds_mla", "uint8", "FP8_PER_TENSOR"),
    CacheDtype("turboquant_k8v4", "uint8", "TURBOQUANT_K8V4", since="0.20.2", packed=True),
    CacheDtype("turboquant_4bit_nc", "uint8", "TURBOQUANT_4BIT_NC", since="0.20.2", packed=True),
    CacheDtype("turboquant_k3v4_nc", "uint8", "TURBOQUANT_K3V4_NC", since="0.20.2", packed=True),
    CacheDtype("turboquant_3bit_nc", "uint8", "TURBOQUANT_3BIT_NC", since="0.20.2", packed=True),
    CacheDtype("int8_per_token_head", "int8", "INT8_PER_TOKEN_HEAD", since="0.20.2", packed=True),
    CacheDtype("fp8_per_token_head", "uint8", "FP8_PER_TOKEN_HEAD", since="0.20.2", packed=True),
    CacheDtype("int4_per_token_head", "uint8", "INT4_PER_TOKEN_HEAD", since="0.25.1", packed=True),
    CacheDtype("nvfp4", "uint8", "NVFP4", since="0.20.2", packed=True),
    CacheDtype("nvfp4_4over6", "uint8", "NVFP4", since="0.28.0", packed=True),
    CacheDtype("nvfp4_ds_mla", "uint8", "NVFP4_DS_MLA", since="0.30.0"),
    CacheDtype("ultraquant_4bit", "uint8", "ULTRAQUANT_4BIT", since="0.32.0", packed=True, cuda=False),
    CacheDtype("octave_k3v4", "uint8", "OCTAVE_K3V4", since="0.33.0", packed=True, cuda=False),
    CacheDtype("octave_k3v3", "uint8", "OCTAVE_K3V3", since="0.33.0", packed=True, cuda=False),
    CacheDtype("octave_k3v3_compact", "uint8", "OCTAVE_K3V3_COMPACT", since="0.33.0", packed=True, cuda=False),
)

_BY_NAME = {row.name: row for row in CACHE_DTYPES}

DS_MLA_ROW_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
"""Bytes of one token's packed latent row. fp8_ds_mla: 512 one-byte NoPE values, four fp32 scales, 64 bf16 RoPE
values (512 + 16 + 128). nvfp4_ds_mla: 256 bytes of 4-bit NoPE values, 32 scale bytes, 64 one-byte RoPE values."""


def lookup(name: str) -> CacheDtype:
    """The table row of a cache dtype string. Raises KeyError for a name that no release knows."""
    return _BY_NAME[name]


def known(release: Release) -> tuple[str, ...]:
    """The cache dtype strings `--kv-cache-dtype` takes in `release`, in vLLM's order."""
    return tuple(row.name for row in CACHE_DTYPES if release.within(row))


def known_on_cuda(release: Release) -> tuple[str, ...]:
    """Those that some backend on NVIDIA GPUs takes, TurboQuant's last: they change the most."""
    names = (row.name for row in CACHE_DTYPES if row.cuda and release.within(row))
    return tuple(sorted(names, key=lambda name: name.startswith("turboquant_")))


def storage_dtype(name: str, model_dtype: str) -> str:
    """The torch dtype (by name) in which a cache of this dtype string is stored."""
    return _BY_NAME[name].storage or model_dtype


def quant_mode(name: str, release: Release) -> str | None:
    """KVQuantMode of a layer's cache dtype string; None in releases that have no quant modes."""
    if not release.has(cache.QUANT_MODE_EXISTS):
        return None
    if name.startswith("turboquant_") and not release.has(packed.TURBOQUANT_MODE_BY_PRESET):
        return "TURBOQUANT" if release.has(packed.TURBOQUANT_MODE) else "NONE"
    return _BY_NAME[name].mode


def is_quantised(name: str | None) -> bool:
    """Whether a cache dtype string stores fewer bits than the model computes with; None is a cache without one."""
    row = _BY_NAME.get(name or "")
    return row is not None and row.mode != "NONE"


def is_packed(name: str) -> bool:
    """Whether a cache dtype string means a layout with a page formula of its own."""
    row = _BY_NAME.get(name)
    return row is not None and row.packed


def element_bytes(name: str, model_dtype: str) -> int | None:
    """Bytes of a cache's element; None where elements share scales, and for names that no release knows."""
    row = _BY_NAME.get(name)
    if row is None or row.packed or "nvfp4" in name:
        return None
    return ITEM_BYTES.get(row.storage or model_dtype)
