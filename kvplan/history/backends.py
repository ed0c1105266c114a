"""History entries about attention backends: what selection asks, which FlashAttention runs, forced choices."""

from kvplan.releases import Behaviour

_SELECTOR = "vllm/v1/attention/selector.py"
_BACKEND = "vllm/v1/attention/backend.py"
_CUDA = "vllm/platforms/cuda.py"
_FA_UTILS = "vllm/v1/attention/backends/fa_utils.py"
_FLASH_ATTN = "vllm/v1/attention/backends/flash_attn.py"
_FLASHINFER = "vllm/v1/attention/backends/flashinfer.py"
_MODEL_HOOKS = "vllm/model_executor/models/config.py"

MLA_BACKEND_AT_CONFIG_TIME = Behaviour(
    "MLA_BACKEND_AT_CONFIG_TIME",
    "the CUDA platform guesses the MLA backend from the config and forces its block size before any layer exists",
    until="0.17.1",
    reference="vllm#35122",
    where=_CUDA,
)
CONFIG_TIME_KNOWS_FLASHINFER_SPARSE = Behaviour(
    "CONFIG_TIME_KNOWS_FLASHINFER_SPARSE",
    "the config-time guess lets FLASHINFER_MLA_SPARSE keep a block size of 32",
    since="0.17.1",
    until="0.17.1",
    where=_CUDA,
)
BACKEND_SEES_BLOCK_SIZE = Behaviour(
    "BACKEND_SEES_BLOCK_SIZE",
    "a --block-size takes part in backend selection and can rule a backend out",
    since="0.18.1",
    reference="vllm#35122",
    where=_CUDA,
)
SINK_REASON_NAMES_ATTENTION_SINKS = Behaviour(
    "SINK_REASON_NAMES_ATTENTION_SINKS",
    "the refusal reads 'attention sinks not supported' instead of 'sink setting not supported'",
    since="0.18.1",
    where=_BACKEND,
)
BACKEND_SEES_PER_HEAD_SCALES = Behaviour(
    "BACKEND_SEES_PER_HEAD_SCALES",
    "checkpoints with per-head cache scales need a backend that supports them",
    since="0.17.1",
    reference="vllm#34281",
    where=_SELECTOR,
)
BACKEND_SEES_NON_CAUSAL = Behaviour(
    "BACKEND_SEES_NON_CAUSAL",
    "non-causal attention and batch invariance take part in backend selection",
    since="0.20.2",
    where=_SELECTOR,
)
BACKEND_SEES_SLIDING_WINDOW = Behaviour(
    "BACKEND_SEES_SLIDING_WINDOW",
    "sliding-window layers and prefill context parallelism rule out backends without support for them",
    since="0.26.0",
    reference="vllm#48011",
    where=_SELECTOR,
)
BACKEND_SEES_ADAPTIVE_VERIFICATION = Behaviour(
    "BACKEND_SEES_ADAPTIVE_VERIFICATION",
    "adaptive verification needs a backend that tolerates query lengths decided on the device",
    since="0.28.0",
    reference="vllm#47808",
    where=_SELECTOR,
)
BACKEND_SEES_NON_CAUSAL_DCP = Behaviour(
    "BACKEND_SEES_NON_CAUSAL_DCP",
    "non-causal MLA with decode context parallelism needs a backend that supports both",
    since="0.29.0",
    where=_SELECTOR,
)
BACKEND_SEES_DCP = Behaviour(
    "BACKEND_SEES_DCP",
    "decode context parallelism and R-SWA rule out backends without support for them",
    since="0.30.0",
    where=_SELECTOR,
)
SPARSE_ORDER_BY_HEADS = Behaviour(
    "SPARSE_ORDER_BY_HEADS",
    "on compute capability 10.x, few heads a rank (16 or less) put FlashInfer's sparse MLA before FlashMLA's",
    since="0.17.1",
    reference="vllm#33451",
    where=_CUDA,
)
SPARSE_ORDER_BY_CACHE_DTYPE = Behaviour(
    "SPARSE_ORDER_BY_CACHE_DTYPE",
    "on compute capability 10.x, a quantised cache puts FlashInfer's sparse MLA first",
    since="0.19.1",
    reference="vllm#37252",
    where=_CUDA,
)
FA4_SPARSE_MLA_FIRST = Behaviour(
    "FA4_SPARSE_MLA_FIRST",
    "on compute capability 10.x, few heads and an unquantised cache try the FA4 sparse MLA first",
    since="0.33.0",
    where=_CUDA,
)
TOKENSPEED_MLA_OFFERED = Behaviour(
    "TOKENSPEED_MLA_OFFERED",
    "TOKENSPEED_MLA joins the MLA backends of compute capability 10.x",
    since="0.21.0",
    reference="vllm#41778",
    where=_CUDA,
)
SM12X_HAS_OWN_MLA_ORDER = Behaviour(
    "SM12X_HAS_OWN_MLA_ORDER",
    "compute capability 12.x gets its own MLA list: TRITON_MLA and a sparse FlashInfer backend",
    since="0.24.0",
    reference="vllm#43477",
    where=_CUDA,
)
FLASH_ATTN_MLA_SPARSE_OFFERED = Behaviour(
    "FLASH_ATTN_MLA_SPARSE_OFFERED",
    "FLASH_ATTN_MLA_SPARSE comes before FLASHMLA_SPARSE on compute capability 9.x",
    since="0.25.1",
    reference="vllm#46189",
    where=_CUDA,
)
FLASHINFER_SM90_SPARSE_OFFERED = Behaviour(
    "FLASHINFER_SM90_SPARSE_OFFERED",
    "FLASHINFER_MLA_SPARSE_SM90 joins the list, first for latent rows of 512 elements and last otherwise",
    since="0.30.0",
    reference="vllm#53906",
    where=_CUDA,
)
FLASHINFER_HAS_SM90_MLA = Behaviour(
    "FLASHINFER_HAS_SM90_MLA",
    "the FlashInfer that comes with vLLM has the kernels that FLASHINFER_MLA_SPARSE_SM90 asks for",
    since="0.31.0",
    where="vllm/utils/flashinfer.py",
)
TURBOQUANT_OFFERED = Behaviour(
    "TURBOQUANT_OFFERED",
    "TURBOQUANT is tried last",
    since="0.20.2",
    reference="vllm#38479",
    where=_CUDA,
)
NON_CAUSAL_PREFERS_FLASH_ATTN = Behaviour(
    "NON_CAUSAL_PREFERS_FLASH_ATTN",
    "on compute capability 10.x non-causal attention tries FLASH_ATTN before FLASHINFER",
    since="0.26.0",
    reference="vllm#48167",
    where=_CUDA,
)
COMPOSITES_FOR_MM_PREFIX = Behaviour(
    "COMPOSITES_FOR_MM_PREFIX",
    "models with bidirectional image tokens try a composite of Triton and a causal backend first",
    since="0.30.0",
    reference="vllm#56305",
    where=_CUDA,
)
COMPOSITE_TAKES_FA3 = Behaviour(
    "COMPOSITE_TAKES_FA3",
    "TRITON_FLASH_ATTN also runs with FlashAttention 3; before it needed version 4",
    since="0.31.0",
    where="vllm/v1/attention/backends/triton_flash_attn.py",
)

