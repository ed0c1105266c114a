"""History entries about models with compressed or auxiliary caches."""

from kvplan.releases import Behaviour

V4_ON_FLASHINFER = Behaviour(
    "V4_ON_FLASHINFER",
    "DeepSeek-V4 may run on FLASHINFER_MLA_SPARSE_DSV4, which stores plain bfloat16 or fp8 rows; before, FlashMLA's "
    "packed rows are the only format",
    since="0.23.0",
    reference="vllm#43827",
    where="models/deepseek_v4/nvidia/model.py",
)
V4_DESKTOP_BLACKWELL_ON_FLASHINFER = Behaviour(
    "V4_DESKTOP_BLACKWELL_ON_FLASHINFER",
    "DeepSeek-V4 runs on FLASHINFER_MLA_SPARSE_DSV4 with packed rows on GPUs of compute capability 12.x",
    since="0.24.0",
    reference="vllm#43477",
    where="models/deepseek_v4/nvidia/model.py",
)
V4_NAMES_WRONG_FLASHINFER = Behaviour(
    "V4_NAMES_WRONG_FLASHINFER",
    "DeepSeek-V4 refuses the FlashInfer sparse MLA backends of other models by name; before, it ignores them",
    since="0.24.0",
    where="models/deepseek_v4/nvidia/model.py",
)
V4_AUTO_IS_PACKED = Behaviour(
    "V4_AUTO_IS_PACKED",
    "DeepSeek-V4 takes an `auto` cache dtype for fp8; before, an assertion demands --kv-cache-dtype fp8",
    since="0.30.0",
    reference="vllm#45091",
    where="models/deepseek_v4/attention.py",
)
V4_SPECS_CARRY_MODE = Behaviour(
    "V4_SPECS_CARRY_MODE",
    "the specs of DeepSeek-V4's latent and sliding caches carry the quant mode of their cache dtype",
    since="0.25.1",
    reference="vllm#47716",
    where="models/deepseek_v4/attention.py",
)
V4_PLAIN_PAGES_ALIGNED = Behaviour(
    "V4_PLAIN_PAGES_ALIGNED",
    "pages of DeepSeek-V4's unpacked rows are padded to whole 512 bytes; before, only its indexer's pages are padded, "
    "to 576",
    since="0.25.1",
    reference="vllm#44577",
    where="models/deepseek_v4/attention.py",
)
V4_READS_LAYER_TYPES = Behaviour(
    "V4_READS_LAYER_TYPES",
    "DeepSeek-V4's ratios come from layer_types and compress_rates, which Transformers derives from compress_ratios; "
    "before, from compress_ratios alone",
    since="0.33.0",
    where="models/deepseek_v4/attention.py",
)
V41_MEGA_ATTENTION = Behaviour(
    "V41_MEGA_ATTENTION",
    "DeepSeek-V4.1 runs on FLASHMLA_MEGA_ATTN_DSV41 by default on compute capability 10.x, which stores compressed "
    "rows as nvfp4_ds_mla",
    since="0.31.0",
    where="models/deepseek_v41/nvidia/model.py",
)
V41_BLOCKS_HOLD_WHOLE_RECORDS = Behaviour(
    "V41_BLOCKS_HOLD_WHOLE_RECORDS",
    "blocks of DeepSeek-V4.1 lie whole records apart on compute capability 10.x",
    since="0.33.0",
    where="models/deepseek_v41/attention.py",
)
GLM5_NEXT_CHECKPOINTS_STATES = Behaviour(
    "GLM5_NEXT_CHECKPOINTS_STATES",
    "the KDA layers of GLM-5.3 Flash can store a state inside a prompt, for which a block is reserved",
    since="0.32.0",
    where="models/glm5next/common/kda.py",
)
KPOOL_TAIL_IS_RING = Behaviour(
    "KPOOL_TAIL_IS_RING",
    "the open pool of GLM-5.3 Flash's indexer is a CircularBufferSpec; before, a sliding window of a class of its own",
    since="0.32.0",
    where="models/glm5next/common/attention.py",
)
KPOOL_HAS_OWN_GROUPS = Behaviour(
    "KPOOL_HAS_OWN_GROUPS",
    "states beside pooled indexers share the slots of the latent pages, tails those of the indexers' pages",
    since="0.30.0",
    until="0.31.0",
    reference="vllm#53906",
    where="v1/core/kv_cache_utils.py",
)
KPOOL_ALIGNS_BLOCK_SIZE = Behaviour(
    "KPOOL_ALIGNS_BLOCK_SIZE",
    "the block size of a model with a pooled indexer is rounded up to whole pool pages; since 0.32 its backend says so",
    since="0.30.0",
    until="0.31.0",
    reference="vllm#53906",
    where="platforms/cuda.py",
)
KPOOL_BACKEND_COUNTS_TOKENS = Behaviour(
    "KPOOL_BACKEND_COUNTS_TOKENS",
    "the backend of a pooled indexer names its kernel block sizes in tokens, pool times page",
    since="0.32.0",
    where="v1/attention/backends/mla/indexer.py",
)
QSA_READS_FP8 = Behaviour(
    "QSA_READS_FP8",
    "Qwen4-Exp's indexed attention takes an fp8 cache; before, bfloat16 only",
    since="0.31.0",
    where="models/qwen4_exp/nvidia/qsa.py",
)
QSA_HONOURS_SKIP_LIST = Behaviour(
    "QSA_HONOURS_SKIP_LIST",
    "Qwen4-Exp's indexed attention honours --kv-cache-dtype-skip-layers (indices only)",
    since="0.32.0",
    where="models/qwen4_exp/nvidia/qsa.py",
)
KPOOL_TAIL_HOLDS_DRAFTS = Behaviour(
    "KPOOL_TAIL_HOLDS_DRAFTS",
    "the ring of GLM-5.3's open pool is a power of two of pools that holds the speculative tokens too",
    since="0.31.0",
    where="models/glm5next/common/attention.py",
)
GLM5_NEXT_CONFIG_OF_TRANSFORMERS = Behaviour(
    "GLM5_NEXT_CONFIG_OF_TRANSFORMERS",
    "GLM-5.3 Flash is read with Transformers' config class, which has no defaults for `mhc` and `mla_use_nope`",
    since="0.33.0",
    where="models/glm5next/common/model.py",
)
M3_PACKS_NVFP4 = Behaviour(
    "M3_PACKS_NVFP4",
    "MiniMax-M3's sparse attention stores an nvfp4 cache packed; before, its spec counts a whole byte a value",
    since="0.32.0",
    where="models/minimax_m3/nvidia/sparse_attention_msa.py",
)
QSA_NEEDS_512_OR_2048_GROUPS = Behaviour(
    "QSA_NEEDS_512_OR_2048_GROUPS",
    "Qwen4-Exp's config class demands indexer_budget / indexer_compress_ratio of 512 or 2048",
    since="0.29.0",
    until="0.31.0",
    reference="vllm#53896",
    where="models/qwen4_exp/config.py",
)
QWEN4_KNOWS_SPARSE_ATTENTION = Behaviour(
    "QWEN4_KNOWS_SPARSE_ATTENTION",
    "Qwen4-Exp's layer type `qwen_sparse_attention` is understood; before, only full_attention and linear_attention",
    since="0.31.0",
    until="0.31.0",
    where="models/qwen4_exp/config.py",
)
QWEN4_KNOWS_INDEXED_ATTENTION = Behaviour(
    "QWEN4_KNOWS_INDEXED_ATTENTION",
    "Qwen4-Exp is read with Transformers' config class, whose layer type is `indexed_attention`",
    since="0.32.0",
    where="models/qwen4_exp/nvidia/model.py",
)
PROMOTION_GROWS_PADDING = Behaviour(
    "PROMOTION_GROWS_PADDING",
    "a sliding latent spec promoted to full attention has its padded page grown with its block",
    since="0.27.1",
    reference="vllm#48776",
    where="v1/core/kv_cache_utils.py",
)
PROMOTED_LATENT_KEEPS_LAYOUT = Behaviour(
    "PROMOTED_LATENT_KEEPS_LAYOUT",
    "a sliding latent spec promoted to full attention keeps its row bytes, quant mode and recorded window",
    since="0.28.0",
    where="v1/core/kv_cache_utils.py",
)
PROMOTION_OF_SLIDING_LATENT_FAILS = Behaviour(
    "PROMOTION_OF_SLIDING_LATENT_FAILS",
    "with the hybrid manager off a model with sliding latent caches stops with a TypeError, because the promotion "
    "hands on a field (bounded_replay) that full specs do not have",
    since="0.31.0",
    where="v1/core/kv_cache_planning.py",
)
WINDOWS_REPLAYED = Behaviour(
    "WINDOWS_REPLAYED",
    "DeepSeek-V4.1's windows stay out of prefix caching and are computed again after a hit (--swa-bounded-replay), on "
    "the V2 runner and unless prefill ranks share the prompt",
    since="0.31.0",
    where="models/deepseek_v41/attention.py",
)
WINDOWS_REPLAYED_ON_PREFILL_RANKS = Behaviour(
    "WINDOWS_REPLAYED_ON_PREFILL_RANKS",
    "windows are replayed with prefill context parallelism too, as long as prefix caching is on",
    since="0.33.0",
    where="models/deepseek_v41/attention.py",
)
LATENT_GROUPS = Behaviour(
    "LATENT_GROUPS",
    "models with sliding latent caches are grouped by block size and window, beside one group of all full latent "
    "caches; since 0.29 any block-outermost layout packs mixed pages",
    since="0.20.2",
    until="0.28.0",
    reference="vllm#40860",
    where="v1/core/kv_cache_utils.py",
)
LATENT_GROUPS_NEED_MIXED_PAGES = Behaviour(
    "LATENT_GROUPS_NEED_MIXED_PAGES",
    "the special grouping for sliding latent caches is left out where all pages are equal",
    since="0.26.0",
    until="0.28.0",
    reference="vllm#48256",
    where="v1/core/kv_cache_utils.py",
)
LATENT_PAGES_PADDED_TO_FULL = Behaviour(
    "LATENT_PAGES_PADDED_TO_FULL",
    "pages of sliding latent caches are padded up to a page size of the full latent group",
    since="0.20.2",
    until="0.26.0",
    reference="vllm#40860",
    where="v1/core/kv_cache_utils.py",
)
POOL_IS_LAYER_TUPLES = Behaviour(
    "POOL_IS_LAYER_TUPLES",
    "bytes per block of groups with mixed pages: the sum of the full group's page sizes times the layers of the most "
    "frequent page of any group",
    since="0.20.2",
    until="0.22.1",
    reference="vllm#40860",
    where="v1/core/kv_cache_utils.py",
)
POOL_IS_SLOTS_BY_PAGE = Behaviour(
    "POOL_IS_SLOTS_BY_PAGE",
    "bytes per block of groups with mixed pages: for every page size as many slots as the group that has most of it",
    since="0.23.0",
    until="0.26.0",
    reference="vllm#44454",
    where="v1/core/kv_cache_utils.py",
)
INDEXER_ROWS_HALVED = Behaviour(
    "INDEXER_ROWS_HALVED",
    "use_fp4_indexer_cache in --attention-config halves the bytes of the keys of DeepSeek-V4's indexers; before, their "
    "rows stay as wide as those of fp8",
    since="0.27.1",
    until="0.29.0",
    reference="vllm#48993",
    where="models/deepseek_v4/attention.py",
)
INDEXER_ROWS_CHOSEN = Behaviour(
    "INDEXER_ROWS_CHOSEN",
    "DeepSeek-V4's indexers keep their keys as indexer_kv_dtype in --attention-config asks: fp8, or mxfp4 in half the "
    "bytes; other values are refused",
    since="0.28.0",
    reference="vllm#52550",
    where="v1/attention/backends/mla/indexer.py",
)
ROWS_IN_HOST_MEMORY = Behaviour(
    "ROWS_IN_HOST_MEMORY",
    "HiSparse (hisparse_config, HiSparseConnector) keeps rows of sparse attention in host memory",
    since="0.30.0",
    reference="vllm#53781",
    where="config/vllm.py",
)
