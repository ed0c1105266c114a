"""History entries about context parallelism, local and cross attention."""

from kvplan.releases import Behaviour

PCP_HAS_RANKS_OF_ITS_OWN = Behaviour(
    "PCP_HAS_RANKS_OF_ITS_OWN",
    "with --prefill-context-parallel-size, decode context parallelism must be off, span those ranks, or span them and "
    "the tensor-parallel ones; before, it only had to divide the tensor-parallel size",
    since="0.26.0",
    reference="vllm#46570",
    where="config/parallel.py",
)
PCP_EXCLUDES_DATA_PARALLEL = Behaviour(
    "PCP_EXCLUDES_DATA_PARALLEL",
    "prefill context parallelism is refused together with data parallelism",
    since="0.26.0",
    until="0.30.0",
    reference="vllm#46570",
    where="config/parallel.py",
)
PCP_CHECKED_BY_PLATFORM = Behaviour(
    "PCP_CHECKED_BY_PLATFORM",
    "the CUDA platform refuses prefill context parallelism with data parallelism, not the parallel config",
    since="0.30.0",
    where="platforms/cuda.py",
)
PCP_REPLICATES_CACHE = Behaviour(
    "PCP_REPLICATES_CACHE",
    "prefill context parallelism does not divide the cache; before, a rank kept 1 / (DCP * PCP) of the tokens",
    since="0.26.0",
    reference="vllm#46570",
    where="v1/kv_cache_interface.py",
)
PCP_NEEDS_V2_RUNNER = Behaviour(
    "PCP_NEEDS_V2_RUNNER",
    "prefill context parallelism switches to the V2 runner; later, the V1 runner refuses it",
    since="0.27.1",
    until="0.28.0",
    reference="vllm#50034",
    where="config/vllm.py",
)
A2A_NEEDS_DCP = Behaviour(
    "A2A_NEEDS_DCP",
    "--dcp-comm-backend a2a is refused without decode context parallelism",
    since="0.18.1",
    until="0.28.0",
    reference="vllm#34883",
    where="config/parallel.py",
)
DCP_REFUSALS_HAVE_TEXTS = Behaviour(
    "DCP_REFUSALS_HAVE_TEXTS",
    "decode context parallelism that the KV heads do not allow is a ValueError that names the options; before, an "
    "assertion",
    since="0.27.1",
    reference="vllm#49777",
    where="config/model.py",
)
SPARSE_DCP_NEEDS_PACKED_ROWS = Behaviour(
    "SPARSE_DCP_NEEDS_PACKED_ROWS",
    "FlashMLA's sparse kernels take part in decode context parallelism, but only with fp8_ds_mla rows; before, they "
    "could not at all, which only showed after planning",
    since="0.29.0",
    reference="vllm#46514",
    where="v1/attention/backends/mla/flashmla_sparse.py",
)
INTERLEAVE_FOLLOWS_GROUPS = Behaviour(
    "INTERLEAVE_FOLLOWS_GROUPS",
    "how many tokens in a row go to one rank is settled after grouping",
    since="0.29.0",
    where="config/vllm.py",
)
DCP_MULTIPLIES_TOKENS = Behaviour(
    "DCP_MULTIPLIES_TOKENS",
    "the tokens that the log reports are those of one rank times DCP and PCP",
    until="0.19.1",
    where="v1/core/kv_cache_utils.py",
)
DCP_NEEDS_ONE_GROUP = Behaviour(
    "DCP_NEEDS_ONE_GROUP",
    "context parallelism with several KV cache groups stops the engine core after planning",
    since="0.20.2",
    until="0.25.1",
    where="v1/core/kv_cache_utils.py",
)
BATCHED_DP_TAKES_SMALL_BATCHES = Behaviour(
    "BATCHED_DP_TAKES_SMALL_BATCHES",
    "with data and expert parallelism on a batched all-to-all backend, max_num_batched_tokens defaults to 256",
    since="0.20.2",
    where="engine/arg_utils.py",
)
RANK_REFUSALS_HAVE_TEXTS = Behaviour(
    "RANK_REFUSALS_HAVE_TEXTS",
    "data-parallel options that leave a process without a rank of its own are a ValueError that names them; before, "
    "an assertion",
    since="0.27.1",
    reference="vllm#49124",
    where="engine/arg_utils.py",
)
EXTERNAL_RANKS_NEED_EXPERTS = Behaviour(
    "EXTERNAL_RANKS_NEED_EXPERTS",
    "data-parallel ranks started one by one are refused for models without experts",
    since="0.21.0",
    where="engine/arg_utils.py",
)
NODES_COUNT_PREFILL_RANKS = Behaviour(
    "NODES_COUNT_PREFILL_RANKS",
    "--nnodes divides a world that counts the prefill context parallel ranks too",
    since="0.30.0",
    where="engine/arg_utils.py",
)
NODES_MUST_TELL_RANKS = Behaviour(
    "NODES_MUST_TELL_RANKS",
    "with an external load balancer, --data-parallel-rank wins over the node's, and nodes that do not divide by the "
    "ranks are refused without it",
    since="0.31.0",
    reference="vllm#53743",
    where="engine/arg_utils.py",
)
ELASTIC_EXCLUDES_HYBRID_BALANCING = Behaviour(
    "ELASTIC_EXCLUDES_HYBRID_BALANCING",
    "--enable-elastic-ep is refused together with --data-parallel-hybrid-lb",
    since="0.33.0",
    where="config/parallel.py",
)
BALANCER_COUNTS_PREFILL_RANKS = Behaviour(
    "BALANCER_COUNTS_PREFILL_RANKS",
    "--enable-eplb is content with prefill context parallelism; before, it asked for tensor or data parallelism",
    since="0.26.0",
    reference="vllm#46570",
    where="config/parallel.py",
)
NIXL_EP_TAKES_MICROBATCHES = Behaviour(
    "NIXL_EP_TAKES_MICROBATCHES",
    "microbatches work with the nixl_ep exchange of experts, not only with DeepEP's",
    since="0.24.0",
    reference="vllm#45275",
    where="config/vllm.py",
)
DENSE_MLA_EXCLUDES_BOTH = Behaviour(
    "DENSE_MLA_EXCLUDES_BOTH",
    "dense MLA layers refuse prefill together with decode context parallelism",
    since="0.30.0",
    where="model_executor/layers/attention/mla_attention.py",
)
DRAFT_KEEPS_CONTEXT_WHOLE = Behaviour(
    "DRAFT_KEEPS_CONTEXT_WHOLE",
    "under decode context parallelism every rank keeps the whole cache of a DFlash or DSpark draft without latent rows",
    since="0.31.0",
    where="v1/worker/gpu/model_runner.py",
)