QUANTISED_BY_MODE = Behaviour(
    "QUANTISED_BY_MODE",
    "a cache dtype counts as quantised when it has a quant mode, turboquant and ultraquant included",
    since="0.33.0",
    where="vllm/v1/kv_cache_interface.py",
)
QUANTISED_MEANS_FP8 = Behaviour(
    "QUANTISED_MEANS_FP8",
    "only fp8 cache dtypes count as quantised",
    until="0.19.1",
    where=_BACKEND,
)
FA4_ON_BLACKWELL = Behaviour(
    "FA4_ON_BLACKWELL",
    "compute capability 10.x resolves to FlashAttention 4 instead of 2",
    since="0.17.1",
    reference="vllm#32974",
    where=_FA_UTILS,
)
FA4_NEEDS_BATCH_VARIANCE = Behaviour(
    "FA4_NEEDS_BATCH_VARIANCE",
    "batch invariance falls back from FlashAttention 4 to 2",
    since="0.18.1",
    reference="vllm#36059",
    where=_FA_UTILS,
)
FA4_TAKES_HEAD_192 = Behaviour(
    "FA4_TAKES_HEAD_192",
    "FlashAttention 4 on Blackwell takes head size 192 beside sizes up to 128",
    since="0.18.1",
    where=_FA_UTILS,
)
FA4_HEAD_192_NEEDS_VALUE_128 = Behaviour(
    "FA4_HEAD_192_NEEDS_VALUE_128",
    "FlashAttention 4 on Blackwell takes head size 192 only with value rows of 128",
    since="0.27.1",
    where=_FA_UTILS,
)
FA4_FOR_DIFFERENT_VALUES_WITH_SINKS = Behaviour(
    "FA4_FOR_DIFFERENT_VALUES_WITH_SINKS",
    "sinks with value rows unlike key rows upgrade FlashAttention 3 to 4 on compute capability 9.x",
    since="0.20.2",
    where=_FA_UTILS,
)
FA4_FOR_LARGE_HEADS = Behaviour(
    "FA4_FOR_LARGE_HEADS",
    "head sizes above 256 upgrade FlashAttention 3 to 4 on compute capability 9.x",
    since="0.21.0",
    where=_FA_UTILS,
)
FA4_FOR_DIFFUSION = Behaviour(
    "FA4_FOR_DIFFUSION",
    "diffusion models upgrade FlashAttention 3 to 4 on compute capability 9.x",
    since="0.24.0",
    where=_FA_UTILS,
)
FA4_HEAD_256_OPEN = Behaviour(
    "FA4_HEAD_256_OPEN",
    "FlashAttention 4 on Blackwell takes head size 256",
    since="0.27.1",
    until="0.27.1",
    reference="vllm#42669",
    where=_FA_UTILS,
)
FA4_HEAD_256_KERNEL = Behaviour(
    "FA4_HEAD_256_KERNEL",
    "FlashAttention 4 has a head-size-256 kernel for Blackwell with pages of 128 tokens and a list of exclusions",
    since="0.29.0",
    reference="vllm#52980",
    where=_FA_UTILS,
)
FLASH_ATTN_HEADS_TO_512 = Behaviour(
    "FLASH_ATTN_HEADS_TO_512",
    "FLASH_ATTN takes head sizes up to 512 where FlashAttention 4 runs",
    since="0.20.2",
    reference="vllm#38835",
    where=_FLASH_ATTN,
)
FLASH_ATTN_SINKS_ON_FA4 = Behaviour(
    "FLASH_ATTN_SINKS_ON_FA4",
    "FLASH_ATTN has attention sinks with FlashAttention 4, not only 3",
    since="0.20.2",
    where=_FA_UTILS,
)
FLASH_ATTN_CLAIMS_ANY_FP8 = Behaviour(
    "FLASH_ATTN_CLAIMS_ANY_FP8",
    "FLASH_ATTN with version 3 claims every fp8 cache dtype, although kernels exist for e4m3 only",
    until="0.19.1",
    where=_FLASH_ATTN,
)
FLASH_ATTN_CLAIMS_ANY_QUANTISED = Behaviour(
    "FLASH_ATTN_CLAIMS_ANY_QUANTISED",
    "FLASH_ATTN with version 3 claims every quantised cache dtype, per-token-head and nvfp4 included",
    since="0.20.2",
    until="0.21.0",
    where=_FLASH_ATTN,
)
FLASH_ATTN_FP8_BY_COMBINATION = Behaviour(
    "FLASH_ATTN_FP8_BY_COMBINATION",
    "FLASH_ATTN takes e4m3 with version 3 on 9.x or version 4 on 10.x, checked again for the layer's head size",
    since="0.27.1",
    reference="vllm#42569",
    where=_FA_UTILS,
)
FLASH_ATTN_FP8_FA4_ON_SM90 = Behaviour(
    "FLASH_ATTN_FP8_FA4_ON_SM90",
    "FLASH_ATTN takes e4m3 with version 4 on compute capability 9.x at head size 512, in pages of 64 tokens",
    since="0.31.0",
    where=_FA_UTILS,
)
FLASH_ATTN_MM_PREFIX = Behaviour(
    "FLASH_ATTN_MM_PREFIX",
    "FLASH_ATTN handles bidirectional image tokens where version 4 runs",
    since="0.24.0",
    reference="vllm#42175",
    where=_FLASH_ATTN,
)
FLASH_ATTN_SMALL_BLOCKS_FOR_FLOAT32_STATE = Behaviour(
    "FLASH_ATTN_SMALL_BLOCKS_FOR_FLOAT32_STATE",
    "hybrid models with a float32 state cache limit FLASH_ATTN to kernel blocks of 16, 32 and 64 tokens",
    until="0.24.0",
    where=_FLASH_ATTN,
)
KERNEL_BLOCK_SIZES_BY_LAYER = Behaviour(
    "KERNEL_BLOCK_SIZES_BY_LAYER",
    "kernel block sizes are asked for with the layer's spec instead of the model's head size",
    since="0.31.0",
    where=_BACKEND,
)

