"""What quantisation sections of checkpoints make of the cache, and which of them vLLM refuses."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.checkpoint.quantization import picked
from kvplan.checkpoint.values import Checkpoint, Source
from kvplan.engine.backends.values import BackendQuery
from kvplan.engine.cache_dtypes import kv_scheme, modelopt
from kvplan.engine.stop import StartupStops
from kvplan.releases import resolve

OLDER_FORM = {"producer": {"name": "modelopt"}}
SCHEME = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True}
QUERY = BackendQuery(capability=(9, 0), head_size=128, dtype="bfloat16", num_heads=32, num_kv_heads=8)


def checkpoint(section: dict[str, Any], text: dict[str, Any] | None = None) -> Checkpoint:
    config: dict[str, Any] = {"quantization_config": section} if section else {}
    if text is not None:
        config["text_config"] = {"quantization_config": text}
    return Checkpoint(
        reference="model",
        name="model",
        source=Source.DIRECTORY,
        path="model/config.json",
        config_sha256="",
        config=config,
        text_config=config if text is None else config["text_config"],
        architectures=("LlamaForCausalLM",),
        model_type="llama",
        quantization=picked(config),
    )


def older(algorithm: str, **fields: Any) -> dict[str, Any]:
    return {**OLDER_FORM, "quantization": {"quant_algo": algorithm, **fields}}


def newer(algorithm: str, **fields: Any) -> dict[str, Any]:
    return {"quant_method": "modelopt", "quant_algo": algorithm, **fields}


@pytest.mark.parametrize(
    ("section", "release", "expected"),
    [
        (older("FP8", kv_cache_quant_algo="FP8"), "0.16.0", "fp8_e4m3"),
        (older("NVFP4", kv_cache_quant_algo="NVFP4"), "0.19.1", None),
        (older("NVFP4", kv_cache_quant_algo="NVFP4"), "0.20.2", "nvfp4"),
        (newer("FP8", kv_cache_scheme={"dynamic": False, "num_bits": 8, "type": "float"}), "0.33.0", "fp8_e4m3"),
        (newer("FP8", kv_cache_scheme={"dynamic": True, "num_bits": 8, "type": "float"}), "0.33.0", None),
        (newer("FP8", kv_cache_scheme={"num_bits": 4, "type": "float"}), "0.33.0", "nvfp4"),
        (newer("FP8", kv_cache_scheme={"num_bits": 4, "type": "float"}), "0.19.1", None),
        (newer("FP8", kv_cache_quant_algo="INT8"), "0.33.0", None),
        (newer("FP8"), "0.33.0", None),
        ({"quant_method": "fp8", "kv_cache_quant_algo": "FP8"}, "0.33.0", None),
    ],
)
def test_auto_of_modelopt(section: dict[str, Any], release: str, expected: str | None) -> None:
    assert modelopt.cache_dtype(checkpoint(section), resolve(release)) == expected


def test_auto_looks_only_at_the_config_s_own_section() -> None:
    model = checkpoint({}, text=newer("FP8", kv_cache_quant_algo="FP8"))
    assert model.quantization is not None
    assert modelopt.cache_dtype(model, resolve("0.33.0")) is None


def test_a_section_that_does_not_name_its_producer_counts_since_0_26() -> None:
    section = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "modelopt_quant_config": {}}}
    assert modelopt.cache_dtype(checkpoint(section), resolve("0.25.1")) is None
    assert modelopt.cache_dtype(checkpoint(section), resolve("0.26.0")) == "fp8_e4m3"


@pytest.mark.parametrize(
    ("section", "release", "message"),
    [
        (older("MIXED_PRECISION"), "0.32.0", "Unknown ModelOpt quant algo: MIXED_PRECISION"),
        (older("MIXED_PRECISION"), "0.33.0", "requires a non-empty 'quantized_layers'"),
        (older("INT4_AWQ"), "0.33.0", "Unknown ModelOpt quant algo: INT4_AWQ"),
        (newer("MIXED_PRECISION"), "0.16.0", "ModelOpt currently only supports"),
        (newer("W4A16_NVFP4"), "0.20.2", "ModelOpt currently only supports"),
        (newer(""), "0.33.0", "Missing 'quant_algo'"),
        (older("NVFP4", group_size=16), "0.33.0", r"\['kv_cache_quant_algo', 'exclude_modules'\]"),
        (older("FP8", kv_cache_quant_algo=["FP8"]), "0.33.0", "kv_cache_quant_algo must be a string"),
    ],
)
def test_modelopt_sections_refused(section: dict[str, Any], release: str, message: str) -> None:
    with pytest.raises(StartupStops, match=message):
        modelopt.check(checkpoint(section), resolve(release))


@pytest.mark.parametrize(
    ("section", "release"),
    [
        (older("MIXED_PRECISION", quantized_layers={"model.layers.0.mlp": {}}), "0.33.0"),
        (newer("MIXED_PRECISION", quantized_layers={"model.layers.0.mlp": {}}), "0.17.1"),
        (newer("W4A16_NVFP4"), "0.21.0"),
        (older("NVFP4", group_size=16, kv_cache_quant_algo=None, exclude_modules=[]), "0.16.0"),
        ({"quant_method": "fp8"}, "0.16.0"),
        ({}, "0.16.0"),
    ],
)
def test_sections_accepted(section: dict[str, Any], release: str) -> None:
    modelopt.check(checkpoint(section), resolve(release))


@pytest.mark.parametrize(
    ("change", "release", "message"),
    [
        ({"symmetric": None}, "0.16.0", "Only support symmetric scaling factor"),
        ({"symmetric": False}, "0.33.0", "Only support symmetric scaling factor"),
        ({"strategy": "channel"}, "0.33.0", "Invalid strategy for compressed-tensors KV cache"),
        ({"strategy": "row"}, "0.33.0", "'row' is not a valid QuantizationStrategy"),
        ({"strategy": "row"}, "0.16.0", "Invalid strategy for compressed-tensors KV cache"),
        ({"num_bits": 4}, "0.24.0", "num_bits=4, type=float"),
        ({"num_bits": 4, "type": "int"}, "0.23.0", "num_bits=4, type=int"),
    ],
)
def test_cache_schemes_refused(change: dict[str, Any], release: str, message: str) -> None:
    with pytest.raises(StartupStops, match=message):
        kv_scheme.check_scheme({**SCHEME, **change}, "model.layers.0", "FLASH_ATTN", QUERY, resolve(release))


@pytest.mark.parametrize(
    ("change", "release"),
    [({}, "0.33.0"), ({"strategy": "attn_head"}, "0.33.0"), ({"num_bits": 4}, "0.23.0"), ({"type": "int"}, "0.16.0")],
)
def test_cache_schemes_accepted(change: dict[str, Any], release: str) -> None:
    kv_scheme.check_scheme({**SCHEME, **change}, "model.layers.0", "FLASH_ATTN", QUERY, resolve(release))


def test_scales_per_head_need_a_backend_that_has_them() -> None:
    scheme = {**SCHEME, "strategy": "attn_head"}
    kv_scheme.check_scheme(scheme, "model.layers.0", "FLASH_ATTN", QUERY, resolve("0.16.0"))
    with pytest.raises(StartupStops, match="does not support per-head scales") as stopped:
        kv_scheme.check_scheme(scheme, "model.layers.0", "TRITON_ATTN", QUERY, resolve("0.16.0"))
    assert stopped.value.error.type == "AssertionError"
