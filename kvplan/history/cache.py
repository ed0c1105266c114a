"""History entries about cache dtypes, quant modes, skip lists and specs."""

from kvplan.releases import Behaviour

QUANT_MODE_EXISTS = Behaviour(
    "QUANT_MODE_EXISTS",
    "KV cache specs carry a quant mode",
    since="0.20.2",
    reference="vllm#38378",
    where="v1/kv_cache_interface.py",
)
SKIP_LIST_EXISTS = Behaviour(
    "SKIP_LIST_EXISTS",
    "--kv-cache-dtype-skip-layers exists, and Attention layers honour it",
    since="0.19.1",
    reference="vllm#33695",
    where="model_executor/layers/attention/attention.py",
)
MLA_HONOURS_SKIP_LIST = Behaviour(
    "MLA_HONOURS_SKIP_LIST",
    "MLA layers honour --kv-cache-dtype-skip-layers (indices only); before, they never looked at it",
    since="0.26.0",
    reference="vllm#47309",
    where="model_executor/layers/attention/mla_attention.py",
)
MLA_SPEC_CARRIES_QUANT_MODE = Behaviour(
    "MLA_SPEC_CARRIES_QUANT_MODE",
    "the spec of an MLA layer carries the layer's own quant mode and cache dtype; before, the quant mode stayed NONE",
    since="0.26.0",
    reference="vllm#48379",
    where="model_executor/layers/attention/mla_attention.py",
)
FP8_DS_MLA_BY_CONFIG_HOOK = Behaviour(
    "FP8_DS_MLA_BY_CONFIG_HOOK",
    "a hook of the DeepseekV32ForCausalLM architecture turns every fp8* cache dtype into fp8_ds_mla, whatever the "
    "backend",
    until="0.17.1",
    where="model_executor/models/config.py",
)
FP8_DS_MLA_BY_BACKEND = Behaviour(
    "FP8_DS_MLA_BY_BACKEND",
    "an MLA layer on FLASHMLA_SPARSE turns a quantised cache dtype into fp8_ds_mla, for itself and for the launch",
    since="0.18.1",
    where="model_executor/layers/attention/mla_attention.py",
)
SM120_SPARSE_MLA_ALWAYS_PACKED = Behaviour(
    "SM120_SPARSE_MLA_ALWAYS_PACKED",
    "an MLA layer on FLASHINFER_MLA_SPARSE_SM120 stores fp8_ds_mla even when the cache dtype is auto",
    since="0.24.0",
    reference="vllm#43477",
    where="model_executor/layers/attention/mla_attention.py",
)
COMPRESSED_TENSORS_OVERRIDES_FLAG = Behaviour(
    "COMPRESSED_TENSORS_OVERRIDES_FLAG",
    "the kv_cache_scheme of a compressed-tensors checkpoint sets the cache dtype to fp8 over any --kv-cache-dtype; "
    "since 0.22.1 only where the flag is auto",
    until="0.21.0",
    reference="vllm#42782",
    where="model_executor/layers/attention/attention.py",
)
DSA_AUTO_IS_FP8_ON_SM100 = Behaviour(
    "DSA_AUTO_IS_FP8_ON_SM100",
    "GlmMoeDsaForCausalLM turns an `auto` cache dtype into fp8_e4m3 on GPUs of compute capability 10.x",
    since="0.32.0",
    where="model_executor/models/config.py",
)
GLM5_NEXT_AUTO_IS_FP8_ON_SM100 = Behaviour(
    "GLM5_NEXT_AUTO_IS_FP8_ON_SM100",
    "GLM-5.3 Flash turns an `auto` cache dtype into fp8 on GPUs of compute capability 10.x",
    since="0.33.0",
    where="model_executor/models/config.py",
)
EXPLICIT_DTYPE_MUST_MATCH_MODEL = Behaviour(
    "EXPLICIT_DTYPE_MUST_MATCH_MODEL",
    "an explicit float16 or bfloat16 cache dtype that differs from the model's dtype is refused",
    since="0.33.0",
    where="config/vllm.py",
)
MODELOPT_NVFP4_CACHE = Behaviour(
    "MODELOPT_NVFP4_CACHE",
    "a ModelOpt checkpoint may declare an NVFP4 cache, which `auto` resolves to",
    since="0.20.2",
    reference="vllm#40177",
    where="utils/torch_utils.py",
)
E5M2_ALLOWED_WITHOUT_KV_SCHEME = Behaviour(
    "E5M2_ALLOWED_WITHOUT_KV_SCHEME",
    "fp8_e5m2 is accepted on compressed-tensors checkpoints that declare no kv_cache_scheme",
    since="0.24.0",
    reference="vllm#45040",
    where="model_executor/layers/attention/attention.py",
)
SLIDING_SPEC_COUNTS_VALUE_HEAD = Behaviour(
    "SLIDING_SPEC_COUNTS_VALUE_HEAD",
    "the page of a sliding-window layer counts the value head size; before, twice the key head size",
    since="0.20.2",
    reference="vllm#40045",
    where="v1/kv_cache_interface.py",
)
MLA_SPEC_HAS_NO_VALUE_HEAD = Behaviour(
    "MLA_SPEC_HAS_NO_VALUE_HEAD",
    "an MLA spec reports head_size_v 0; before, the head size again",
    since="0.28.0",
    where="v1/kv_cache_interface.py",
)
EVERY_SPEC_HAS_VALUE_HEAD = Behaviour(
    "EVERY_SPEC_HAS_VALUE_HEAD",
    "chunked and cross-attention specs report a value head size too",
    since="0.28.0",
    where="v1/kv_cache_interface.py",
)
VIEW_FOLLOWS_QUANT_MODE = Behaviour(
    "VIEW_FOLLOWS_QUANT_MODE",
    "the shape of the cache view is asked for with the layer's cache dtype only if its spec has a quant mode, else "
    "with `auto`; before, always with the launch-wide cache dtype",
    since="0.25.1",
    until="0.28.0",
    reference="vllm#42890",
    where="v1/worker/gpu_model_runner.py",
)
VIEW_DERIVED_FROM_SPEC = Behaviour(
    "VIEW_DERIVED_FROM_SPEC",
    "the cache view is derived from the spec itself, so that allocation and view cannot disagree",
    since="0.29.0",
    reference="vllm#51718",
    where="v1/kv_cache_interface.py",
)
V2_VIEW_IGNORES_DTYPE = Behaviour(
    "V2_VIEW_IGNORES_DTYPE",
    "the V2 model runner asks for the cache view without any cache dtype",
    until="0.18.1",
    where="v1/worker/gpu/attn_utils.py",
)