TRTLLM_DECODE_BEYOND_BLACKWELL = Behaviour(
    "TRTLLM_DECODE_BEYOND_BLACKWELL",
    "FlashInfer's TRT-LLM decode kernels are used on compute capability 9.0 (prefill stays with 10.x)",
    since="0.25.1",
    reference="vllm#43232",
    where="vllm/utils/flashinfer.py",
)
TRTLLM_DECODE_ON_SM12X = Behaviour(
    "TRTLLM_DECODE_ON_SM12X",
    "FlashInfer's TRT-LLM decode kernels are used on compute capability 12.x",
    since="0.28.0",
    reference="vllm#49718",
    where="vllm/utils/flashinfer.py",
)
FLASHINFER_SINKS_ON_SM90 = Behaviour(
    "FLASHINFER_SINKS_ON_SM90",
    "FLASHINFER has attention sinks on compute capability 9.0",
    since="0.30.0",
    reference="vllm#50439",
    where=_FLASHINFER,
)
FLASHINFER_LARGE_PAGES = Behaviour(
    "FLASHINFER_LARGE_PAGES",
    "FLASHINFER takes kernel blocks up to 1024 tokens for grouped queries on compute capability 10.x",
    since="0.24.0",
    where=_FLASHINFER,
)
FLASHINFER_CHECKS_NVFP4 = Behaviour(
    "FLASHINFER_CHECKS_NVFP4",
    "FLASHINFER takes an nvfp4 cache only where TRT-LLM prefill and decode kernels run",
    since="0.25.1",
    where=_FLASHINFER,
)
FLASHINFER_CLAIMS_ANY_NVFP4 = Behaviour(
    "FLASHINFER_CLAIMS_ANY_NVFP4",
    "FLASHINFER claims every cache dtype that begins with nvfp4, nvfp4_ds_mla included; before, only nvfp4",
    since="0.28.0",
    where=_FLASHINFER,
)
FLASHINFER_NVFP4_ON_FA2 = Behaviour(
    "FLASHINFER_NVFP4_ON_FA2",
    "FLASHINFER takes an nvfp4 cache on compute capability 8.x, 9.x and 12.x",
    since="0.32.0",
    where=_FLASHINFER,
)
FLASHINFER_NEEDS_TRTLLM_FOR_ADAPTIVE = Behaviour(
    "FLASHINFER_NEEDS_TRTLLM_FOR_ADAPTIVE",
    "FLASHINFER tolerates device-side query lengths with TRT-LLM decode on compute capability 10.x",
    since="0.29.0",
    reference="vllm#52157",
    where=_FLASHINFER,
)
FLASHMLA_SPARSE_NOPE_ROWS = Behaviour(
    "FLASHMLA_SPARSE_NOPE_ROWS",
    "FLASHMLA_SPARSE takes rope-free latent rows of 512 elements on compute capability 9.x",
    since="0.31.0",
    reference="vllm#55385",
    where="vllm/v1/attention/backends/mla/flashmla_sparse.py",
)
FLASHMLA_SPARSE_NOPE_FP8 = Behaviour(
    "FLASHMLA_SPARSE_NOPE_FP8",
    "… with an fp8_ds_mla cache too",
    since="0.32.0",
    where="vllm/v1/attention/backends/mla/flashmla_sparse.py",
)
SPARSE_MLA_ANY_ROWS_OF_64 = Behaviour(
    "SPARSE_MLA_ANY_ROWS_OF_64",
    "sparse MLA kernels take any multiple of their page, not listed sizes only",
    since="0.32.0",
    where="vllm/v1/attention/backends/mla/flashmla_sparse.py",
)
FLASHINFER_SPARSE_WITHOUT_ROPE = Behaviour(
    "FLASHINFER_SPARSE_WITHOUT_ROPE",
    "FlashInfer's sparse MLA takes rope-free models (nope 256, rank 512) and refuses PCP with DCP",
    since="0.30.0",
    where="vllm/v1/attention/backends/mla/flashinfer_mla_sparse.py",
)
FLASHINFER_SPARSE_REFUSES_DS_MLA = Behaviour(
    "FLASHINFER_SPARSE_REFUSES_DS_MLA",
    "FLASHINFER_MLA_SPARSE words a refusal of its own for the fp8_ds_mla layout",
    since="0.24.0",
    where="vllm/v1/attention/backends/mla/flashinfer_mla_sparse.py",
)

