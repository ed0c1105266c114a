"""History entries about packed cache layouts and quantised checkpoints."""

from kvplan.releases import Behaviour

PAGE_FORMULA_IN_SPEC = Behaviour(
    "PAGE_FORMULA_IN_SPEC",
    "the spec classes compute the bytes of packed layouts, each with its own formula; since 0.28 the layer's backend "
    "writes its layout into the spec",
    until="0.27.1",
    reference="vllm#51704",
    where="v1/kv_cache_interface.py",
)
NVFP4_FORMULA_IN_EVERY_SPEC = Behaviour(
    "NVFP4_FORMULA_IN_EVERY_SPEC",
    "sliding-window and chunked specs count an NVFP4 cache as packed; before, as one byte a value",
    since="0.21.0",
    reference="vllm#42464",
    where="v1/kv_cache_interface.py",
)
TURBOQUANT_MODE = Behaviour(
    "TURBOQUANT_MODE",
    "TurboQuant layers have a quant mode; before, theirs is NONE",
    since="0.27.1",
    where="v1/kv_cache_interface.py",
)
TURBOQUANT_MODE_BY_PRESET = Behaviour(
    "TURBOQUANT_MODE_BY_PRESET",
    "every TurboQuant preset has a quant mode of its own; before, one mode stands for all",
    since="0.28.0",
    where="v1/kv_cache_interface.py",
)
TURBOQUANT_VIEW_BY_CLASS = Behaviour(
    "TURBOQUANT_VIEW_BY_CLASS",
    "the V2 model runner tells the backend the cache dtype of TurboQuant layers although their quant mode is NONE; "
    "the V1 runner does not, and the backend refuses `auto`",
    since="0.25.1",
    until="0.26.0",
    reference="vllm#50709",
    where="v1/worker/gpu/attn_utils.py",
)
TURBOQUANT_REFUSES_HYBRIDS = Behaviour(
    "TURBOQUANT_REFUSES_HYBRIDS",
    "TurboQuant is refused for models with state layers",
    until="0.20.2",
    reference="vllm#39931",
    where="engine/arg_utils.py",
)
TURBOQUANT_SORTS_BY_NUMBER = Behaviour(
    "TURBOQUANT_SORTS_BY_NUMBER",
    "with TurboQuant the skip list is sorted as numbers, so that any other token ends start-up with a ValueError",
    until="0.31.0",
    where="engine/arg_utils.py",
)
NVFP4_REFUSED_WITH_MLA = Behaviour(
    "NVFP4_REFUSED_WITH_MLA",
    "an NVFP4 cache is refused for MLA models while the config is checked",
    since="0.21.0",
    where="config/vllm.py",
)
MODELOPT_SECTION_WITHOUT_PRODUCER = Behaviour(
    "MODELOPT_SECTION_WITHOUT_PRODUCER",
    "a ModelOpt section that does not name its producer is recognised by its `modelopt_quant_config`; before, it "
    "counts as none",
    since="0.26.0",
    where="transformers_utils/model_arch_config_convertor.py",
)
KV_SCHEME_MUST_BE_FP8 = Behaviour(
    "KV_SCHEME_MUST_BE_FP8",
    "a kv_cache_scheme is refused unless it has 8 bits and type float; before, only if it has neither",
    since="0.24.0",
    reference="vllm#45312",
    where="model_executor/layers/quantization/compressed_tensors/compressed_tensors.py",
)
KV_SCHEME_STRATEGY_IS_ENUM = Behaviour(
    "KV_SCHEME_STRATEGY_IS_ENUM",
    "a strategy that compressed-tensors does not know ends start-up with a ValueError; before, it is refused like any "
    "unsupported one",
    since="0.17.1",
    reference="vllm#34254",
    where="model_executor/layers/quantization/compressed_tensors/compressed_tensors.py",
)
