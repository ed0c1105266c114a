"""Small models made of fields, for tests about pages that no published config has."""

from __future__ import annotations

from typing import Any

from kvplan.checkpoint.values import Checkpoint, Source


def model(architecture: str, model_type: str, **fields: Any) -> Checkpoint:
    """A checkpoint of the fields given."""
    config = {"architectures": [architecture], "model_type": model_type, "dtype": "bfloat16", **fields}
    return Checkpoint(
        reference="model",
        name="model",
        source=Source.DIRECTORY,
        path="model/config.json",
        config_sha256="",
        config=config,
        text_config=config,
        architectures=(architecture,),
        model_type=model_type,
    )


def qwen4_exp(**fields: Any) -> Checkpoint:
    """Four layers of Qwen4-Exp, the last one indexed."""
    base = {
        "num_hidden_layers": 4,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "hidden_size": 2048,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        "indexer_n_heads": 8,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 128,
        "indexer_budget": 2048,
        "indexer_compress_ratio": 4,
        "hc_count": 4,
        "ple_conv_kernel_size": 4,
        "ngram_size": 3,
        "max_position_embeddings": 32768,
    }
    return model("Qwen4ExpForCausalLM", "qwen4_exp_text", **{**base, **fields})