HETEROGENEOUS_HEADS_FORCE_TRITON = Behaviour(
    "HETEROGENEOUS_HEADS_FORCE_TRITON",
    "Gemma 4 with head sizes that differ between layers and exceed 256 forces TRITON_ATTN",
    since="0.19.1",
    until="0.23.0",
    where=_MODEL_HOOKS,
)
HETEROGENEOUS_HEADS_PREFER_FA4 = Behaviour(
    "HETEROGENEOUS_HEADS_PREFER_FA4",
    "Gemma 4 with head sizes that differ between layers runs FlashAttention 4 everywhere, else TRITON_ATTN",
    since="0.24.0",
    reference="vllm#42175",
    where=_MODEL_HOOKS,
)
HETEROGENEOUS_HEADS_FP8_PER_LAYER = Behaviour(
    "HETEROGENEOUS_HEADS_FP8_PER_LAYER",
    "… except with an fp8 cache on compute capability 9.x, where each layer resolves its own version",
    since="0.31.0",
    where=_MODEL_HOOKS,
)
DIFFERENT_VALUES_MAY_USE_TRITON = Behaviour(
    "DIFFERENT_VALUES_MAY_USE_TRITON",
    "models with value rows unlike key rows fall back to TRITON_ATTN_DIFFKV without FlashAttention 3 or 4",
    since="0.24.0",
    reference="vllm#41797",
    where="vllm/model_executor/models/mimo_v2.py",
)

