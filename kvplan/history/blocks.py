"""History entries about block sizes, page unification and grouping."""

from kvplan.releases import Behaviour

BLOCK_SIZE_SHARED_BY_ALL_BACKENDS = Behaviour(
    "BLOCK_SIZE_SHARED_BY_ALL_BACKENDS",
    "the default block size is the smallest that all attention backends of the model accept; before, the first "
    "layer's preference",
    since="0.31.0",
    where="platforms/interface.py",
)
SKIP_LIST_ALIGNS_BLOCK_SIZE = Behaviour(
    "SKIP_LIST_ALIGNS_BLOCK_SIZE",
    "a non-empty skip list raises the block size until a quantised page covers an unquantised one, even over "
    "--block-size and even if no layer matches",
    since="0.25.1",
    reference="vllm#42890",
    where="platforms/interface.py",
)
ALIGNED_BLOCK_SIZE_CHECKED = Behaviour(
    "ALIGNED_BLOCK_SIZE_CHECKED",
    "a block size raised by alignment is checked against every backend",
    since="0.32.0",
    where="platforms/interface.py",
)
SLIDING_LAYERS_CHOOSE_BLOCK_SIZE = Behaviour(
    "SLIDING_LAYERS_CHOOSE_BLOCK_SIZE",
    "sliding-window layers choose their own block size from their backend's kernel block sizes",
    since="0.25.1",
    reference="vllm#42890",
    where="model_executor/layers/attention/attention.py",
)
SLIDING_BLOCK_FOLLOWS_PRIMARY = Behaviour(
    "SLIDING_BLOCK_FOLLOWS_PRIMARY",
    "a sliding-window layer takes the largest kernel block that fits a page of the primary block size; before, the "
    "smallest kernel block unless a skip list pads it",
    since="0.30.0",
    where="model_executor/layers/attention/attention.py",
)
PAGES_PADDED_BY_BLOCK_STRIDE = Behaviour(
    "PAGES_PADDED_BY_BLOCK_STRIDE",
    "pages that do not divide the largest are padded for layers whose backend indexes by the block stride; before, "
    "an error",
    since="0.24.0",
    until="0.28.0",
    reference="vllm#45181",
    where="v1/core/kv_cache_utils.py",
)
PAGES_PADDED_EXCEPT_MLA = Behaviour(
    "PAGES_PADDED_EXCEPT_MLA",
    "pages that do not divide the largest are padded for every attention layer that is not MLA",
    since="0.29.0",
    reference="vllm#51718",
    where="v1/core/kv_cache_utils.py",
)
GROUP_SIZE_FACTOR_150 = Behaviour(
    "GROUP_SIZE_FACTOR_150",
    "a group takes all layers of the largest bucket if that is less than 1.5 times the smallest; before, 1.25 times",
    since="0.18.1",
    where="v1/core/kv_cache_utils.py",
)
BUCKETS_MERGED = Behaviour(
    "BUCKETS_MERGED",
    "layers whose specs can be merged share a bucket when groups are formed",
    since="0.27.1",
    where="v1/core/kv_cache_utils.py",
)
FULL_ALLOCATION_FALLBACK = Behaviour(
    "FULL_ALLOCATION_FALLBACK",
    "where pages cannot be unified and MLA stands beside sliding-window layers, the latter are allocated as full "
    "attention",
    since="0.27.1",
    reference="vllm#48776",
    where="v1/core/kv_cache_utils.py",
)
PACKED_GROUPS = Behaviour(
    "PACKED_GROUPS",
    "in a block-outermost cache layout layers of different page sizes are packed side by side in a block",
    since="0.29.0",
    reference="vllm#51718",
    where="v1/core/kv_cache_utils.py",
)
PACKED_RINGS_AND_WINDOWS_SHRINK = Behaviour(
    "PACKED_RINGS_AND_WINDOWS_SHRINK",
    "when mixed pages are packed, rings and sliding-window layers go into as many groups as keep a block from growing; "
    "before, only states",
    since="0.30.0",
    where="v1/core/kv_cache_utils.py",
)
PROMOTION_KEEPS_VALUE_HEAD_AND_MODE = Behaviour(
    "PROMOTION_KEEPS_VALUE_HEAD_AND_MODE",
    "a sliding-window spec that is promoted to full attention keeps its value head size and quant mode",
    since="0.21.0",
    where="v1/core/kv_cache_utils.py",
)
PROMOTED_CHUNKS_KEEP_MODE = Behaviour(
    "PROMOTED_CHUNKS_KEEP_MODE",
    "a spec of chunked attention that is promoted to full attention keeps its quant mode",
    since="0.28.0",
    where="v1/core/kv_cache_utils.py",
)
PROMOTION_TAKES_FULL_BLOCK_SIZE = Behaviour(
    "PROMOTION_TAKES_FULL_BLOCK_SIZE",
    "a promoted spec takes the block size of the full-attention layers",
    since="0.27.1",
    reference="vllm#48776",
    where="v1/core/kv_cache_utils.py",
)
INTERLEAVED_BLOCKS_NOT_SPLIT = Behaviour(
    "INTERLEAVED_BLOCKS_NOT_SPLIT",
    "a group whose blocks interleave several layers is never split into kernel blocks",
    since="0.32.0",
    where="v1/worker/utils.py",
)
FLAT_ROWS_ALIGN_POOL = Behaviour(
    "FLAT_ROWS_ALIGN_POOL",
    "bytes per block are rounded up so that blocks of sparse MLA layers are whole rows apart",
    since="0.31.0",
    until="0.31.0",
    where="model_executor/layers/attention/mla_attention.py",
)
BACKENDS_ALIGN_BLOCKS = Behaviour(
    "BACKENDS_ALIGN_BLOCKS",
    "attention backends say how far apart blocks must lie (whole rows or whole kernel pages), and bytes per block of a "
    "block-outermost layout are rounded up to that",
    since="0.32.0",
    where="v1/worker/utils.py",
)
KERNEL_SIZES_BY_SPEC = Behaviour(
    "KERNEL_SIZES_BY_SPEC",
    "a sliding-window layer asks its backend for kernel block sizes with its spec in hand",
    since="0.31.0",
    where="model_executor/layers/attention/attention.py",
)
GROUP_KERNEL_SIZES_BY_SPEC = Behaviour(
    "GROUP_KERNEL_SIZES_BY_SPEC",
    "the kernel block size of a group is chosen with the layers' specs in hand",
    since="0.32.0",
    where="v1/worker/utils.py",
)
PREFIX_UNIT_CHECKED_WITH_PLAN = Behaviour(
    "PREFIX_UNIT_CHECKED_WITH_PLAN",
    "--prefix-match-unit is held against the groups' blocks while they are planned; before, when the scheduler starts",
    since="0.32.0",
    where="v1/engine/core.py",
)
