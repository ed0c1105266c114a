"""History entries about speculative decoding."""

from kvplan.releases import Behaviour

METHOD_DEFAULTS_TO_DRAFT_MODEL = Behaviour(
    "METHOD_DEFAULTS_TO_DRAFT_MODEL",
    "a draft model whose method is neither given nor recognised is run as a model of its own (draft_model)",
    since="0.17.1",
    where="config/speculative.py",
)
DOTTED_MODEL_IS_CUSTOM_CLASS = Behaviour(
    "DOTTED_MODEL_IS_CUSTOM_CLASS",
    "a speculative model that is a dotted name without a slash is a proposer class, whatever the method says",
    since="0.22.1",
    until="0.25.1",
    reference="vllm#39487",
    where="config/speculative.py",
)
DOTTED_MODEL_WITHOUT_METHOD_IS_CUSTOM_CLASS = Behaviour(
    "DOTTED_MODEL_WITHOUT_METHOD_IS_CUSTOM_CLASS",
    "a speculative model that is a dotted import path is a proposer class where no method is given",
    since="0.26.0",
    reference="vllm#48754",
    where="config/speculative.py",
)
DASHES_IN_KEYS = Behaviour(
    "DASHES_IN_KEYS",
    "keys of --speculative-config may be written with dashes",
    since="0.26.0",
    where="engine/arg_utils.py",
)
DFLASH_BY_NAME = Behaviour(
    "DFLASH_BY_NAME",
    "a draft model with dflash in its name is run as dflash",
    since="0.20.2",
    reference="vllm#36847",
    where="config/speculative.py",
)
DSPARK_BY_NAME = Behaviour(
    "DSPARK_BY_NAME",
    "a draft model with dspark in its name, or of a DSpark architecture, is run as dspark",
    since="0.25.1",
    reference="vllm#46995",
    where="config/speculative.py",
)
DRAFT_VIEW_FOLLOWS_OWN_DTYPE = Behaviour(
    "DRAFT_VIEW_FOLLOWS_OWN_DTYPE",
    "the view of a draft layer's cache is made for the draft's own cache dtype; before, for the target's",
    since="0.29.0",
    where="v1/worker/gpu/attn_utils.py",
)
DRAFT_LEAVES_TARGETS_BACKEND_V1 = Behaviour(
    "DRAFT_LEAVES_TARGETS_BACKEND_V1",
    "on the V1 runner the draft chooses its attention backend itself (or takes attention_backend of "
    "--speculative-config); before, it took the target's --attention-backend",
    since="0.21.0",
    reference="vllm#39930",
    where="v1/spec_decode/llm_base_proposer.py",
)
DRAFT_BACKEND_ON_V2 = Behaviour(
    "DRAFT_BACKEND_ON_V2",
    "on the V2 runner attention_backend of --speculative-config reaches EAGLE and MTP drafts; before, it was not read",
    since="0.30.0",
    reference="vllm#54826",
    where="v1/worker/gpu/spec_decode/eagle/utils.py",
)
DRAFT_NAMES_COUNT_WHOLE_TARGET = Behaviour(
    "DRAFT_NAMES_COUNT_WHOLE_TARGET",
    "EAGLE 3, DFlash and DSpark layers are numbered after all layers of the target; before, after those of the "
    "draft's own pipeline stage",
    since="0.30.0",
    where="model_executor/models/llama_eagle3.py",
)
EXTRA_TOKENS_RETAINED = Behaviour(
    "EXTRA_TOKENS_RETAINED",
    "sliding-window layers keep tokens below their window for drafts of several MTP modules",
    since="0.28.0",
    reference="vllm#50062",
    where="v1/kv_cache_interface.py",
)
DSPARK_FORCES_V2 = Behaviour(
    "DSPARK_FORCES_V2",
    "DSpark drafts run the V2 model runner whatever the target",
    since="0.25.1",
    until="0.28.0",
    reference="vllm#46995",
    where="config/vllm.py",
)
MIXED_DFLASH_FORCES_V2 = Behaviour(
    "MIXED_DFLASH_FORCES_V2",
    "DFlash drafts that mix sliding and full attention run the V2 model runner whatever the target",
    since="0.26.0",
    until="0.28.0",
    where="config/vllm.py",
)
DFLASH2_FORCES_V2 = Behaviour(
    "DFLASH2_FORCES_V2",
    "DFlash 2 drafts run the V2 model runner whatever the target",
    since="0.28.0",
    until="0.28.0",
    reference="vllm#52816",
    where="config/vllm.py",
)
V2_RUNS_DFLASH = Behaviour(
    "V2_RUNS_DFLASH",
    "the V2 runner has DFlash drafts",
    since="0.24.0",
    reference="vllm#44586",
    where="config/vllm.py",
)
V2_RUNS_DSPARK = Behaviour(
    "V2_RUNS_DSPARK",
    "the V2 runner has DSpark drafts",
    since="0.25.1",
    reference="vllm#46995",
    where="config/vllm.py",
)
V2_RUNS_HIDDEN_STATES = Behaviour(
    "V2_RUNS_HIDDEN_STATES",
    "the V2 runner has the extract_hidden_states method",
    since="0.29.0",
    reference="vllm#49811",
    where="config/vllm.py",
)
V2_RUNS_EAGLE3_PIPELINED = Behaviour(
    "V2_RUNS_EAGLE3_PIPELINED",
    "the V2 runner has EAGLE 3 with pipeline parallelism",
    since="0.30.0",
    reference="vllm#50514",
    where="config/vllm.py",
)
V2_RUNS_DRAFT_MODELS = Behaviour(
    "V2_RUNS_DRAFT_MODELS",
    "the V2 runner has draft models of their own",
    since="0.31.0",
    where="config/vllm.py",
)
V2_RUNS_NGRAM = Behaviour(
    "V2_RUNS_NGRAM",
    "the V2 runner has n-gram speculation",
    since="0.32.0",
    where="config/vllm.py",
)
V2_REFUSES_MIXED_VOCABULARIES = Behaviour(
    "V2_REFUSES_MIXED_VOCABULARIES",
    "draft models with a vocabulary of their own run the V1 runner",
    since="0.32.0",
    where="config/vllm.py",
)
V2_DYNAMIC_LENGTH = Behaviour(
    "V2_DYNAMIC_LENGTH",
    "the V2 runner has a number of speculative tokens that changes with the batch size",
    since="0.25.1",
    reference="vllm#45953",
    where="config/vllm.py",
)
ASYNC_BY_DEFAULT_WITH_DRAFT_MODELS = Behaviour(
    "ASYNC_BY_DEFAULT_WITH_DRAFT_MODELS",
    "scheduling is asynchronous by default with draft models of their own",
    since="0.28.0",
    reference="vllm#48341",
    where="config/vllm.py",
)
ASYNC_WITH_EVERY_METHOD_ON_V2 = Behaviour(
    "ASYNC_WITH_EVERY_METHOD_ON_V2",
    "only the V1 runner lacks asynchronous scheduling for some speculative methods",
    since="0.33.0",
    where="config/vllm.py",
)
ASYNC_WITH_GPU_NGRAM = Behaviour(
    "ASYNC_WITH_GPU_NGRAM",
    "scheduling may be asynchronous with ngram_gpu",
    since="0.18.1",
    reference="vllm#29184",
    where="config/vllm.py",
)
DRAFT_SLOTS_PER_SEQUENCE = Behaviour(
    "DRAFT_SLOTS_PER_SEQUENCE",
    "the batch must hold the extra drafting slots of max_num_seqs requests",
    since="0.20.2",
    until="0.27.1",
    where="config/vllm.py",
)
DRAFT_SLOTS_OF_ONE_REQUEST = Behaviour(
    "DRAFT_SLOTS_OF_ONE_REQUEST",
    "the batch must hold a token and the extra drafting slots of one request",
    since="0.28.0",
    until="0.32.0",
    where="config/vllm.py",
)
BATCH_EXCEEDS_LOOKAHEAD = Behaviour(
    "BATCH_EXCEEDS_LOOKAHEAD",
    "max_num_batched_tokens must exceed the lookahead of the draft",
    since="0.33.0",
    where="config/vllm.py",
)
LENGTH_LIMITED_BY_DRAFT = Behaviour(
    "LENGTH_LIMITED_BY_DRAFT",
    "on the V2 runner max_model_len is lowered to the draft's where its positions cannot be stretched",
    since="0.33.0",
    where="config/vllm.py",
)
N_PREDICT_FROM_TEXT_CONFIG = Behaviour(
    "N_PREDICT_FROM_TEXT_CONFIG",
    "the number of MTP layers of Qwen3.5 is read from the text config too",
    since="0.30.0",
    where="config/speculative.py",
)
EXAONE_MTP_HAS_OWN_WINDOWS = Behaviour(
    "EXAONE_MTP_HAS_OWN_WINDOWS",
    "EXAONE-MoE's MTP layer follows mtp_layer_types and mtp_sliding_windows",
    since="0.27.1",
    where="model_executor/models/exaone_moe.py",
)
DFLASH_LEAVES_TARGETS_BACKEND = Behaviour(
    "DFLASH_LEAVES_TARGETS_BACKEND",
    "on the V2 runner a DFlash draft chooses its attention backend itself or takes that of --speculative-config",
    since="0.25.1",
    where="v1/worker/gpu/spec_decode/dflash/utils.py",
)
DSPARK_TAKES_TARGETS_BACKEND = Behaviour(
    "DSPARK_TAKES_TARGETS_BACKEND",
    "a DSpark draft without an attention backend of its own takes the target's --attention-backend",
    since="0.28.0",
    until="0.28.0",
    where="v1/worker/gpu/spec_decode/dspark/utils.py",
)
DSPARK_IN_TARGET_TAKES_TARGETS_BACKEND = Behaviour(
    "DSPARK_IN_TARGET_TAKES_TARGETS_BACKEND",
    "DeepSeek-V4's DSpark draft without an attention backend of its own takes the target's --attention-backend",
    since="0.29.0",
    where="v1/worker/gpu/spec_decode/dspark/utils.py",
)
STEP_MTP_NEEDS_OWN_TYPES = Behaviour(
    "STEP_MTP_NEEDS_OWN_TYPES",
    "Step 3.5's MTP layers are looked up by mtp_layer_types; a config without that list is refused",
    since="0.33.0",
    where="transformers_utils/model_arch_config_convertor.py",
)
DRAFT_PIPELINED_LIKE_TARGET = Behaviour(
    "DRAFT_PIPELINED_LIKE_TARGET",
    "with pipeline parallelism the draft's class must support it too; later a draft is always one stage",
    until="0.29.0",
    where="config/speculative.py",
)
DFLASH_SLIDES = Behaviour(
    "DFLASH_SLIDES",
    "DFlash drafts have sliding-window layers",
    since="0.25.1",
    reference="vllm#46104",
    where="model_executor/models/qwen3_dflash.py",
)
DFLASH_MAY_MIX = Behaviour(
    "DFLASH_MAY_MIX",
    "DFlash drafts may mix sliding and full attention, on the V2 runner; 0.25.1 refuses it",
    since="0.26.0",
    reference="vllm#47914",
    where="model_executor/models/qwen3_dflash.py",
)
AUXILIARY_STATES_BY_MODEL_TYPE = Behaviour(
    "AUXILIARY_STATES_BY_MODEL_TYPE",
    "the config check lists the model types that EAGLE 3 drafts may have as target",
    until="0.21.0",
    reference="vllm#42536",
    where="config/speculative.py",
)
ADAPTIVE_VERIFICATION_OF_DSPARK_ONLY = Behaviour(
    "ADAPTIVE_VERIFICATION_OF_DSPARK_ONLY",
    "adaptive verification is refused for every method but DSpark",
    since="0.28.0",
    until="0.29.0",
    where="config/speculative.py",
)
ADAPTIVE_VERIFICATION_HINDERED_BY_RUNNER = Behaviour(
    "ADAPTIVE_VERIFICATION_HINDERED_BY_RUNNER",
    "what adaptive verification cannot be combined with is told as what the V2 runner lacks",
    until="0.28.0",
    where="config/vllm.py",
)
ADAPTIVE_VERIFICATION_NEEDS_FULL_GRAPHS = Behaviour(
    "ADAPTIVE_VERIFICATION_NEEDS_FULL_GRAPHS",
    "adaptive verification is refused without full CUDA graphs, not only without any",
    since="0.30.0",
    where="config/vllm.py",
)
HIDDEN_STATES_HAVE_SPEC = Behaviour(
    "HIDDEN_STATES_HAVE_SPEC",
    "the cache of extract_hidden_states has a spec of its own, which follows the block size that hybrid models are "
    "raised to and keeps out of their groups; before, it was a latent row of the block size at first",
    since="0.22.1",
    reference="vllm#39949",
    where="v1/kv_cache_interface.py",
)
HIDDEN_STATES_DIVIDE_BLOCKS = Behaviour(
    "HIDDEN_STATES_DIVIDE_BLOCKS",
    "beside several groups, blocks of hidden states divide those of the groups; before, they hold what fits a page",
    since="0.28.0",
    where="v1/core/kv_cache_utils.py",
)
HIDDEN_STATES_PACKED_AS_THEY_ARE = Behaviour(
    "HIDDEN_STATES_PACKED_AS_THEY_ARE",
    "beside groups that are packed side by side in a block, pages of hidden states are left as they are",
    since="0.29.0",
    where="v1/core/kv_cache_utils.py",
)
HIDDEN_STATES_RAISE_PAGES = Behaviour(
    "HIDDEN_STATES_RAISE_PAGES",
    "blocks of all groups grow until a page holds the hidden states of one token",
    since="0.30.0",
    where="v1/core/kv_cache_utils.py",
)
SPECULATORS_KEEP_OPTIONS = Behaviour(
    "SPECULATORS_KEEP_OPTIONS",
    "serving a draft in the speculators format keeps the other keys of --speculative-config; before, it was dropped",
    since="0.29.0",
    where="transformers_utils/config.py",
)
SPECULATORS_VERIFIER_IS_REMOTE = Behaviour(
    "SPECULATORS_VERIFIER_IS_REMOTE",
    "a draft in the speculators format that is served in its verifier's place must name a verifier of the Hub",
    since="0.33.0",
    where="transformers_utils/config.py",
)
SPECULATORS_DFLASH = Behaviour("SPECULATORS_DFLASH", "drafts in the speculators format may be DFlash", since="0.20.2")
SPECULATORS_PEAGLE = Behaviour(
    "SPECULATORS_PEAGLE",
    "drafts in the speculators format may be parallel EAGLE",
    since="0.22.1",
    reference="vllm#41826",
)
SPECULATORS_DSPARK = Behaviour(
    "SPECULATORS_DSPARK", "drafts in the speculators format may be DSpark", since="0.25.1", reference="vllm#47093"
)
SPECULATORS_DFLASH2 = Behaviour(
    "SPECULATORS_DFLASH2", "drafts in the speculators format may be DFlash 2", since="0.29.0", reference="vllm#53797"
)
SPECULATORS_NAME_BY_TYPE = Behaviour(
    "SPECULATORS_NAME_BY_TYPE",
    "EAGLE 3 drafts in the speculators format are built by the class for their model type; before, by Llama's",
    since="0.24.0",
    where="transformers_utils/configs/speculators/algos.py",
)
SPECULATORS_MAY_BE_CAUSAL = Behaviour(
    "SPECULATORS_MAY_BE_CAUSAL",
    "DFlash drafts in the speculators format say with sliding_window_non_causal whether they attend in one direction",
    since="0.26.0",
    reference="vllm#47745",
    where="transformers_utils/configs/speculators/algos.py",
)
INKLING_MTP_ONE_TOKEN = Behaviour(
    "INKLING_MTP_ONE_TOKEN",
    "Inkling's MTP speculates one token at a time",
    since="0.26.0",
    until="0.27.1",
    reference="vllm#48869",
    where="config/speculative.py",
)
PARSE_MTP_ONE_TOKEN = Behaviour(
    "PARSE_MTP_ONE_TOKEN",
    "Nemotron Parse 3.5's MTP speculates one token at a time",
    since="0.33.0",
    where="config/speculative.py",
)
DSPARK_WIDTH_IS_BLOCK = Behaviour(
    "DSPARK_WIDTH_IS_BLOCK",
    "a DSpark draft speculates as many tokens as its block has unless told otherwise; before, its number of MTP "
    "layers had to divide the tokens, and the number had to be given where the config has none",
    since="0.31.0",
    where="config/speculative.py",
)
DSPARK_NEEDS_WHOLE_BLOCK = Behaviour(
    "DSPARK_NEEDS_WHOLE_BLOCK",
    "a DSpark draft refuses to speculate fewer tokens than its block has",
    since="0.26.0",
    until="0.27.1",
    reference="vllm#47419",
    where="config/speculative.py",
)
EXAONE_MTP_REFUSES_PREFIX_CACHING = Behaviour(
    "EXAONE_MTP_REFUSES_PREFIX_CACHING",
    "EXAONE-MoE's MTP asserts that prefix caching is off",
    until="0.19.1",
    where="model_executor/models/exaone_moe_mtp.py",
)
DRAFT_QUANTISED_BY_ITS_CONFIG = Behaviour(
    "DRAFT_QUANTISED_BY_ITS_CONFIG",
    "`quantization` in --speculative-config is refused for EAGLE and DFlash drafts whose own config has no "
    "quantisation section; later, such drafts are quantised on loading",
    until="0.28.0",
    where="model_executor/model_loader/weight_utils.py",
)
OVERRIDES_OF_DRAFT_HELD = Behaviour(
    "OVERRIDES_OF_DRAFT_HELD",
    "and the refusal has a text of its own",
    since="0.19.1",
    where="model_executor/model_loader/weight_utils.py",
)
DFLASH_HEADS_NEED_V2 = Behaviour(
    "DFLASH_HEADS_NEED_V2",
    "what the V1 runner lacks for DFlash 2 drafts is called by their heads",
    since="0.31.0",
    where="config/vllm.py",
)
STEP5_NEEDS_V2 = Behaviour(
    "STEP5_NEEDS_V2",
    "Step5 is refused on the V1 runner",
    since="0.33.0",
    where="config/vllm.py",
)
