"""What the rules say about packed caches and quantised checkpoints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvplan.engine.values import Plan
from kvplan.rules import Finding, run

LLAMA, GEMMA, LATENT = "meta-llama/Llama-3.1-8B", "google/gemma-2-9b", "DeepSeek-V2-Lite"
SCHEME = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True}


def only(plan: Plan, code: str) -> Finding:
    """The one finding of the rule `code`."""
    (found,) = [finding for finding in run(plan) if finding.rule == code]
    return found


def quantised(model: str, section: dict[str, Any]) -> str:
    return f"vllm serve {model} --hf-overrides '{json.dumps({'quantization_config': section})}'"


@pytest.mark.parametrize(
    ("version", "gpu", "model", "options", "layers", "fix"),
    [
        ("0.21.0", "h200", LLAMA, "--kv-cache-dtype int8_per_token_head", 32, "--attention-backend TRITON_ATTN"),
        ("0.21.0", "h200", LLAMA, "--kv-cache-dtype nvfp4", 32, "--kv-cache-dtype fp8"),
        ("0.27.1", "b200", GEMMA, "--kv-cache-dtype int4_per_token_head", 21, "vLLM 0.28.0 or later"),
        (
            "0.24.0",
            "b200",
            LLAMA,
            "--kv-cache-dtype nvfp4 --kv-cache-dtype-skip-layers 3",
            1,
            "drop --kv-cache-dtype-skip-layers, or use vLLM 0.25.1",
        ),
    ],
)
def test_views_that_do_not_fit(
    launched: Any, version: str, gpu: str, model: str, options: str, layers: int, fix: str
) -> None:
    found = only(launched(f"vllm serve {model} {options}", version, gpu), "KV201")
    assert len(found.layers) == layers
    assert fix in (found.fix or "")


def test_turboquant_that_is_not_told_its_dtype(launched: Any) -> None:
    command = f"VLLM_USE_V2_MODEL_RUNNER=0 vllm serve {LLAMA} --kv-cache-dtype turboquant_k8v4"
    found = only(launched(command, "0.26.0"), "KV201")
    assert "Unknown TurboQuant cache dtype: 'auto'" in found.message
    assert found.fix == "use vLLM 0.27.1 or later, or pass --kv-cache-dtype fp8"


def test_layouts_that_turboquant_cannot_share(launched: Any) -> None:
    found = only(launched(f"vllm serve {LLAMA} --kv-cache-dtype turboquant_k8v4", "0.33.0", "b200"), "KV508")
    assert "TURBOQUANT and the boundary layers' FLASHINFER share no layout" in (found.fix or "")


@pytest.mark.parametrize(("version", "code"), [("0.24.0", "KV501"), ("0.25.1", "KV503")])
def test_boundary_layers_are_not_the_operator_s(launched: Any, version: str, code: str) -> None:
    found = only(launched(f"vllm serve {GEMMA} --kv-cache-dtype turboquant_4bit_nc", version), code)
    assert found.fix == "pass --kv-cache-dtype fp8: turboquant_4bit_nc itself leaves layers 0-1, 40-41 unquantised"


def test_rocm_layouts_tell_their_size(launched: Any) -> None:
    found = only(launched(f"vllm serve {LLAMA} -tp 2 --kv-cache-dtype ultraquant_4bit", "0.33.0"), "KV304")
    assert "4 × 136 = 544 bytes a layer" in found.message
    found = only(launched(f"vllm serve {LLAMA} --kv-cache-dtype octave_k3v4", "0.33.0"), "KV304")
    assert "no kernels for head size 128" in found.message
    found = only(launched(f"vllm serve {GEMMA} --kv-cache-dtype octave_k3v3_compact", "0.33.0"), "KV304")
    assert "8 × 196 = 1,568 bytes a layer" in found.message


def test_other_packed_dtypes_are_offered_to_those_who_asked_for_one(launched: Any) -> None:
    asked = only(launched(f"vllm serve {GEMMA} --kv-cache-dtype turboquant_k8v4", "0.33.0"), "KV301")
    assert "int4_per_token_head" in (asked.fix or "")
    plain = only(launched(f"vllm serve {LLAMA} --kv-cache-dtype fp8_inc", "0.33.0"), "KV301")
    assert "per_token_head" not in (plain.fix or "")


@pytest.mark.parametrize(
    ("model", "section", "why"),
    [
        (LATENT, {"quant_method": "compressed-tensors", "kv_cache_scheme": SCHEME}, "MLA layers do not look"),
        (LLAMA, {"quant_method": "quark", "export": {"kv_cache_group": ["*k_proj"]}}, "Quark's kv_cache_group"),
        (LLAMA, {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "INT8"}, "know INT8"),
        (LLAMA, {"producer": {"name": "modelopt"}, "quant_algo": "FP8", "kv_cache_scheme": "FP8"}, "does not name"),
    ],
)
def test_declared_caches_that_are_not_used(launched: Any, model: str, section: dict[str, Any], why: str) -> None:
    assert why in only(launched(quantised(model, section), "0.33.0"), "KV217").message


@pytest.mark.parametrize(
    ("model", "section"),
    [
        (LLAMA, {"quant_method": "compressed-tensors", "kv_cache_scheme": SCHEME}),
        (LLAMA, {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}),
        (LLAMA, {"quant_method": "fp8"}),
        (LLAMA, {"quant_method": "compressed-tensors"}),
    ],
)
def test_declared_caches_that_are_used(launched: Any, model: str, section: dict[str, Any]) -> None:
    assert "KV217" not in {finding.rule for finding in run(launched(quantised(model, section), "0.33.0"))}


def test_an_unknown_modelopt_algorithm_names_the_release_that_knows_it(launched: Any) -> None:
    section = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "MIXED_PRECISION"}}
    found = only(launched(quantised(LLAMA, section), "0.29.0"), "KV216")
    assert "Unknown ModelOpt quant algo: MIXED_PRECISION" in found.message
    assert found.fix == "use vLLM 0.33.0 or later"


def test_nvfp4_from_the_checkpoint_with_latent_attention(launched: Any) -> None:
    section = {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "NVFP4"}
    found = only(launched(quantised(LATENT, section), "0.33.0", "b200"), "KV213")
    assert found.message.startswith("the checkpoint makes the cache nvfp4")


def test_a_backend_that_the_model_brings_refuses_late(launched: Any) -> None:
    command = "vllm serve XiaomiMiMo/MiMo-V2-Flash --kv-cache-dtype int8_per_token_head"
    found = only(launched(command, "0.33.0", "l40s"), "KV311")
    assert found.fix == "--kv-cache-dtype auto"
    assert "TRITON_ATTN_DIFFKV" in found.message
