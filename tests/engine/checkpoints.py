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


def step5(**fields: Any) -> Checkpoint:
    """Eight layers of Step 5, every fourth one selecting regions."""
    base = {
        "num_hidden_layers": 8,
        "num_attention_heads": 64,
        "num_attention_groups": 8,
        "num_key_value_heads": 8,
        "head_dim": 192,
        "hidden_size": 6144,
        "sliding_window": 512,
        "layer_types": ["sliding_attention" if index % 4 else "full_attention" for index in range(8)],
        "use_head_wise_attn_gate": True,
        "max_position_embeddings": 131072,
        "sparse_config": {"enabled": True},
    }
    return model("Step5ForCausalLM", "step5", **{**base, **fields})


def dots3_note(**fields: Any) -> Checkpoint:
    """Eight layers of Dots3-Note, every fourth one indexed."""
    base = {
        "num_hidden_layers": 8,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "hidden_size": 4096,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "swa_kv_lora_rank": 1024,
        "swa_qk_rope_head_dim": 64,
        "swa_num_attention_heads": 64,
        "index_topk": 2048,
        "index_head_dim": 128,
        "sliding_window_size": 512,
        "layer_types": (["full_attention"] + ["sliding_attention"] * 3) * 2,
        "max_position_embeddings": 131072,
    }
    return model("Dots3NoteForCausalLM", "dots3_note", **{**base, **fields})


def inkling(**fields: Any) -> Checkpoint:
    """Six layers, five of them local."""
    base = {
        "num_hidden_layers": 6,
        "num_attention_heads": 48,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "hidden_size": 4608,
        "local_layer_ids": [0, 1, 2, 3, 4],
        "sliding_window_size": 1024,
        "sconv_kernel_size": 4,
        "max_position_embeddings": 131072,
    }
    return model("InklingForCausalLM", "inkling_model", **{**base, **fields})
