"""History entries about memory, batch defaults, runners and capacity."""

from kvplan.releases import Behaviour

BATCHED_TOKENS_16K_ON_LARGE_GPUS = Behaviour(
    "BATCHED_TOKENS_16K_ON_LARGE_GPUS",
    "max_num_batched_tokens defaults to 16384 on GPUs with 160 GiB or more",
    since="0.28.0",
    reference="vllm#51726",
    where="engine/arg_utils.py",
)
GB10_KEEPS_SMALL_BATCH_DEFAULTS = Behaviour(
    "GB10_KEEPS_SMALL_BATCH_DEFAULTS",
    "compute capability 12.1 (GB10) keeps the small batch defaults despite its memory",
    since="0.33.0",
    where="engine/arg_utils.py",
)
SLIDING_RESERVE_COUNTS_BATCHES_IN_FLIGHT = Behaviour(
    "SLIDING_RESERVE_COUNTS_BATCHES_IN_FLIGHT",
    "the reserve of a sliding-window layer counts every batch in flight, not one",
    since="0.26.0",
    reference="vllm#47728",
    where="v1/kv_cache_interface.py",
)
ADMISSION_COUNTS_FIRST_GROUP_ONLY = Behaviour(
    "ADMISSION_COUNTS_FIRST_GROUP_ONLY",
    "the admission check counts the blocks of the first KV cache group only",
    until="0.18.1",
    reference="vllm#36030",
    where="v1/core/kv_cache_utils.py",
)
ADMISSION_BY_WORKER = Behaviour(
    "ADMISSION_BY_WORKER",
    "the admission check and the automatic max_model_len count the layers of each worker; before, every worker had to "
    "hold the layers of all pipeline stages",
    since="0.17.1",
    reference="vllm#33698",
    where="v1/core/kv_cache_utils.py",
)
UNIFORM_GROUPS_OF_WORKERS = Behaviour(
    "UNIFORM_GROUPS_OF_WORKERS",
    "a group of layers with different pages is cut to the layers that a pipeline stage owns; before, every worker's "
    "blocks were as large as those of all stages together",
    since="0.17.1",
    reference="vllm#33698",
    where="v1/core/kv_cache_utils.py",
)
ADMISSION_RESERVES_NULL_BLOCK = Behaviour(
    "ADMISSION_RESERVES_NULL_BLOCK",
    "the admission check and the automatic max_model_len leave one block for the null block",
    since="0.29.0",
    reference="vllm#47272",
    where="v1/core/kv_cache_utils.py",
)
BLOCKS_OVERRIDE_BEFORE_CHECKS = Behaviour(
    "BLOCKS_OVERRIDE_BEFORE_CHECKS",
    "--num-gpu-blocks-override replaces the available memory before the admission check; before, only the number of "
    "blocks after it",
    since="0.20.2",
    reference="vllm#41069",
    where="v1/core/kv_cache_utils.py",
)
TOKENS_FROM_CONCURRENCY = Behaviour(
    "TOKENS_FROM_CONCURRENCY",
    "the logged cache size is the concurrency times max_model_len; before, blocks per group times block size",
    since="0.20.2",
    reference="vllm#40691",
    where="v1/core/kv_cache_utils.py",
)
CONCURRENCY_SUMS_GROUPS = Behaviour(
    "CONCURRENCY_SUMS_GROUPS",
    "the logged concurrency rounds blocks up per group; before, once over all groups",
    since="0.27.1",
    reference="vllm#48317",
    where="v1/core/kv_cache_utils.py",
)
CAPACITY_LOGGED_IN_ONE_LINE = Behaviour(
    "CAPACITY_LOGGED_IN_ONE_LINE",
    "cache size and concurrency are logged in one line",
    since="0.28.0",
    reference="vllm#50462",
    where="v1/core/kv_cache_utils.py",
)
POOL_IS_WIDEST_GROUP = Behaviour(
    "POOL_IS_WIDEST_GROUP",
    "a block costs the page bytes of the widest group; before, the longest group times the common page",
    since="0.29.0",
    reference="vllm#51718",
    where="v1/core/kv_cache_utils.py",
)
V2_RUNNER_FOR_LISTED_MODELS = Behaviour(
    "V2_RUNNER_FOR_LISTED_MODELS",
    "a few architectures run on the V2 model runner by default",
    since="0.22.1",
    until="0.24.0",
    reference="vllm#39337",
    where="config/vllm.py",
)
V2_RUNNER_LIST_ADMITS_MOE_AND_QUANTISED = Behaviour(
    "V2_RUNNER_LIST_ADMITS_MOE_AND_QUANTISED",
    "the listed architectures run on the V2 model runner even when they are MoE or quantised",
    since="0.24.0",
    where="config/vllm.py",
)
V2_RUNNER_FOR_DENSE_MODELS = Behaviour(
    "V2_RUNNER_FOR_DENSE_MODELS",
    "every generating model that is neither MoE nor hybrid runs on the V2 model runner by default",
    since="0.25.1",
    reference="vllm#44443",
    where="config/vllm.py",
)
V2_RUNNER_FOR_ALL = Behaviour(
    "V2_RUNNER_FOR_ALL",
    "the V2 model runner is the default for all models",
    since="0.29.0",
    reference="vllm#53183",
    where="config/vllm.py",
)
YARN_LENGTH_IN_CONFIG = Behaviour(
    "YARN_LENGTH_IN_CONFIG",
    "max_position_embeddings of a YaRN model is taken as already scaled; before, original length times factor",
    since="0.30.0",
    reference="vllm#56446",
    where="config/model.py",
)
EVENTS_DISABLE_HYBRID_MANAGER = Behaviour(
    "EVENTS_DISABLE_HYBRID_MANAGER",
    "--kv-events-config switches the hybrid KV cache manager off",
    until="0.19.1",
    reference="vllm#37688",
    where="config/vllm.py",
)
GROUPS_PLANNED_WITH_SPECS = Behaviour(
    "GROUPS_PLANNED_WITH_SPECS",
    "KV cache groups are planned as soon as the specs are collected, before memory is measured",
    since="0.33.0",
    where="v1/engine/core.py",
)
MM_PREFIX_RAISES_BATCHED_TOKENS = Behaviour(
    "MM_PREFIX_RAISES_BATCHED_TOKENS",
    "the default max_num_batched_tokens of a multimodal prefix-LM is raised to hold its largest item",
    since="0.22.1",
    reference="vllm#43051",
    where="engine/arg_utils.py",
)
ADMISSION_SPELLS_MODELS = Behaviour(
    "ADMISSION_SPELLS_MODELS",
    'the refusal of the admission check reads "the model\'s"; before, "the models\'s"',
    since="0.22.1",
    where="v1/core/kv_cache_utils.py",
)
LONG_PREFILL_FITS_MODEL = Behaviour(
    "LONG_PREFILL_FITS_MODEL",
    "--long-prefill-token-threshold may not exceed max_model_len",
    since="0.27.1",
    where="config/scheduler.py",
)
V2_RUNNER_FOR_MODELS = Behaviour(
    "V2_RUNNER_FOR_MODELS",
    "models decide which runner they get, and may fall back to V1; before, only VLLM_USE_V2_MODEL_RUNNER did",
    since="0.22.1",
    reference="vllm#39337",
    where="config/vllm.py",
)
V1_RUNNER_SAYS_WHAT_IT_LACKS = Behaviour(
    "V1_RUNNER_SAYS_WHAT_IT_LACKS",
    "a launch that ends up on the V1 runner is refused for what only the V2 runner does; before, that forced the V2 "
    "runner or went wrong later",
    since="0.29.0",
    where="config/vllm.py",
)
V1_RUNNER_REFUSES_ASYNC_STAGES = Behaviour(
    "V1_RUNNER_REFUSES_ASYNC_STAGES",
    "among it pipeline parallelism with async scheduling",
    since="0.31.0",
    where="config/vllm.py",
)
V1_RUNNER_STAGES_ARE_SYNCHRONOUS = Behaviour(
    "V1_RUNNER_STAGES_ARE_SYNCHRONOUS",
    "async scheduling is off by default with pipeline parallelism on the V1 runner",
    since="0.31.0",
    where="config/vllm.py",
)
V1_RUNNER_NAMED_WITH_ASYNC = Behaviour(
    "V1_RUNNER_NAMED_WITH_ASYNC",
    "--async-scheduling is refused for what the V1 runner lacks by that runner's name, pipeline parallelism included",
    since="0.33.0",
    where="config/vllm.py",
)
LAYERS_STRIDE_ALONE = Behaviour(
    "LAYERS_STRIDE_ALONE",
    "where blocks are not outermost in memory each layer's blocks are counted by their own stride, and a pipeline "
    "stage without any is divided by; before, it failed an assertion",
    since="0.32.0",
    where="v1/core/kv_cache_utils.py",
)
