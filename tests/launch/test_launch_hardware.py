"""How `--gpu` and amounts of memory are read."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.errors import InputError
from kvplan.launch.hardware import GPUS, default_hardware, parse_gpu
from kvplan.launch.sizes import parse_size

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("text", "name", "capability", "mib"),
    [
        ("h200", "h200", "9.0", 143771),
        ("NVIDIA H200", "h200", "9.0", 143771),
        ("H200-SXM", "h200", "9.0", 143771),
        ("nvidia-h100-80gb-hbm3", "h100", "9.0", 81559),
        ("H100_PCIe", "h100-pcie", "9.0", 81559),
        ("RTX 4090", "rtx4090", "8.9", 24564),
        ("4090", "rtx4090", "8.9", 24564),
        ("NVIDIA GeForce RTX 4090", "rtx4090", "8.9", 24564),
        ("A100", "a100", "8.0", 81920),
        ("A100-80GB", "a100", "8.0", 81920),
        ("A100-SXM4-40GB", "a100-40", "8.0", 40960),
        ("a100-40", "a100-40", "8.0", 40960),
        ("Tesla T4", "t4", "7.5", 15360),
        ("rtx pro 6000", "rtxpro6000", "12.0", 97887),
        ("B300", "b300", "10.3", 275040),
        ("gb10", "gb10", "12.1", 122570),
    ],
)
def test_spellings(text: str, name: str, capability: str, mib: int) -> None:
    gpu = parse_gpu(text)
    assert (gpu.name, gpu.capability_text, gpu.memory_bytes) == (name, capability, mib * MIB)
    assert not gpu.assumed
    assert gpu.count is None


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_every_row_is_found_by_its_name_and_device_name(gpu: object) -> None:
    from kvplan.launch.hardware import Gpu

    assert isinstance(gpu, Gpu)
    assert parse_gpu(gpu.name).name == gpu.name
    assert parse_gpu(gpu.device_name).name == gpu.name


@pytest.mark.parametrize("text", ["sm_90", "sm90", "SM_90", "9.0", "compute_90", "sm_90a"])
def test_bare_capability_is_assumed(text: str) -> None:
    gpu = parse_gpu(text)
    assert (gpu.name, gpu.capability, gpu.memory_bytes) == ("sm_90", (9, 0), 143771 * MIB)
    assert gpu.assumed


def test_two_digit_capabilities() -> None:
    assert parse_gpu("sm_120").capability == (12, 0)
    assert parse_gpu("12.1").capability == (12, 1)
    assert parse_gpu("10.3:2").count == 2


def test_count_and_default() -> None:
    assert parse_gpu("h200:8").count == 8
    assumed = default_hardware()
    assert (assumed.name, assumed.assumed) == ("h200", True)


@pytest.mark.parametrize(
    "text", ["", "h2000", "mi300x", "h200:", "h200:0", "h200:x", "h200:8:8", "sm_42", "6.1", "٩.٠"]
)
def test_unusable_gpus_are_one_clear_message(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_gpu(text)
    assert "--gpu" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nearest_names_are_suggested() -> None:
    with pytest.raises(InputError, match="did you mean h20"):
        parse_gpu("h2000")


@pytest.mark.parametrize("text", ["mi300x", "AMD Instinct MI325X", "gaudi3", "cpu"])
def test_other_makers_are_named_as_such(text: str) -> None:
    with pytest.raises(InputError, match="only NVIDIA GPUs"):
        parse_gpu(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("60GiB", 64424509440),
        ("60 gib", 64424509440),
        ("60G", 64424509440),
        ("60g", 60_000_000_000),
        ("60GB", 60_000_000_000),
        ("47.5GiB", 51002736640),
        ("64424509440", 64424509440),
        ("1.5TiB", 1649267441664),
        ("512MiB", 536870912),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text, "--available-kv-memory") == size


@pytest.mark.parametrize(
    "text", ["", "GiB", "-1GiB", "0", "60 parsecs", "1e9", "60GiBB", "9" * 30, "9999999PiB", "nan"]
)
def test_bad_sizes(text: str) -> None:
    with pytest.raises(InputError, match="--available-kv-memory"):
        parse_size(text, "--available-kv-memory")


@given(st.text(max_size=30))
def test_any_text_is_a_value_or_an_input_error(text: str) -> None:
    with contextlib.suppress(InputError):
        assert parse_gpu(text).memory_bytes > 0
    with contextlib.suppress(InputError):
        assert parse_size(text, "--available-kv-memory") > 0
