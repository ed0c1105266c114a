"""History entries about models: what model code and the model configuration of a release build."""

from kvplan.releases import Behaviour

MODEL_WINDOW_NEEDS_ALL_LAYERS_SLIDING = Behaviour(
    "MODEL_WINDOW_NEEDS_ALL_LAYERS_SLIDING",
    "the model-level window applies only if layer_types is absent or sliding throughout; before, any uniform list "
    "would do, full attention included",
    since="0.27.1",
    reference="vllm#49803",
    where="engine/arg_utils.py",
)
ZERO_WINDOW_IS_NONE = Behaviour(
    "ZERO_WINDOW_IS_NONE",
    "a sliding_window of 0 in the config means that there is none",
    since="0.19.1",
    where="config/model.py",
)
COHERE_WINDOW_PLUS_ONE = Behaviour(
    "COHERE_WINDOW_PLUS_ONE",
    "Cohere2 layers keep one token more than the config's sliding_window",
    since="0.29.0",
    where="model_executor/models/commandr.py",
)
INDEXER_ON_LEADERS_ONLY = Behaviour(
    "INDEXER_ON_LEADERS_ONLY",
    "layers that reuse an earlier layer's top-k own no indexer cache; before, each layer of a sparse MLA model did",
    since="0.24.0",
    reference="vllm#45895",
    where="model_executor/models/deepseek_v2.py",
)
SPARSE_MLA_HAS_OWN_CLASS = Behaviour(
    "SPARSE_MLA_HAS_OWN_CLASS",
    "DeepSeek-V3.2 and GLM-5 layers are DeepseekV32Attention instead of MLAAttention",
    since="0.29.0",
    where="models/deepseek_v32/attention.py",
)
MLA_NEEDS_CAUSAL = Behaviour(
    "MLA_NEEDS_CAUSAL",
    "a config with is_causal false takes the ordinary attention path instead of MLA",
    since="0.29.0",
    reference="vllm#52948",
    where="config/model.py",
)
GATED_ATTENTION_READS_CAUSAL = Behaviour(
    "GATED_ATTENTION_READS_CAUSAL",
    "the gated attention of Qwen3-Next and Qwen3.5 keeps nothing where the config says is_causal: false",
    since="0.24.0",
    where="model_executor/models/qwen3_next.py",
)
COLQWEN_DECLARES_DIRECTION = Behaviour(
    "COLQWEN_DECLARES_DIRECTION",
    "ColQwen3.5 checkpoints have to declare retrieval_attention_contract",
    since="0.27.1",
    where="model_executor/models/config.py",
)
BIDIRECTIONAL_LLAMA_NAMES_POOLING = Behaviour(
    "BIDIRECTIONAL_LLAMA_NAMES_POOLING",
    "a bidirectional Llama without a field 'pooling' is refused in words; before, the field was missed",
    since="0.29.0",
    where="model_executor/models/config.py",
)
TRANSFORMERS_BACKEND_USES_MLA = Behaviour(
    "TRANSFORMERS_BACKEND_USES_MLA",
    "models on the Transformers backend with a kv_lora_rank keep an MLA cache",
    since="0.28.0",
    reference="vllm#48250",
    where="model_executor/models/transformers/base.py",
)
TRANSFORMERS_BACKEND_READS_TEXT_CONFIG = Behaviour(
    "TRANSFORMERS_BACKEND_READS_TEXT_CONFIG",
    "the Transformers backend takes layer_types from the text config; before, from the top level only, so that "
    "multimodal models lost their windows",
    since="0.28.0",
    where="model_executor/models/transformers/base.py",
)
TRANSFORMERS_BACKEND_FULL_NAMES = Behaviour(
    "TRANSFORMERS_BACKEND_FULL_NAMES",
    "layers of the Transformers backend carry the module path (model.layers.0.self_attn.attn) instead of 0.attn",
    since="0.32.0",
    where="model_executor/models/transformers/base.py",
)
TRANSFORMERS_BACKEND_NEEDS_PLANS = Behaviour(
    "TRANSFORMERS_BACKEND_NEEDS_PLANS",
    "the Transformers backend refuses tensor or pipeline parallelism where the wrapped class has no plan for it",
    until="0.24.0",
    where="model_executor/models/transformers/base.py",
)
TRANSFORMERS_BACKEND_TAKES_SETTABLE_ATTENTION = Behaviour(
    "TRANSFORMERS_BACKEND_TAKES_SETTABLE_ATTENTION",
    "a Transformers class qualifies for the fallback also if only its attention implementation can be set",
    since="0.30.0",
    where="model_executor/models/registry.py",
)
TEXT_ARCHITECTURE_FROM_MODEL_TYPE = Behaviour(
    "TEXT_ARCHITECTURE_FROM_MODEL_TYPE",
    "a language model inside a multimodal one that names no architecture gets Transformers' causal class of its "
    "model_type",
    since="0.20.2",
    where="config/vllm.py",
)
PER_LAYER_ARCHITECTURE = Behaviour(
    "PER_LAYER_ARCHITECTURE",
    "model-level head size and KV heads of a model whose layers differ are the largest of any layer",
    since="0.28.0",
    reference="vllm#49797",
    where="transformers_utils/model_arch_config_convertor.py",
)
HEAD_DIM_ZERO_IS_ABSENT = Behaviour(
    "HEAD_DIM_ZERO_IS_ABSENT",
    "a head_dim of 0 counts as absent",
    since="0.25.1",
    reference="vllm#45219",
    where="transformers_utils/model_arch_config_convertor.py",
)
KV_HEADS_FROM_ATTENTION_GROUPS = Behaviour(
    "KV_HEADS_FROM_ATTENTION_GROUPS",
    "num_attention_groups is one of the names of the KV head count",
    since="0.20.2",
    reference="vllm#39796",
    where="transformers_utils/model_arch_config_convertor.py",
)
LONGCAT_COUNTS_DECODER_LAYERS = Behaviour(
    "LONGCAT_COUNTS_DECODER_LAYERS",
    "the layer count of LongCat-Flash is num_layers, not num_hidden_layers",
    since="0.32.0",
    where="transformers_utils/model_arch_config_convertor.py",
)
FULL_ATTENTION_HYBRID_IS_PLAIN = Behaviour(
    "FULL_ATTENTION_HYBRID_IS_PLAIN",
    "a hybrid architecture whose layer_types are all full_attention counts as not hybrid; before, only the word "
    "attention did",
    since="0.29.0",
    where="config/model.py",
)
GRANITE_LAYER_WINDOWS = Behaviour(
    "GRANITE_LAYER_WINDOWS",
    "Granite layers take window and sinks from layer_types",
    since="0.29.0",
    reference="vllm#52706",
    where="model_executor/models/granite.py",
)
EXAONE_MOE_LAYER_WINDOWS = Behaviour(
    "EXAONE_MOE_LAYER_WINDOWS",
    "EXAONE-MoE takes a list sliding_windows before layer_types",
    since="0.27.1",
    where="model_executor/models/exaone_moe.py",
)
MM_PREFIX_FROM_CONFIG = Behaviour(
    "MM_PREFIX_FROM_CONFIG",
    "a config's own is_mm_prefix_lm decides on bidirectional attention over image tokens",
    since="0.17.1",
    reference="vllm#34215",
    where="config/model.py",
)
MM_PREFIX_LOST_IN_WRAPPED_MODEL = Behaviour(
    "MM_PREFIX_LOST_IN_WRAPPED_MODEL",
    "the layers of a wrapped language model ask its own config, not the wrapper's, whether image tokens attend in both "
    "directions, and mostly find that they do not",
    since="0.20.2",
    until="0.24.0",
    where="config/model.py",
)
HY_V4_INDEXED_ATTENTION = Behaviour(
    "HY_V4_INDEXED_ATTENTION",
    "the layer type indexed_attention, which Transformers writes since 5.18, makes a HY-V4 layer sparse",
    since="0.32.0",
    where="models/hy_v4/nvidia/attention.py",
)
OUT_OF_TREE_PLUGINS = Behaviour(
    "OUT_OF_TREE_PLUGINS",
    "BART, mBART and Florence-2 are refused with the address of a plugin",
    since="0.19.1",
    where="model_executor/models/registry.py",
)
MIMO_V2_STORES_NARROW_VALUES = Behaviour(
    "MIMO_V2_STORES_NARROW_VALUES",
    "MiMo-V2 stores its values as narrow as they are, on a backend that it brings along; before, padded to the keys",
    since="0.20.2",
    reference="vllm#40045",
    where="model_executor/models/mimo_v2.py",
)
MIMO_V2_READS_CACHE_CONFIG = Behaviour(
    "MIMO_V2_READS_CACHE_CONFIG",
    "MiMo-V2 hands the cache config to its layers; before, cache dtype and skip list do not reach them",
    since="0.32.0",
    where="model_executor/models/mimo_v2.py",
)
COHERE_ASR_NAMES_WITHOUT_DOT = Behaviour(
    "COHERE_ASR_NAMES_WITHOUT_DOT",
    "the decoder layers of Cohere Transcribe are named decoder.layers.N instead of .decoder.layers.N",
    since="0.22.1",
    where="model_executor/models/cohere_asr.py",
)
JINA_V5_MAY_BE_AN_ENCODER = Behaviour(
    "JINA_V5_MAY_BE_AN_ENCODER",
    "Jina Embeddings V5 with is_decoder false attends in both directions and keeps no cache",
    since="0.27.1",
    reference="vllm#50688",
    where="model_executor/models/config.py",
)
PARTS_ARE_VERIFIED = Behaviour(
    "PARTS_ARE_VERIFIED",
    "the config that a multimodal model hands to its language model is verified like a model's own: with pipeline "
    "parallelism it must name an architecture",
    until="0.30.0",
    where="config/vllm.py",
)
UNNAMED_PART_IS_NONE = Behaviour(
    "UNNAMED_PART_IS_NONE",
    "a language model's section that names no architecture fails where its names are gone through",
    until="0.19.1",
    where="model_executor/model_loader/utils.py",
)
MIMO_V2_DROPS_CHUNK_SIZE = Behaviour(
    "MIMO_V2_DROPS_CHUNK_SIZE",
    "the attention_chunk_size in MiMo-V2's config, which its class does not use, no longer counts as attention within "
    "chunks, with which the hybrid cache manager would be switched off for drafts",
    since="0.21.0",
    where="transformers_utils/model_arch_config_convertor.py",
)
