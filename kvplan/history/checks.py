"""History entries about what vLLM refuses while it builds the engine config and the layers."""

from kvplan.releases import Behaviour

SIZES_BOUNDED_BY_FIELD = Behaviour(
    "SIZES_BOUNDED_BY_FIELD",
    "--block-size, --max-model-len and the parallel sizes must be at least 1, refused by the config classes themselves",
    since="0.23.0",
    where="config/parallel.py",
)
GPT_OSS_MXFP4_METHOD = Behaviour(
    "GPT_OSS_MXFP4_METHOD",
    "gpt-oss checkpoints resolve to the quantisation method gpt_oss_mxfp4; before, to mxfp4",
    since="0.20.2",
    reference="vllm#39604",
    where="model_executor/layers/quantization/mxfp4.py",
)
DEEPSEEK_V4_FP8_METHOD = Behaviour(
    "DEEPSEEK_V4_FP8_METHOD",
    "fp8 checkpoints of DeepSeek-V4 resolve to the quantisation method deepseek_v4_fp8",
    since="0.22.1",
    where="models/deepseek_v4/quant_config.py",
)
DEEPSEEK_V41_FP8_METHOD = Behaviour(
    "DEEPSEEK_V41_FP8_METHOD",
    "fp8 checkpoints of DeepSeek-V4.1 do so too",
    since="0.30.0",
    reference="vllm#56214",
    where="models/deepseek_v41/quant_config.py",
)
MODELOPT_MIXED_METHOD = Behaviour(
    "MODELOPT_MIXED_METHOD",
    "ModelOpt checkpoints of mixed precision resolve to the quantisation method modelopt_mixed",
    since="0.17.1",
    reference="vllm#35047",
    where="model_executor/layers/quantization/modelopt.py",
)
MODELOPT_ALGO_UNDER_ANY_NAME = Behaviour(
    "MODELOPT_ALGO_UNDER_ANY_NAME",
    "the algorithm of a ModelOpt checkpoint decides its method for every quant_method that begins with modelopt; "
    "before, only for `modelopt` itself",
    since="0.17.1",
    where="model_executor/layers/quantization/modelopt.py",
)
GPTQ_IN_ONE_METHOD = Behaviour(
    "GPTQ_IN_ONE_METHOD",
    "GPTQ checkpoints resolve to auto_gptq; before, to gptq_marlin where Marlin kernels take them, else to gptq",
    since="0.22.1",
    reference="vllm#38288",
    where="model_executor/layers/quantization/auto_gptq.py",
)
AWQ_IN_ONE_METHOD = Behaviour(
    "AWQ_IN_ONE_METHOD",
    "AWQ checkpoints resolve to auto_awq; before, to awq_marlin where Marlin kernels take them, else to awq",
    since="0.24.0",
    where="model_executor/layers/quantization/auto_awq.py",
)
HUMMING_METHOD = Behaviour(
    "HUMMING_METHOD",
    "--quantization humming takes any quantised checkpoint",
    since="0.20.2",
    reference="vllm#34556",
    where="model_executor/layers/quantization/humming.py",
)
MODELOPT_CACHE_METHOD_ON_MLA = Behaviour(
    "MODELOPT_CACHE_METHOD_ON_MLA",
    "ModelOpt checkpoints bring a KV cache method to MLA layers too, which refuses fp8_e5m2 there",
    since="0.17.1",
    where="model_executor/layers/quantization/modelopt.py",
)
TRITON_CHECKS_CACHE_DTYPE = Behaviour(
    "TRITON_CHECKS_CACHE_DTYPE",
    "the Triton attention backend refuses fp8 caches below compute capability 8.9 and bfloat16 caches below 8.0 when "
    "a layer is built",
    since="0.24.0",
    reference="vllm#43914",
    where="v1/attention/backends/triton_attn.py",
)
TRITON_MLA_CHECKS_CACHE_DTYPE = Behaviour(
    "TRITON_MLA_CHECKS_CACHE_DTYPE",
    "the Triton MLA backend refuses fp8 caches below compute capability 8.9 and bfloat16 caches below 8.0 when a "
    "layer is built",
    since="0.26.0",
    reference="vllm#47060",
    where="v1/attention/backends/mla/triton_mla.py",
)
TRITON_MLA_HAS_NO_FP8 = Behaviour(
    "TRITON_MLA_HAS_NO_FP8",
    "the Triton MLA backend refuses every fp8 cache when a layer is built",
    until="0.17.1",
    reference="vllm#34597",
    where="v1/attention/backends/mla/triton_mla.py",
)
FLASH_ATTN_ASKS_FOR_FA3 = Behaviour(
    "FLASH_ATTN_ASKS_FOR_FA3",
    "a FLASH_ATTN layer with a quantised cache needs FlashAttention 3 on compute capability 9.x",
    until="0.21.0",
    where="v1/attention/backends/flash_attn.py",
)
FLASH_ATTN_ASKS_WITH_SHAPE = Behaviour(
    "FLASH_ATTN_ASKS_WITH_SHAPE",
    "a FLASH_ATTN layer checks its quantised cache against the FlashAttention version for its own head size",
    since="0.27.1",
    reference="vllm#42569",
    where="v1/attention/backends/flash_attn.py",
)
TRITON_DIFFKV_TAKES_FP8 = Behaviour(
    "TRITON_DIFFKV_TAKES_FP8",
    "TRITON_ATTN_DIFFKV keeps an fp8 cache; before, no quantised one",
    since="0.32.0",
    where="v1/attention/backends/triton_attn_diffkv.py",
)
SWAP_SPACE_CHECKED = Behaviour(
    "SWAP_SPACE_CHECKED",
    "--swap-space times the tensor-parallel size must stay below 70 % of the host's memory",
    until="0.17.1",
    reference="vllm#36216",
    where="config/cache.py",
)
FP8_MOE_BLOCKS_ARE_REFINED = Behaviour(
    "FP8_MOE_BLOCKS_ARE_REFINED",
    "expert weights of block-quantised fp8 checkpoints are re-cut into blocks of 64 or 32 where tensor parallelism "
    "leaves a rank with part of a block",
    since="0.29.0",
    where="model_executor/layers/quantization/fp8.py",
)
QUANTIZE_FP8_IS_ONLINE = Behaviour(
    "QUANTIZE_FP8_IS_ONLINE",
    "--quantization fp8 on an unquantised checkpoint is the online method, which brings no KV cache method; before, "
    "it brought the one of fp8 checkpoints",
    since="0.31.0",
    where="model_executor/model_loader/weight_utils.py",
)
RAY_EXECUTOR_V2_EXISTS = Behaviour(
    "RAY_EXECUTOR_V2_EXISTS",
    "there is a Ray executor that schedules asynchronously, behind VLLM_USE_RAY_V2_EXECUTOR_BACKEND",
    since="0.20.2",
    reference="vllm#36836",
    where="v1/executor/abstract.py",
)
RAY_EXECUTOR_V2_IS_DEFAULT = Behaviour(
    "RAY_EXECUTOR_V2_IS_DEFAULT",
    "the Ray executor that schedules asynchronously is the default",
    since="0.21.0",
    where="envs.py",
)
RAY_EXECUTOR_V2_IS_THE_ONLY = Behaviour(
    "RAY_EXECUTOR_V2_IS_THE_ONLY",
    "the Ray executor that schedules asynchronously is the only one",
    since="0.33.0",
    where="v1/executor/abstract.py",
)
EXECUTORS_SAY_WHETHER_ASYNC = Behaviour(
    "EXECUTORS_SAY_WHETHER_ASYNC",
    "executor classes say themselves whether they schedule asynchronously; before, the config had a list",
    since="0.19.1",
    reference="vllm#36924",
    where="config/vllm.py",
)
MLA_SELECTS_BEFORE_SCALES = Behaviour(
    "MLA_SELECTS_BEFORE_SCALES",
    "an MLA layer chooses its backend before it looks at the checkpoint's KV cache method",
    since="0.18.1",
    where="model_executor/layers/attention/mla_attention.py",
)
AUTO_IS_A_BACKEND_NAME = Behaviour(
    "AUTO_IS_A_BACKEND_NAME",
    "--attention-backend auto leaves the choice to vLLM; before, it is an unknown backend",
    since="0.18.1",
    reference="vllm#35738",
    where="config/attention.py",
)
MARLIN_PADS_TILES = Behaviour(
    "MARLIN_PADS_TILES",
    "Marlin's kernels for integer weights pad shapes that do not fill their tiles (64 columns, 128 rows)",
    since="0.24.0",
    reference="vllm#45295",
    where="model_executor/kernels/linear/mixed_precision/marlin.py",
)
HUMMING_TAKES_INTEGERS = Behaviour(
    "HUMMING_TAKES_INTEGERS",
    "Humming's kernels take integer weights of any shape",
    since="0.23.0",
    reference="vllm#41652",
    where="model_executor/kernels/linear/__init__.py",
)
GROUP_SPLIT_HAS_TEXT = Behaviour(
    "GROUP_SPLIT_HAS_TEXT",
    "groups of weights that tensor parallelism cuts are a ValueError that names the layer; before, an assertion",
    since="0.25.1",
    reference="vllm#46236",
    where="distributed/utils.py",
)
EXPERT_GROUPS_ARE_WHOLE = Behaviour(
    "EXPERT_GROUPS_ARE_WHOLE",
    "packed integer experts of compressed-tensors must keep whole groups on every rank",
    since="0.24.0",
    where="model_executor/layers/quantization/compressed_tensors/compressed_tensors_moe",
)
ACTIVATION_ORDER_REMOVED = Behaviour(
    "ACTIVATION_ORDER_REMOVED",
    "checkpoints whose groups are ordered by activations (GPTQ: desc_act, compressed-tensors: actorder) are refused",
    since="0.30.0",
    reference="vllm#54809",
    where="model_executor/layers/quantization/utils/gptq_utils.py",
)
OCP_MX_GROUPS_ARE_WHOLE = Behaviour(
    "OCP_MX_GROUPS_ARE_WHOLE",
    "Quark's OCP MX weights must keep whole groups of 32 rows on every rank",
    since="0.29.0",
    where="model_executor/layers/quantization/quark/schemes/quark_ocp_mx.py",
)
MARLIN_PADS_EXPERTS = Behaviour(
    "MARLIN_PADS_EXPERTS",
    "Marlin's kernels for integer experts pad intermediate sizes that do not fill their tiles (64 rows)",
    since="0.25.1",
    reference="vllm#45703",
    where="model_executor/layers/quantization/utils/marlin_utils.py",
)
UNQUANTIZED_EXPERTS_ASK_KERNELS = Behaviour(
    "UNQUANTIZED_EXPERTS_ASK_KERNELS",
    "--moe-backend for unquantised experts is held against what the kernels say of themselves; before, against the "
    "GPU and the parallel layout",
    since="0.20.2",
    where="model_executor/layers/fused_moe/oracle/unquantized.py",
)
EXPERT_BALANCE_CHECKED_FOR_ALL = Behaviour(
    "EXPERT_BALANCE_CHECKED_FOR_ALL",
    "--enable-eplb is held against the quantisation method of all routed experts; before, only in model classes that "
    "hand it on",
    since="0.24.0",
    where="model_executor/layers/fused_moe/routed_experts.py",
)
EXPERTS_NAME_THEIR_PROJECTIONS = Behaviour(
    "EXPERTS_NAME_THEIR_PROJECTIONS",
    "a compressed-tensors section is looked up for the projections that a model's experts really have; before, for "
    "gate, up and down whatever the model",
    since="0.32.0",
    where="model_executor/layers/quantization/compressed_tensors/compressed_tensors_moe",
)
MXFP8_CHECKPOINTS = Behaviour(
    "MXFP8_CHECKPOINTS",
    "a checkpoint with quant_method mxfp8 is read like ModelOpt's MXFP8 ones",
    since="0.24.0",
    where="model_executor/layers/quantization/__init__.py",
)
MXFP8_SPEAKS_OF_SIZES = Behaviour(
    "MXFP8_SPEAKS_OF_SIZES",
    "what MXFP8 weights complain about is called their input size; before, their input dimension",
    since="0.30.0",
    where="model_executor/layers/quantization/modelopt.py",
)
KIMI_K3_MXFP4_METHOD = Behaviour(
    "KIMI_K3_MXFP4_METHOD",
    "compressed-tensors checkpoints of Kimi-K3 in the format mxfp4-pack-quantized resolve to the quantisation method "
    "mxfp4",
    since="0.27.1",
    where="model_executor/models/config.py",
)
FLASHINFER_EXPERTS_BY_ENVIRONMENT = Behaviour(
    "FLASHINFER_EXPERTS_BY_ENVIRONMENT",
    "VLLM_USE_FLASHINFER_MOE_FP8, _FP4 and _FP16 want FlashInfer's kernels for routed experts",
    until="0.23.0",
    where="model_executor/layers/fused_moe/oracle/fp8.py",
)
AITER_EXPERTS_ARE_A_MUST = Behaviour(
    "AITER_EXPERTS_ARE_A_MUST",
    "VLLM_ROCM_USE_AITER stops start-up where AITER's kernels cannot run unquantised experts; later, others take over",
    since="0.20.2",
    until="0.30.0",
    where="model_executor/layers/fused_moe/oracle/unquantized.py",
)
EXPERT_CLAMPS_CHECKED = Behaviour(
    "EXPERT_CLAMPS_CHECKED",
    "--moe-backend for NVFP4 experts of a model with a swiglu_limit must be one that applies it",
    since="0.22.1",
    where="model_executor/layers/fused_moe/oracle/nvfp4.py",
)
EXPERT_SHARES_ARE_TOLD = Behaviour(
    "EXPERT_SHARES_ARE_TOLD",
    "experts that --enable-eplb cannot spread evenly are a ValueError with both numbers; before, an assertion",
    since="0.22.1",
    where="model_executor/layers/fused_moe/layer.py",
)
BATCH_INVARIANT_AWQ_KEEPS_ITS_METHOD = Behaviour(
    "BATCH_INVARIANT_AWQ_KEEPS_ITS_METHOD",
    "with VLLM_BATCH_INVARIANT an AWQ checkpoint keeps the method awq, which computes in float16 only; later one "
    "method holds all kernels",
    since="0.20.2",
    until="0.23.0",
    where="model_executor/layers/quantization/awq_marlin.py",
)
LORA_ASKED_WITH_CONFIG = Behaviour(
    "LORA_ASKED_WITH_CONFIG",
    "--enable-lora is refused with the engine config for classes without SupportsLoRA, and for megakernels of experts; "
    "before, by the worker once the weights are loaded",
    since="0.33.0",
    where="config/lora.py",
)
INKLING_ADAPTERS_NEED_PLAIN_REDUCE = Behaviour(
    "INKLING_ADAPTERS_NEED_PLAIN_REDUCE",
    "Inkling refuses --enable-lora unless INKLING_MULTIMEM_AR=0",
    since="0.26.0",
    where="config/lora.py",
)
PRODUCERS_ENCODE_ONLY = Behaviour(
    "PRODUCERS_ENCODE_ONLY",
    "an EC producer only runs the encoder of a multimodal model, without prefix caching; so does --mm-encoder-only",
    since="0.29.0",
    where="config/vllm.py",
)
ROUTED_EXPERTS_NOT_VALIDATED = Behaviour(
    "ROUTED_EXPERTS_NOT_VALIDATED",
    "--enable-return-routed-experts is refused with pipeline and context parallelism and async scheduling, all told "
    "at once",
    since="0.21.0",
    until="0.21.0",
    where="config/vllm.py",
)
ROUTED_EXPERTS_BESIDE_FEW = Behaviour(
    "ROUTED_EXPERTS_BESIDE_FEW",
    "--enable-return-routed-experts is refused with pipeline parallelism and KV connectors",
    since="0.22.1",
    until="0.30.0",
    where="config/vllm.py",
)
ROUTED_EXPERTS_EXCLUDE_CONTEXT_RANKS = Behaviour(
    "ROUTED_EXPERTS_EXCLUDE_CONTEXT_RANKS",
    "and with context parallelism",
    since="0.28.0",
    until="0.30.0",
    where="config/vllm.py",
)
ROUTED_EXPERTS_ARE_AUXILIARY = Behaviour(
    "ROUTED_EXPERTS_ARE_AUXILIARY",
    "--enable-return-routed-experts goes through the AuxOutput connector, which asks for experts, generation, prefix "
    "caching and the V2 runner",
    since="0.31.0",
    where="config/vllm.py",
)
SAMPLING_MASK_EXCLUDES_DRAFTS = Behaviour(
    "SAMPLING_MASK_EXCLUDES_DRAFTS",
    "--return-sampling-mask is refused with speculative decoding; later, with adaptive verification only",
    since="0.28.0",
    until="0.31.0",
    where="config/vllm.py",
)
STOCHASTIC_ROUNDING = Behaviour(
    "STOCHASTIC_ROUNDING",
    "--enable-mamba-cache-stochastic-rounding asks for --mamba-ssm-cache-dtype float16, whatever the model",
    since="0.20.2",
    where="config/vllm.py",
)
MAMBA_BACKEND_ON_CPU = Behaviour(
    "MAMBA_BACKEND_ON_CPU",
    "--mamba-backend knows `cpu`",
    since="0.27.1",
    where="config/mamba.py",
)
MICROBATCHES_HAVE_TOKENS = Behaviour(
    "MICROBATCHES_HAVE_TOKENS",
    "the thresholds of --enable-dbo have to be as many tokens as there are microbatches",
    since="0.30.0",
    where="config/parallel.py",
)
ROPE_SETS_WITH_COMMON_ENTRIES = Behaviour(
    "ROPE_SETS_WITH_COMMON_ENTRIES",
    "rope parameters with sets for layer types may have entries for all layers beside them",
    since="0.21.0",
    where="transformers_utils/config.py",
)
FUSED_REDUCTION = Behaviour(
    "FUSED_REDUCTION",
    "on Blackwell Kimi K3 adds up what tensor parallel ranks computed in a kernel for batches of 128 tokens or more",
    since="0.29.0",
    where="models/kimi_k3/nvidia/model.py",
)
