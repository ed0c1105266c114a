"""What config classes of quantisation methods demand of a section, and lists that name a fused layer in part."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.engine.checks import sections
from kvplan.engine.stop import StartupStops
from kvplan.releases import resolve
from tests.engine.test_checks import planned, quantised

GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
QUARK: dict[str, Any] = {"quant_method": "quark", "export": {"kv_cache_group": ["*k_proj"]}, "layer_quant_config": {}}
ORDERED: dict[str, Any] = {"num_bits": 4, "strategy": "group", "group_size": 128, "actorder": "group"}
OUTPUTS = {"output_tensors": {"dtype": "fp8_e4m3"}}


@pytest.mark.parametrize(
    ("section", "method", "message"),
    [
        (GPTQ | {"bits": 2}, "auto_gptq", "Unsupported quantization config: bits=2, sym=True"),
        (GPTQ | {"bits": 8, "sym": False}, "gptq_marlin", "Unsupported quantization config: bits=8, sym=False"),
        (GPTQ | {"bits": 5}, "gptq", "Currently, only 2/3/4/8-bit weight quantization is supported for GPTQ"),
        ({"bits": 4, "desc_act": False, "sym": True}, "auto_gptq", "Cannot find any of ['group_size'] in the model"),
        (AWQ | {"bits": 8}, "auto_awq", "Unsupported num_bits = 8. Supported: 4. For 8-bit AWQ"),
        (AWQ | {"bits": 8}, "awq_marlin", "Unsupported num_bits = 8. Supported num_bits = dict_keys([4])"),
        ({"w_bit": 3, "q_group_size": 64, "zero_point": True}, "awq", "Currently, only 4-bit weight quantization is"),
        ({"bits": 4, "group_size": 64}, "awq", "Cannot find any of ['zero_point']"),
        (FP8 | {"activation_scheme": "token"}, "fp8", "Unsupported activation scheme token"),
        (FP8 | {"activation_scheme": "static"}, "fp8", "The block-wise quantization only supports dynamic activation"),
        (FP8 | {"weight_block_size": [128]}, "fp8", "The quantization block size of weight must have 2 dimensions"),
        ({"quant_method": "fp8"}, "fp8", "Cannot find any of ['activation_scheme']"),
        ({"quant_method": "quark"}, "quark", "The export key should be included"),
        (QUARK, "quark", "The Quark quantized model has the kv_cache_group parameter setting, but no kv_cache"),
        (QUARK | {"layer_quant_config": {"*k_proj": {}}}, "quark", "The kv_cache quantization configuration is empty."),
    ],
)
def test_sections_refused(section: dict[str, Any], method: str, message: str) -> None:
    with pytest.raises(StartupStops) as stopped:
        sections.check(section, method, resolve("0.33.0"))
    error = stopped.value.error
    assert (error.stage, error.code, error.type) == ("options", "checkpoint_quantisation", "ValidationError")
    assert error.message.startswith(message)


@pytest.mark.parametrize(
    ("section", "method"),
    [
        (GPTQ, "auto_gptq"),
        (GPTQ | {"bits": 3, "sym": False}, "gptq"),
        ({"w_bit": 4, "q_group_size": 64, "zero_point": True}, "auto_awq"),
        (FP8, "fp8"),
        (FP8 | {"weight_block_size": None, "activation_scheme": "static"}, "fp8"),
        (QUARK | {"layer_quant_config": {"*k_proj": OUTPUTS, "*q_proj": {}}}, "quark"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
    ],
)
def test_sections_taken(section: dict[str, Any], method: str) -> None:
    sections.check(section, method, resolve("0.33.0"))


def test_integers_beside_float_activations_have_a_scheme_on_hopper_only() -> None:
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}
    inputs = {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True, "dynamic": True}
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    section = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": group}}
    error = quantised("Qwen/Qwen3-8B", section, "", "0.33.0", "a100").error
    assert error is not None
    assert (error.type, error.message) == ("NotImplementedError", "No compressed-tensors compatible scheme was found")
    assert quantised("Qwen/Qwen3-8B", section, "", "0.33.0", "h200").ok


def test_mixed_precision_without_layers_at_the_top_wants_a_file() -> None:
    nested = {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"model.layers.0.mlp": {"quant_algo": "FP8"}}}
    error = quantised("Qwen/Qwen3-8B", {"quant_method": "modelopt", "quantization": nested}, "", "0.33.0").error
    assert error is not None
    assert (error.code, error.message) == (
        "quantization_file_missing",
        "Cannot find the config file for modelopt_mixed",
    )


@pytest.mark.parametrize(
    ("section", "version", "message"),
    [
        (FP8 | {"modules_to_not_convert": ["model.layers.2.self_attn.q_proj"]}, "0.16.0", "of model.layers.2.self_a"),
        (FP8 | {"modules_to_not_convert": ["model.layers.0.mlp.up_proj"]}, "0.33.0", "of model.layers.0.mlp.gate_up"),
        # `mlp.gate` is part of the name `mlp.gate_proj`.
        (AWQ | {"modules_to_not_convert": ["mlp.gate"]}, "0.33.0", "Detected some but not all shards of model.layer"),
    ],
)
def test_fused_layers_listed_in_part(section: dict[str, Any], version: str, message: str) -> None:
    error = quantised("Qwen/Qwen3-8B", section, "", version).error
    assert error is not None
    assert (error.stage, error.code, error.type) == ("layers", "checkpoint_quantisation", "ValueError")
    assert message in error.message


def test_fused_layers_listed_whole() -> None:
    parts = [f"model.layers.0.self_attn.{name}_proj" for name in "qkv"]
    assert quantised("Qwen/Qwen3-8B", FP8 | {"modules_to_not_convert": parts}, "", "0.33.0").error is None
    fused = ["model.layers.0.self_attn.qkv_proj", parts[0]]
    assert quantised("Qwen/Qwen3-8B", FP8 | {"modules_to_not_convert": fused}, "", "0.33.0").error is None


@pytest.mark.parametrize(
    ("flags", "version", "message"),
    [
        # 1,152 columns of the tower's attention over 16 ranks are 72, two groups of 32 and 8 rows.
        ("-tp 16", "0.33.0", "MXFP8 requires input size divisible by 32, got 72"),
        ("-tp 16", "0.29.0", "MXFP8 requires input dimension to be divisible by 32, got 72"),
        # Its MLP has 4,304 rows: 2,152 on each of 2 ranks.
        ("-tp 2", "0.33.0", "MXFP8 requires input size divisible by 32, got 2152"),
    ],
)
def test_microscaled_towers(flags: str, version: str, message: str) -> None:
    section = {"quant_method": "modelopt", "quant_algo": "MXFP8", "ignore": ["lm_head"]}
    error = quantised("Qwen/Qwen3-VL-8B-Instruct", section, flags, version, "b200").error
    assert error is not None
    assert (error.code, error.message) == ("weight_block_split", message)
    whole = f"{flags} --mm-encoder-tp-mode data"
    error = quantised("Qwen/Qwen3-VL-8B-Instruct", section, whole, version, "b200").error
    assert error is not None
    assert error.message.endswith("got 4304")


def test_kimi_k3_is_read_as_plain_mxfp4() -> None:
    error = planned("moonshotai/Kimi-K3 --trust-remote-code", "0.33.0", "t4").error
    assert error is not None
    assert error.message.startswith("The quantization method mxfp4 is not supported for the current GPU.")


def _packed(weights: dict[str, Any], *targets: str) -> dict[str, Any]:
    group = {"targets": list(targets) or ["Linear"], "weights": weights}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": group}}


@pytest.mark.parametrize(("order", "told"), [("group", "group"), ("Dynamic", "dynamic"), (True, "group")])
def test_groups_ordered_by_activations(order: object, told: str) -> None:
    section = _packed(ORDERED | {"actorder": order})
    sections.check(section, "compressed-tensors", resolve("0.29.0"))
    with pytest.raises(StartupStops) as stopped:
        sections.check(section, "compressed-tensors", resolve("0.30.0"))
    error = stopped.value.error
    assert (error.stage, error.code, error.type) == ("options", "quantization_order", "ValidationError")
    assert error.message.startswith(f"Compressed-tensors group/dynamic activation ordering (actorder='{told}') is no")


def test_orders_that_are_still_run() -> None:
    for order in ("weight", "static", False, None):
        sections.check(_packed(ORDERED | {"actorder": order}), "compressed-tensors", resolve("0.33.0"))
    sections.check(_packed(ORDERED, "LlamaAttention"), "compressed-tensors", resolve("0.33.0"))
