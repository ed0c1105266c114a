"""What vLLM ties to the name of a model type or class instead of to a field of its config."""

from __future__ import annotations

from kvplan.releases import ALWAYS, Span

NO_FLOAT16 = frozenset({"gemma2", "gemma3", "gemma3_text", "plamo2", "glm4"})
"""Model types that vLLM keeps from running in float16 (numerical instability). Source: `config/model.py`."""

LENGTH_INCLUDES_SCALING = ("gemma3",)
"""Parts of model types whose context length is already the scaled one. Source: `config/model.py`."""

OLDEST_WITH_STATES_AND_DRAFT = frozenset({"qwen3_next"})
"""Model types with states that could speculate before all could. Source: `v1/worker/gpu_model_runner.py`."""

MXFP4_OF_ITS_OWN = frozenset({"gpt_oss"})
"""Model types whose MXFP4 checkpoints have a method of their own. Source: `quantization/mxfp4.py`."""

MXFP4_IN_COMPRESSED_TENSORS = frozenset({"kimi_k3"})
"""Model types whose MXFP4 checkpoints are compressed-tensors ones that vLLM reads as plain MXFP4. Source:
`model_executor/models/config.py`."""

VISION_CLASSES: dict[str, str] = {
    "mimo_v2": "MiMoV2OmniForCausalLM",
    "mimo_v2_flash": "MiMoV2OmniForCausalLM",
}
"""Model types that another class builds where the config has a vision tower. Source: `config/model.py`."""

CHUNK_SIZE_IGNORED = frozenset({"mimo_v2", "mimo_v2_flash"})
"""Model types whose config has a chunk size that their class does not use (history entry MIMO_V2_DROPS_CHUNK_SIZE).
Source: `transformers_utils/model_arch_config_convertor.py`."""

DEEPSEEK_V4 = frozenset({"deepseek_v4"})
DEEPSEEK_V41 = frozenset({"deepseek_v4_text", "deepseek_v41", "deepseek_v41_text"})
"""Model types whose FP8 checkpoints have a method of their own. Source: `quantization/fp8.py`."""

HEADS_SHARE_WIDTH: dict[str, Span] = {
    **dict.fromkeys(
        (
            "arctic",
            "baichuan",
            "bloom",
            "chameleon",
            "chatglm",
            "falcon",
            "gpt2",
            "gpt_bigcode",
            "gpt_j",
            "granitemoe",
            "granitemoeshared",
            "grok1",
            "internlm2",
            "iquest_loopcoder",
            "jais",
            "mimo",
            "minicpm",
            "molmo",
            "olmo",
            "olmo2",
            "olmoe",
            "opt",
            "orion",
            "persimmon",
            "qwen",
            "qwen2",
            "qwen2_moe",
            "qwen2_rm",
            "stablelm",
            "starcoder2",
            "step1",
        ),
        ALWAYS,
    ),
    "commandr": Span(until="0.28.0"),
    "gpt_neox": Span(until="0.31.0"),
    "ouro": Span(until="0.26.0"),
    "phi": Span(until="0.31.0"),
}
"""Modules whose heads share the hidden size among them, whatever `head_dim` in the config says.
Source: `model_executor/models`."""

GATES_ATTENTION = frozenset(
    {
        "Qwen3NextForCausalLM",
        "Qwen3_5ForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5MoeForConditionalGeneration",
    }
)
"""Classes whose query projection also makes the gates of attention's output."""

FEED_FORWARD: dict[str, str] = {
    "DeepseekV2ForCausalLM": "shared_experts",
    "DeepseekV32ForCausalLM": "shared_experts",
    "DeepseekV3ForCausalLM": "shared_experts",
    "Exaone4ForCausalLM": "dense",
    "Gemma2ForCausalLM": "dense",
    "Gemma3ForCausalLM": "dense",
    "Gemma3ForConditionalGeneration": "dense",
    "Gemma4ForCausalLM": "dense_and_experts",
    "Gemma4ForConditionalGeneration": "dense_and_experts",
    "Glm4ForCausalLM": "dense",
    "Glm4MoeForCausalLM": "shared_experts",
    "GlmMoeDsaForCausalLM": "shared_experts",
    "GptOssForCausalLM": "open_experts",
    "GraniteForCausalLM": "dense",
    "GraniteMoeForCausalLM": "block_experts",
    "LlamaForCausalLM": "dense",
    "MiniMaxM2ForCausalLM": "block_experts",
    "MistralForCausalLM": "dense",
    "MixtralForCausalLM": "block_experts",
    "NemotronHForCausalLM": "mixer_experts",
    "Olmo2ForCausalLM": "dense",
    "OlmoeForCausalLM": "open_experts",
    "Phi3ForCausalLM": "dense",
    "PhiMoEForCausalLM": "block_experts",
    "Qwen2_5_VLForConditionalGeneration": "dense",
    "Qwen2ForCausalLM": "dense",
    "Qwen2MoeForCausalLM": "sparse_steps",
    "Qwen2VLForConditionalGeneration": "dense",
    "Qwen3ForCausalLM": "dense",
    "Qwen3MoeForCausalLM": "sparse_steps",
    "Qwen3NextForCausalLM": "sparse_steps",
    "Qwen3VLForConditionalGeneration": "dense",
    "Qwen3VLMoeForConditionalGeneration": "sparse_steps",
    "Qwen3_5ForCausalLM": "dense",
    "Qwen3_5ForConditionalGeneration": "dense",
    "Qwen3_5MoeForCausalLM": "sparse_steps",
    "Qwen3_5MoeForConditionalGeneration": "sparse_steps",
    "SeedOssForCausalLM": "dense",
    "Step3p5ForCausalLM": "listed_experts",
}
"""How the feed-forward layers of a class are built, where the shapes of their weights are followed.

`dense` MLPs; `dense_and_experts`: Gemma 4's, both in every layer where there are experts; `listed_experts`: Step 3.5's,
where the config lists a layer; `shared_experts`: DeepSeek's, dense up to `first_k_dense_replace`; `sparse_steps`:
Qwen's, routed at every `decoder_sparse_step`; `mixer_experts`: Nemotron-H's, layers of their own; `block_experts` and
`open_experts`: MiniMax's, Mixtral's and gpt-oss', routed throughout.
"""
