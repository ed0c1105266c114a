"""History entries about state layers: Mamba, gated delta nets, KDA, short convolution and linear attention."""

from kvplan.releases import Behaviour

HYBRID_PREFIX_CACHING_BY_DEFAULT = Behaviour(
    "HYBRID_PREFIX_CACHING_BY_DEFAULT",
    "prefix caching is on by default for models that mix attention and state layers, which then keep two states a "
    "request; before, it had to be asked for",
    since="0.28.0",
    reference="vllm#50991",
    where="engine/arg_utils.py",
)
EVERY_STATE_CACHED_BY_DEFAULT = Behaviour(
    "EVERY_STATE_CACHED_BY_DEFAULT",
    "with prefix caching, classes that can do it cache the state of every block (mode all); afterwards the last ones "
    "only (mode align) unless asked otherwise",
    until="0.27.1",
    reference="vllm#50991",
    where="model_executor/models/config.py",
)
DRAFTS_KEEP_LAST_STATES = Behaviour(
    "DRAFTS_KEEP_LAST_STATES",
    "speculative decoding makes mode align the default even for classes that can cache every state",
    since="0.20.2",
    until="0.21.0",
    reference="vllm#40454",
    where="model_executor/models/config.py",
)
EVERY_STATE_MODE_EXISTS = Behaviour(
    "EVERY_STATE_MODE_EXISTS",
    "--mamba-cache-mode all caches the state of every block; afterwards only align and none exist",
    until="0.31.0",
    where="config/cache.py",
)
STATE_MODE_FOLLOWS_PREFIX_CACHING = Behaviour(
    "STATE_MODE_FOLLOWS_PREFIX_CACHING",
    "--mamba-cache-mode is deprecated and has no effect: the mode follows --enable-prefix-caching",
    since="0.33.0",
    where="engine/arg_utils.py",
)
ALIGN_EXCLUDES_DRAFTS = Behaviour(
    "ALIGN_EXCLUDES_DRAFTS",
    "mode align refuses speculative decoding",
    until="0.16.0",
    reference="vllm#33705",
    where="model_executor/models/config.py",
)
CACHED_STATES_EXCLUDE_ASYNC = Behaviour(
    "CACHED_STATES_EXCLUDE_ASYNC",
    "prefix caching of state layers switches asynchronous scheduling off",
    until="0.16.0",
    reference="vllm#33997",
    where="config/vllm.py",
)
DRAFTS_ONLY_WITH_QWEN3_NEXT = Behaviour(
    "DRAFTS_ONLY_WITH_QWEN3_NEXT",
    "state layers refuse speculative decoding in every model but Qwen3-Next",
    until="0.16.0",
    reference="vllm#33726",
    where="model_executor/layers/mamba/abstract.py",
)
GRAPHS_NEED_A_BLOCK_A_REQUEST = Behaviour(
    "GRAPHS_NEED_A_BLOCK_A_REQUEST",
    "full CUDA graphs of a model with states stop start-up if there are fewer cache blocks than max_num_seqs",
    since="0.20.2",
    reference="vllm#38270",
    where="config/compilation.py",
)
BLOCK_MUST_FIT_BATCH_AT_CONFIG_TIME = Behaviour(
    "BLOCK_MUST_FIT_BATCH_AT_CONFIG_TIME",
    "in mode align the block size that the config settles must not exceed max_num_batched_tokens",
    since="0.17.1",
    until="0.17.1",
    reference="vllm#34445",
    where="config/vllm.py",
)
BLOCK_MUST_FIT_BATCH = Behaviour(
    "BLOCK_MUST_FIT_BATCH",
    "in mode align the final block size must not exceed max_num_batched_tokens",
    since="0.18.1",
    until="0.26.0",
    reference="vllm#35122",
    where="config/vllm.py",
)
BLOCK_MUST_FIT_LONG_PREFILL = Behaviour(
    "BLOCK_MUST_FIT_LONG_PREFILL",
    "in mode align a block must not exceed --long-prefill-token-threshold, where that is given",
    until="0.26.0",
    where="config/vllm.py",
)
HYBRID_BLOCK_CHECKED_AT_CONFIG_TIME = Behaviour(
    "HYBRID_BLOCK_CHECKED_AT_CONFIG_TIME",
    "what mode align asks of the scheduler's options is checked with the config; later, once blocks are planned",
    until="0.17.1",
    reference="vllm#35122",
    where="config/vllm.py",
)
ALIGN_EXCLUDES_V2_RUNNER = Behaviour(
    "ALIGN_EXCLUDES_V2_RUNNER",
    "mode align refuses the V2 model runner",
    since="0.21.0",
    until="0.24.0",
    where="config/vllm.py",
)
STATE_BLOCK_DEFAULT_UNSET = Behaviour(
    "STATE_BLOCK_DEFAULT_UNSET",
    "with prefix caching, a model without attention takes its state block size from --block-size, which is unset by "
    "default",
    until="0.17.1",
    reference="vllm#35122",
    where="model_executor/models/config.py",
)
HYBRID_BLOCK_AT_CONFIG_TIME = Behaviour(
    "HYBRID_BLOCK_AT_CONFIG_TIME",
    "the attention block of a hybrid model is raised over its state while the config is checked, in units of 16 "
    "tokens (MLA: 64 or 128); afterwards once the model is built, in units of the block size it would have had",
    until="0.19.1",
    reference="vllm#37467",
    where="model_executor/models/config.py",
)
HYBRID_BLOCK_UNIT_32_ON_BLACKWELL = Behaviour(
    "HYBRID_BLOCK_UNIT_32_ON_BLACKWELL",
    "the attention block of a hybrid model with heads of 256 is raised in units of 32 tokens on compute capability "
    "10.x unless another backend than FlashInfer is asked for",
    until="0.17.1",
    where="model_executor/models/config.py",
)
HYBRID_BLOCK_RESET = Behaviour(
    "HYBRID_BLOCK_RESET",
    "after the model is built, the block size of a hybrid model falls back to 16 unless --block-size was given; pages "
    "are unified by scaling it up again",
    since="0.18.1",
    until="0.19.1",
    reference="vllm#35122",
    where="platforms/interface.py",
)
HYBRID_MLA_UNIT_128 = Behaviour(
    "HYBRID_MLA_UNIT_128",
    "the attention block of a hybrid MLA model is raised in units of at least 128 tokens",
    since="0.27.1",
    where="platforms/interface.py",
)
HYBRID_BLOCK_SUITS_ALL_BACKENDS = Behaviour(
    "HYBRID_BLOCK_SUITS_ALL_BACKENDS",
    "the raised block of a hybrid model is rounded up to a size that every attention backend can split",
    since="0.32.0",
    where="platforms/interface.py",
)
HYBRID_BLOCK_SUITS_CHECKPOINTS = Behaviour(
    "HYBRID_BLOCK_SUITS_CHECKPOINTS",
    "in mode align the raised block of a hybrid model also suits the token positions at which its state layers can "
    "store a state inside a prompt",
    since="0.33.0",
    where="platforms/interface.py",
)
STATE_PAGES_PADDED = Behaviour(
    "STATE_PAGES_PADDED",
    "state pages are padded to the largest page; before, their block was scaled, which cannot change their size and "
    "fails an assertion",
    since="0.26.0",
    reference="vllm#45207",
    where="v1/core/kv_cache_utils.py",
)
STATE_TYPE_KNOWS_PAGE = Behaviour(
    "STATE_TYPE_KNOWS_PAGE",
    "state layers share a block table only if their pages are equal",
    since="0.29.0",
    where="v1/kv_cache_interface.py",
)
EVERY_STATE_COUNTS_DRAFTS = Behaviour(
    "EVERY_STATE_COUNTS_DRAFTS",
    "in mode all a request is charged a state for every speculative token beside those of its blocks",
    since="0.22.1",
    reference="vllm#41233",
    where="v1/kv_cache_interface.py",
)
DELTA_STATE_DTYPE_OPTION = Behaviour(
    "DELTA_STATE_DTYPE_OPTION",
    "--mamba-ssm-cache-dtype sets the recurrent state of gated delta nets apart from their convolution",
    since="0.17.1",
    reference="vllm#34489",
    where="model_executor/layers/mamba/mamba_utils.py",
)
MAMBA2_CONVOLUTION_COUNTS_DRAFTS = Behaviour(
    "MAMBA2_CONVOLUTION_COUNTS_DRAFTS",
    "the convolution of a Mamba 2 mixer keeps a column for every speculative token",
    since="0.17.1",
    reference="vllm#33726",
    where="model_executor/layers/mamba/mamba_mixer2.py",
)
MAMBA2_MODELS_COUNT_DRAFTS = Behaviour(
    "MAMBA2_MODELS_COUNT_DRAFTS",
    "Zamba 2, Falcon-H1 and Granite count those columns when the block size is aligned, as Mamba 2 and Nemotron-H "
    "did before",
    since="0.32.0",
    where="model_executor/models",
)
KDA_CONVOLUTION_MERGED = Behaviour(
    "KDA_CONVOLUTION_MERGED",
    "KDA keeps one convolution state for queries, keys and values; before, one each",
    since="0.23.0",
    where="model_executor/layers/mamba/mamba_utils.py",
)
KDA_CONVOLUTION_COUNTS_DRAFTS = Behaviour(
    "KDA_CONVOLUTION_COUNTS_DRAFTS",
    "the convolution of KDA keeps a column for every speculative token",
    since="0.27.1",
    where="model_executor/layers/mamba/mamba_utils.py",
)
KDA_STATE_DTYPE_OPTION = Behaviour(
    "KDA_STATE_DTYPE_OPTION",
    "--mamba-ssm-cache-dtype may store the recurrent state of KDA in Kimi K3 as bfloat16; before, always float32",
    since="0.30.0",
    reference="vllm#55364",
    where="model_executor/layers/mamba/mamba_utils.py",
)
SHORT_CONVOLUTION_COUNTS_DRAFTS = Behaviour(
    "SHORT_CONVOLUTION_COUNTS_DRAFTS",
    "a short convolution keeps a column for every speculative token",
    since="0.29.0",
    reference="vllm#50272",
    where="model_executor/layers/mamba/short_conv.py",
)
LINEAR_STATE_NOT_FLOAT32 = Behaviour(
    "LINEAR_STATE_NOT_FLOAT32",
    "linear attention refuses --mamba-cache-dtype float32",
    until="0.19.1",
    where="model_executor/layers/mamba/mamba_utils.py",
)
KDA_CHECKPOINT_BLOCK = Behaviour(
    "KDA_CHECKPOINT_BLOCK",
    "where FlashKDA runs the prompt, mode align keeps one state more a request, stored inside the prompt",
    since="0.29.0",
    reference="vllm#52789",
    where="models/kimi_k3/nvidia/kda.py",
)
MAMBA2_CHECKPOINT_BLOCK = Behaviour(
    "MAMBA2_CHECKPOINT_BLOCK",
    "in mode align a Mamba 2 mixer keeps one state more a request, stored inside the prompt",
    since="0.32.0",
    where="model_executor/layers/mamba/mamba_mixer2.py",
)
DELTA_CHECKPOINT_BLOCK = Behaviour(
    "DELTA_CHECKPOINT_BLOCK",
    "where FlashInfer runs the prompt of a gated delta net, mode align keeps one state more a request, and blocks are "
    "multiples of 64 tokens",
    since="0.33.0",
    where="model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py",
)
NEMOTRON_STATE_FLOAT32 = Behaviour(
    "NEMOTRON_STATE_FLOAT32",
    "Nemotron-H keeps its recurrent state in float32 where neither config nor launch says otherwise; before, float16",
    since="0.20.2",
    reference="vllm#39032",
    where="model_executor/models/config.py",
)
NEMOTRON_VL_STATE_DTYPE_FROM_CONFIG = Behaviour(
    "NEMOTRON_VL_STATE_DTYPE_FROM_CONFIG",
    "the multimodal Nemotron-H takes the dtype of its recurrent state from its config, as the text model does",
    since="0.20.2",
    reference="vllm#39032",
    where="model_executor/models/config.py",
)
SHORT_CONVOLUTION_RENAMED = Behaviour(
    "SHORT_CONVOLUTION_RENAMED",
    "LFM2's convolution layers are called short_conv; before, conv",
    since="0.28.0",
    where="model_executor/models/lfm2.py",
)
KIMI_LATENT_LAYER_IS_MODEL_CODE = Behaviour(
    "KIMI_LATENT_LAYER_IS_MODEL_CODE",
    "Kimi Linear's latent attention is a class of the model's own, under a name of its own, that never looks at the "
    "skip list",
    since="0.27.1",
    where="models/kimi_k3/nvidia/mla.py",
)
REPLAY_RING_LONGER_FOR_FLASHINFER = Behaviour(
    "REPLAY_RING_LONGER_FOR_FLASHINFER",
    "with --mamba-backend flashinfer the ring of --use-replayssm is one column longer",
    since="0.30.0",
    reference="vllm#52506",
    where="model_executor/layers/mamba/mamba_utils.py",
)
REPLAY_RING_COUNTS_DRAFTS = Behaviour(
    "REPLAY_RING_COUNTS_DRAFTS",
    "the FlashInfer ring of --use-replayssm has a column for every speculative token",
    since="0.32.0",
    where="model_executor/layers/mamba/mamba_utils.py",
)
SECOND_RUNNER_LACKS_EVERY_STATE = Behaviour(
    "SECOND_RUNNER_LACKS_EVERY_STATE",
    "mamba cache mode all keeps a launch on the V1 runner",
    since="0.30.0",
    until="0.31.0",
    reference="vllm#55041",
    where="config/vllm.py",
)
BAILING_LINEAR_BACKEND = Behaviour(
    "BAILING_LINEAR_BACKEND",
    "Bailing's lightning attention has a backend of its own, which can verify drafts",
    since="0.25.1",
    reference="vllm#44880",
    where="v1/attention/backends/linear_attn.py",
)
SECOND_RUNNER_LACKS_LAST_STATES = Behaviour(
    "SECOND_RUNNER_LACKS_LAST_STATES",
    "the V2 runner has no mamba cache mode align; before, no states at all",
    since="0.23.0",
    until="0.24.0",
    where="config/vllm.py",
)
STATES_RECOVERED = Behaviour(
    "STATES_RECOVERED",
    "--use-replayssm serves Kimi's linear attention, with drafts by recovering the states before them",
    since="0.29.0",
    where="config/vllm.py",
)
RECOVERED_STATES_MOVE = Behaviour(
    "RECOVERED_STATES_MOVE",
    "and such states go through KV connectors",
    since="0.33.0",
    where="config/vllm.py",
)
STATES_COUNT_CANVAS = Behaviour(
    "STATES_COUNT_CANVAS",
    "a request has a state more for every token of a diffusion model's canvas, as for drafts; none for drafts where "
    "--use-replayssm keeps what they change",
    since="0.29.0",
    where="model_executor/layers/mamba/abstract.py",
)