LAYOUT_RESOLVED_FOR_MODEL = Behaviour(
    "LAYOUT_RESOLVED_FOR_MODEL",
    "one KV cache layout is resolved for all backends of the model together",
    since="0.29.0",
    reference="vllm#51718",
    where="vllm/v1/attention/backends/utils.py",
)
LAYOUT_KEEPS_DCP_GROUPS_APART = Behaviour(
    "LAYOUT_KEEPS_DCP_GROUPS_APART",
    "sharded and replicated caches with different pages under DCP need a block-outermost layout",
    since="0.31.0",
    where="vllm/v1/attention/backends/utils.py",
)
KERNELS_STEP_BY_BLOCK_STRIDE = Behaviour(
    "KERNELS_STEP_BY_BLOCK_STRIDE",
    "backends tell whether their kernels step through pages by the block stride",
    since="0.24.0",
    until="0.28.0",
    reference="vllm#45181",
    where=_BACKEND,
)
VIEW_BLOCKS_FIRST = Behaviour(
    "VIEW_BLOCKS_FIRST",
    "FLASH_ATTN and FLEX_ATTENTION put the block dimension before the key/value pair",
    since="0.23.0",
    where=_FLASH_ATTN,
)
VIEW_KEYS_VALUES_JOINED = Behaviour(
    "VIEW_KEYS_VALUES_JOINED",
    "the view joins key and value rows: blocks, heads, tokens, twice the head size",
    since="0.26.0",
    reference="vllm#44455",
    where=_FLASH_ATTN,
)
VIEW_BY_BACKEND = Behaviour(
    "VIEW_BY_BACKEND",
    "the backend decides the shape of the cache view; later the spec does",
    until="0.28.0",
    reference="vllm#51718",
    where=_BACKEND,
)
FLASHMLA_NAMES_BLACKWELL_DC = Behaviour(
    "FLASHMLA_NAMES_BLACKWELL_DC",
    "FLASHMLA_SPARSE's refusal names 'Blackwell DC' devices instead of 'Blackwell'",
    since="0.24.0",
    where="vllm/v1/attention/backends/mla/flashmla_sparse.py",
)
LAYOUT_ASKED_WITH_SPECS = Behaviour(
    "LAYOUT_ASKED_WITH_SPECS",
    "the order of the cache is first asked for with the specs; before, on the V1 runner, once the cache is allocated",
    since="0.25.1",
    where="v1/worker/gpu_model_runner.py",
)
FLASHINFER_PLANS_BY_STORAGE = Behaviour(
    "FLASHINFER_PLANS_BY_STORAGE",
    "the metadata builder of FLASHINFER_MLA_SPARSE_SM90 hands FlashInfer the storage dtype of the cache; later, e4m3 "
    "where it is uint8",
    since="0.30.0",
    until="0.31.0",
    reference="vllm#55221",
    where="v1/attention/backends/mla/flashinfer_mla_sparse_sm90.py",
)
