"""Which GPU a manifest asks for: node labels, accelerator names, instance types of the clouds."""

from __future__ import annotations

import re
from functools import cache

from kvplan.errors import InputError
from kvplan.launch.hardware import parse_gpu
from kvplan.launch.values import Hardware

_INSTANCES: tuple[tuple[str, str, str], ...] = (
    (r"p6-b300\.", "b300", "8"),
    (r"p6e-gb200\.", "gb200", "4"),
    (r"p6-b200\.", "b200", "8"),
    (r"p5en?\.48xlarge", "h200", "8"),
    (r"p5\.48xlarge", "h100", "8"),
    (r"p5\.4xlarge", "h100", "1"),
    (r"p4de\.24xlarge", "a100", "8"),
    (r"p4d\.24xlarge", "a100-40", "8"),
    (r"p3dn\.24xlarge", "v100", "8"),
    (r"p3\.16xlarge", "v100-16", "8"),
    (r"p3\.8xlarge", "v100-16", "4"),
    (r"p3\.2xlarge", "v100-16", "1"),
    (r"g7e\.", "rtxpro6000", ""),
    (r"g6e\.(?:48)xlarge", "l40s", "8"),
    (r"g6e\.(?:12|24)xlarge", "l40s", "4"),
    (r"g6e\.", "l40s", "1"),
    (r"g6\.48xlarge", "l4", "8"),
    (r"g6\.(?:12|24)xlarge", "l4", "4"),
    (r"g6\.", "l4", "1"),
    (r"g5\.48xlarge", "a10g", "8"),
    (r"g5\.(?:12|24)xlarge", "a10g", "4"),
    (r"g5\.", "a10g", "1"),
    (r"g4dn\.metal", "t4", "8"),
    (r"g4dn\.12xlarge", "t4", "4"),
    (r"g4dn\.", "t4", "1"),
    (r"a4x-highgpu", "gb200", "4"),
    (r"a4-highgpu-8g", "b200", "8"),
    (r"a3-ultragpu-8g", "h200", "8"),
    (r"a3-(?:highgpu|megagpu|edgegpu)-(\d)g", "h100", r"\1"),
    (r"a2-ultragpu-(\d)g", "a100", r"\1"),
    (r"a2-highgpu-(\d)g", "a100-40", r"\1"),
    (r"a2-megagpu-16g", "a100-40", "16"),
    (r"g2-standard-96", "l4", "8"),
    (r"g2-standard-48", "l4", "4"),
    (r"g2-standard-24", "l4", "2"),
    (r"g2-standard-", "l4", "1"),
    (r"g4-standard-", "rtxpro6000", ""),
    (r"standard_nd96i?sr_h200_v5", "h200", "8"),
    (r"standard_nd96i?sr_h100_v5", "h100", "8"),
    (r"standard_nd96amsr_a100_v4", "a100", "8"),
    (r"standard_nd96asr_v4", "a100-40", "8"),
    (r"standard_nd128isr_(?:ndr_)?gb200_v6", "gb200", "4"),
    (r"standard_nc40ad[a-z]*_h100_v5", "h100-nvl", "1"),
    (r"standard_nc80ad[a-z]*_h100_v5", "h100-nvl", "2"),
    (r"standard_nc24ads_a100_v4", "a100", "1"),
    (r"standard_nc48ads_a100_v4", "a100", "2"),
    (r"standard_nc96ads_a100_v4", "a100", "4"),
    (r"standard_nv(?:36|18|12|6)ad[a-z]*_a10_v5", "a10", "1"),
    (r"standard_nv72ads_a10_v5", "a10", "2"),
    (r"standard_nc4as_t4_v3|standard_nc8as_t4_v3|standard_nc16as_t4_v3", "t4", "1"),
    (r"standard_nc64as_t4_v3", "t4", "4"),
    (r"standard_nc6s_v3", "v100-16", "1"),
    (r"standard_nc24r?s_v3", "v100-16", "4"),
)
"""Beginning of the instance type, GPU, and how many of them one instance has (empty: by size)."""

_FAMILIES = {
    "p3": "v100-16",
    "p4d": "a100-40",
    "p4de": "a100",
    "p5": "h100",
    "p5e": "h200",
    "p5en": "h200",
    "p6-b200": "b200",
    "p6-b300": "b300",
    "g4dn": "t4",
    "g5": "a10g",
    "g6": "l4",
    "g6e": "l40s",
    "g7e": "rtxpro6000",
}
"""GPUs of AWS instance families, which Karpenter's labels name without a size."""

_KEYS = re.compile(
    r"gpu|instance-family|accelerator|instance-type|machine-type|node-type|instance_type|instancetype|vmsize|device|nvidia",
    re.IGNORECASE,
)
"""Parts of label names behind which a GPU or an instance type may stand."""

_DROPPED = re.compile(
    r"[-_ ]?(?:mega|tensor-core|shared|mig[-_ ]\S+|lovelace|hopper|ampere|blackwell)(?=$|[-_ ])", re.IGNORECASE
)


def named_by(label: str, value: str) -> Hardware | None:
    """The GPU that a node label or an accelerator field means."""
    if label.endswith("instance-family"):
        family = _FAMILIES.get(value.lower())
        return None if family is None else parse_gpu(family)
    return read(value) if _KEYS.search(label) else None


@cache
def read(value: str) -> Hardware | None:
    """The GPU meant by an accelerator name or an instance type, None for anything else."""
    text = value.strip()
    if not text or len(text) > 80:
        return None
    instance = _instance(text)
    if instance is not None:
        return instance
    for candidate in dict.fromkeys((text, _DROPPED.sub("", text), text.rpartition("/")[2])):
        if not re.search(r"[A-Za-z]", candidate) or re.fullmatch(r"(?i)sm_?\d+\w?|compute_?\d+", candidate):
            continue
        try:
            return parse_gpu(candidate)
        except InputError:
            continue
    return None


def _instance(text: str) -> Hardware | None:
    lower = text.lower()
    if lower.startswith("ml."):
        lower = lower[3:]
    for pattern, gpu, count in _INSTANCES:
        match = re.match(pattern, lower)
        if match is not None:
            number = match.expand(count) if count else ""
            return parse_gpu(f"{gpu}:{number}" if number else gpu)
    return None


FOREIGN_RESOURCES = {
    "amd.com/gpu": "ROCm",
    "google.com/tpu": "TPUs",
    "habana.ai/gaudi": "Gaudi",
    "gpu.intel.com/i915": "Intel GPUs",
    "gpu.intel.com/xe": "Intel GPUs",
    "aws.amazon.com/neuron": "Neuron",
    "aws.amazon.com/neuroncore": "Neuron",
    "huawei.com/Ascend910": "Ascend",
}
"""Kubernetes resources of accelerators that are not NVIDIA's."""
