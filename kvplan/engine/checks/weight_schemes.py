"""What quantisation schemes ask of the weights of one rank.

Sources: `validate_fp8_block_shape` (quantization/utils/fp8_utils.py) and the `create_weights` of fp8.py, awq.py and
auto_awq.py, moe_wna16.py, modelopt.py and compressed_tensors/, with the kernels that `choose_mp_linear_kernel` tries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from math import gcd
from typing import Any, Protocol

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.checks.weight_parts import Experts, Linear
from kvplan.engine.config import EngineConfig
from kvplan.history import checks

_SMALLEST_REFINED_BLOCK = 32
_MARLIN_GROUPS = (-1, 32, 64, 128)
_FUSED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "fused_qkv_a_proj": ("q_a_proj", "kv_a_proj_with_mqa"),
    "in_proj_qkvz": ("in_proj_qkv", "in_proj_z"),
    "in_proj_ba": ("in_proj_b", "in_proj_a"),
    "experts": ("experts.0.gate_proj", "experts.0.up_proj", "experts.0.down_proj"),
}
"""Names that checkpoints give to the parts of a fused module."""


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a weight does not suit: vLLM's error, the size (elements) it looked at and what should divide it."""

    message: str
    size: int
    block: int
    exception: str = "ValueError"


class Scheme(Protocol):
    """One way to quantise weights."""

    @property
    def label(self) -> str:
        """What people call it."""

    def linear(self, part: Linear) -> Objection | None:
        """vLLM's objection to a linear layer."""

    def experts(self, part: Experts) -> Objection | None:
        """vLLM's objection to routed experts."""


def scheme_of(checkpoint: Checkpoint, config: EngineConfig) -> Scheme | None:
    """The scheme of the checkpoint's weights, None where they are not quantised or nothing is asked of them."""
    section, method = checkpoint.quantization, config.quantization_method
    if section is None:
        return Online("MXFP8", 32) if method == "mxfp8" else None
    if method == "fp8" and section.get("quant_method") == "fp8":
        block = _block(section.get("weight_block_size"))
        return None if block is None else BlockScales("fp8", block, _listed(section), config, own=True)
    if method in ("awq", "awq_marlin", "auto_awq"):
        return _awq(section, method, config)
    if method in ("gptq", "gptq_marlin", "auto_gptq", "moe_wna16"):
        group = section.get("group_size")
        return GroupedExperts("GPTQ", group, config) if isinstance(group, int) else None
    if method == "modelopt_fp4":
        return PackedFp4("NVFP4", _listed(section))
    if method == "modelopt_mxfp8" or (method == "mxfp8" and config.release.has(checks.MXFP8_CHECKPOINTS)):
        told = config.release.has(checks.MXFP8_SPEAKS_OF_SIZES)
        return MicroscaledFp8(_listed(section), "size" if told else "dimension to be")
    if method == "inc":
        return _auto_round(section, config)
    if method == "quark":
        return _quark(section, config)
    return _compressed_tensors(section, config) if method == "compressed-tensors" else None


def _auto_round(section: Mapping[str, Any], config: EngineConfig) -> Scheme | None:
    """AutoRound's checkpoints in GPTQ's packing, which go the way of GPTQ's where Marlin takes their groups."""
    bits, group = section.get("bits"), section.get("group_size")
    packed = section.get("packing_format") == "auto_round:auto_gptq" and section.get("data_type", "int") == "int"
    plain = not section.get("extra_config") and not section.get("block_name_to_quantize") and section.get("sym", True)
    if not packed or not plain or bits not in (4, 8) or group not in _MARLIN_GROUPS:
        return None
    return PackedIntegers(f"int{bits}", bits, group, (), config, halved=True)


def _quark(section: Mapping[str, Any], config: EngineConfig) -> Scheme | None:
    """OCP MX weights: four-bit floats with one scale for 32 rows."""
    overall = section.get("global_quant_config")
    weight = overall.get("weight") if isinstance(overall, Mapping) else None
    if not isinstance(weight, Mapping) or not config.release.has(checks.OCP_MX_GROUPS_ARE_WHOLE):
        return None
    microscaled = weight.get("dtype") in ("fp4", "fp6_e3m2", "fp6_e2m3") and weight.get("group_size") == 32
    plain = not section.get("layer_quant_config") and not section.get("layer_type_quant_config")
    return Microscaled("OCP MX", _listed(section)) if microscaled and plain else None


def _awq(section: Mapping[str, Any], method: str, config: EngineConfig) -> Scheme | None:
    group = section.get("group_size", section.get("q_group_size"))
    bits = section.get("bits", section.get("w_bit"))
    if not isinstance(group, int) or bits != 4:
        return None
    padded = config.release.has(checks.MARLIN_PADS_TILES)
    able = config.hardware.capability >= (7, 5) and bool(section.get("zero_point")) and group in _MARLIN_GROUPS
    marlin = method != "awq" and not config.batch_invariant if not padded else able and not config.batch_invariant
    return Awq("AWQ", group, _listed(section), config, marlin=marlin, padded=padded)


def _compressed_tensors(section: Mapping[str, Any], config: EngineConfig) -> Scheme | None:
    """The scheme of the group that takes all linear layers; mixed checkpoints are not followed."""
    groups = section.get("config_groups")
    if not isinstance(groups, Mapping) or len(groups) != 1:
        return None
    (group,) = groups.values()
    weights = group.get("weights") if isinstance(group, Mapping) else None
    if not isinstance(weights, Mapping) or "Linear" not in _words(group.get("targets")):
        return None
    ignored, strategy = _listed(section), weights.get("strategy")
    if weights.get("type") == "float" and strategy == "block":
        block = _block(weights.get("block_structure"))
        return None if block is None else BlockScales("fp8", block, ignored, config, own=False)
    bits, size = weights.get("num_bits"), weights.get("group_size")
    packed = weights.get("type") == "int" and not group.get("input_activations")
    if not packed or bits not in (4, 8) or not isinstance(bits, int) or strategy not in ("group", "channel"):
        return None
    ordered = weights.get("actorder") in ("group", True)
    group_size = size if isinstance(size, int) and size > 0 else -1
    return PackedIntegers(f"int{bits}", bits, group_size, ignored, config, ordered=ordered)


@dataclass(frozen=True, slots=True)
class BlockScales:
    """One scale for each block of rows and columns.

    `own` says that it is vLLM's own `fp8`, which re-cuts experts into smaller blocks and lets the parts of a merged
    layer end within a block (`_maybe_allow_fp8_block_shape_mismatch`).
    """

    label: str
    block: tuple[int, int]
    ignored: tuple[str, ...]
    config: EngineConfig
    own: bool

    def linear(self, part: Linear) -> Objection | None:
        """A split layer owns whole blocks; the last part of a merged one that is not split may end within one."""
        block_n, block_k = self.block
        split = part.split and self.config.tensor_parallel > 1
        if _is_ignored(part.name, self.ignored):
            return None
        if split and part.takes_rows and part.rows % block_k:
            return Objection(
                f"Weight input_size_per_partition = {part.rows} is not divisible by weight quantization block_k = "
                f"{block_k}.",
                part.rows,
                block_k,
            )
        merged = len(part.columns) > 1
        if part.takes_rows or not (split or merged) or (self.own and merged):
            return None
        for size in part.columns if split else part.columns[:-1]:
            if size % block_n:
                return Objection(
                    f"Weight output_partition_size = {size} is not divisible by weight quantization block_n = "
                    f"{block_n}.",
                    size,
                    block_n,
                )
        return None

    def experts(self, part: Experts) -> Objection | None:
        """A rank's share of each expert is whole blocks too."""
        block_n, block_k = self.block
        size = part.intermediate
        if _is_ignored(part.name, self.ignored):
            return None
        fits = gcd(block_n, block_k, size, part.hidden) >= _SMALLEST_REFINED_BLOCK
        if fits and self.own and self.config.release.has(checks.FP8_MOE_BLOCKS_ARE_REFINED):
            return None
        if size % block_n:
            return Objection(
                f"The output_size of gate's and up's weight = {size} is not divisible by weight quantization block_n "
                f"= {block_n}.",
                size,
                block_n,
            )
        if self.config.tensor_parallel > 1 and size % block_k:
            return Objection(
                f"The input_size of down's weight = {size} is not divisible by weight quantization block_k = "
                f"{block_k}.",
                size,
                block_k,
            )
        return None


@dataclass(frozen=True, slots=True)
class GroupedExperts:
    """Integers with one scale a group of rows, of which only the experts can fail: the group is halved until it divides
    their sizes, but not below 32."""

    label: str
    group: int
    config: EngineConfig

    def linear(self, _: Linear) -> Objection | None:
        """Depends on what the weight files hold."""
        return None

    def experts(self, part: Experts) -> Objection | None:
        """No multiple of 32 is left."""
        return _halved(self.group, part, self.config)


@dataclass(frozen=True, slots=True)
class Awq:
    """Four-bit integers with zero points: Marlin's kernels where the shape suits them, else AWQ's own."""

    label: str
    group: int
    ignored: tuple[str, ...]
    config: EngineConfig
    marlin: bool
    padded: bool
    """Whether Marlin pads tiles, so that only groups must be whole."""

    def linear(self, part: Linear) -> Objection | None:
        """AWQ's own kernels want whole groups of rows and columns by eight."""
        if _is_ignored(part.name, self.ignored, substring=True) or (self.marlin and self._marlin_takes(part)):
            return None
        if part.rows % self.group:
            return Objection(_AWQ.format("input"), part.rows, self.group)
        if part.width % 8:
            return Objection(_AWQ.format("output"), part.width, 8)
        return None

    def _marlin_takes(self, part: Linear) -> bool:
        whole = self.group == -1 or self.group >= part.all_rows or part.rows % self.group == 0
        return whole and (self.padded or (part.width % 64 == 0 and part.rows % 128 == 0))

    def experts(self, part: Experts) -> Objection | None:
        """As for other integers in groups."""
        return None if _is_ignored(part.name, self.ignored, substring=True) else _halved(self.group, part, self.config)


_AWQ = (
    "The {} size is not aligned with the quantized weight shape. This can be caused by too large tensor parallel size."
)


@dataclass(frozen=True, slots=True)
class PackedFp4:
    """Four-bit floats with one scale for 16 rows."""

    label: str
    ignored: tuple[str, ...]

    def linear(self, part: Linear) -> Objection | None:
        """Groups of 16 rows are whole."""
        if part.rows % 16 == 0 or _is_excluded(part.name, self.ignored):
            return None
        return Objection("Unsupported model when in features size is not multiple of 16", part.rows, 16)

    def experts(self, _: Experts) -> Objection | None:
        """Nothing is asked of them while weights are created."""
        return None


@dataclass(frozen=True, slots=True)
class Microscaled:
    """Floats of few bits with one scale for 32 rows."""

    label: str
    ignored: tuple[str, ...]

    def linear(self, part: Linear) -> Objection | None:
        """Groups of 32 rows are whole."""
        if part.rows % 32 == 0 or _is_ignored(part.name, self.ignored):
            return None
        return Objection(
            f"OCP MX linear layer {part.name!r} has an input size per partition of {part.rows}, which must be "
            "divisible by the OCP MX group size 32. Choose a compatible tensor-parallel size or avoid tensor-parallel "
            "sharding for this layer.",
            part.rows,
            32,
        )

    def experts(self, _: Experts) -> Objection | None:
        """Nothing is asked of them while weights are created."""
        return None


@dataclass(frozen=True, slots=True)
class MicroscaledFp8:
    """ModelOpt's MXFP8: eight-bit floats with one scale for 32 rows."""

    ignored: tuple[str, ...]
    wording: str
    """What the message says between `input` and `divisible`."""

    @property
    def label(self) -> str:
        """What people call it."""
        return "MXFP8"

    def linear(self, part: Linear) -> Objection | None:
        """Groups of 32 rows are whole."""
        if part.rows % 32 == 0 or _is_excluded(part.name, self.ignored):
            return None
        message = f"MXFP8 requires input {self.wording} divisible by 32, got {part.rows}"
        return Objection(message, part.rows, 32)

    def experts(self, part: Experts) -> Objection | None:
        """So are those of experts, on both sides."""
        if _is_excluded(part.name, self.ignored):
            return None
        for name, size in (("hidden_size", part.hidden), ("intermediate_size_per_partition", part.intermediate)):
            if size % 32:
                return Objection(f"MXFP8 MoE requires {name} divisible by 32, got {size}.", size, 32)
        return None


@dataclass(frozen=True, slots=True)
class PackedIntegers:
    """Integers of `bits` with one scale a group of rows (-1: a column), packed eight or four to a word."""

    label: str
    bits: int
    group: int
    ignored: tuple[str, ...]
    config: EngineConfig
    ordered: bool = False
    """Whether groups are ordered by activations."""
    halved: bool = False
    """Whether groups are GPTQ's: only kernels ask for whole ones, and those of experts are halved until they fit."""

    def linear(self, part: Linear) -> Objection | None:
        """A kernel takes the shape, and groups are whole."""
        if _is_ignored(part.name, self.ignored):
            return None
        if not any(self._kernels(part)):
            return Objection(
                "Failed to find a kernel that can implement the WNA16 linear layer.",
                part.rows,
                128 if self.group == -1 else self.group,
            )
        release = self.config.release
        everywhere = self.ordered and not release.has(checks.ACTIVATION_ORDER_REMOVED)
        if self.group == -1 or self.halved or everywhere or part.rows % self.group == 0:
            return None
        if not release.has(checks.GROUP_SPLIT_HAS_TEXT):
            return Objection("", part.rows, self.group, "AssertionError")
        return Objection(
            f"Weight input_size_per_partition={part.rows} for layer '{part.name}' is not divisible by "
            f"group_size={self.group}. This happens when tensor_parallel_size splits the layer input into shards that "
            "are not a whole number of quant groups. Consider reducing tensor_parallel_size.",
            part.rows,
            self.group,
        )

    def _kernels(self, part: Linear) -> Iterator[bool]:
        """Whether each kernel takes the layer, in the order in which they are asked."""
        release, capability = self.config.release, self.config.hardware.capability
        rows, width = part.rows, part.width
        ordered = self.ordered and part.takes_rows
        yield capability == (9, 0) and not ordered and self.group in (-1, 64, 128) and rows % 64 == width % 128 == 0
        eight = self.bits == 8 and self.group == -1 and (8, 0) <= capability < (9, 0)
        yield eight and not ordered and rows % 16 == width % 16 == 0
        whole = self.group == -1 or self.group >= part.all_rows or rows % self.group == 0
        tiles = release.has(checks.MARLIN_PADS_TILES) or (width % 64 == 0 and rows % 128 == 0)
        yield capability >= (7, 5) and self.group in _MARLIN_GROUPS and whole and tiles
        packs = width % (32 // self.bits) == 0 and part.all_rows % self.group == 0
        yield self.config.model_dtype == "float16" and packs and not ordered
        yield capability >= (7, 5) and release.has(checks.HUMMING_TAKES_INTEGERS) and not self.ordered

    def experts(self, part: Experts) -> Objection | None:
        """Groups of each expert's share are whole."""
        if self.halved:
            return _halved(self.group, part, self.config)
        unchecked = not self.config.release.has(checks.EXPERT_GROUPS_ARE_WHOLE)
        if unchecked or self.group == -1 or _is_ignored(part.name, self.ignored):
            return None
        if part.hidden % self.group:
            return Objection(
                f"CompressedTensors WNA16 MoE requires hidden_size ({part.hidden}) to be divisible by group_size "
                f"({self.group}).",
                part.hidden,
                self.group,
            )
        if part.intermediate % self.group:
            return Objection(
                "CompressedTensors WNA16 MoE with static group scales requires the MoE intermediate size per "
                f"tensor-parallel partition ({part.intermediate}) to be divisible by group_size ({self.group}). Scale "
                "groups would otherwise cross TP shard boundaries; use a compatible TP size or enable expert "
                "parallelism.",
                part.intermediate,
                self.group,
            )
        return None


@dataclass(frozen=True, slots=True)
class Online:
    """Weights that are quantised while they are loaded, with one scale for `block` rows."""

    label: str
    block: int

    def linear(self, part: Linear) -> Objection | None:
        """Blocks of rows are whole."""
        if part.rows % self.block == 0:
            return None
        message = f"{self.label} requires input_size_per_partition ({part.rows}) to be divisible by {self.block}."
        return Objection(message, part.rows, self.block)

    def experts(self, part: Experts) -> Objection | None:
        """So are those of experts, on both sides."""
        uneven = next((size for size in (part.hidden, part.intermediate) if size % self.block), None)
        if uneven is None:
            return None
        message = f"Online {self.label} MoE requires hidden/intermediate sizes divisible by {self.block}."
        return Objection(message, uneven, self.block)


def _halved(group: int, part: Experts, config: EngineConfig) -> Objection | None:
    """Where Marlin's kernels do not take the experts, vLLM halves the group until it divides both sizes, and asserts
    that 32 rows are left; one group a column it cannot store."""
    size = group
    if group == -1:
        padded = config.release.has(checks.MARLIN_PADS_EXPERTS)
        if part.hidden % 128 == 0 and (padded or part.intermediate % 64 == 0):
            return None
        message = f"Trying to create tensor with negative dimension -{part.hidden}"
        return Objection(message, part.intermediate, 64, "RuntimeError")
    while size > 0 and (part.intermediate % size or part.hidden % size):
        size //= 2
        if size < _SMALLEST_REFINED_BLOCK:
            return Objection("", part.intermediate, _SMALLEST_REFINED_BLOCK, "AssertionError")
    return None


def _block(size: object) -> tuple[int, int] | None:
    if not isinstance(size, (list, tuple)) or len(size) != 2:
        return None
    rows, columns = size
    whole = isinstance(rows, int) and isinstance(columns, int) and rows > 0 and columns > 0
    return (rows, columns) if whole else None


def _words(value: object) -> tuple[str, ...]:
    """The strings of a list; none where it is no list."""
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, (list, tuple)) else ()


def _listed(section: Mapping[str, Any]) -> tuple[str, ...]:
    """Modules that stay unquantised, as the checkpoint names them."""
    for name in ("ignored_layers", "modules_to_not_convert", "ignore", "exclude_modules", "exclude"):
        listed = section.get(name)
        if isinstance(listed, (list, tuple)) and listed:
            return tuple(str(one) for one in listed)
    return ()


def _own_names(name: str) -> Iterator[str]:
    """The names that a checkpoint gives to a module: a fused one goes by those of its parts, and what multimodal
    models hold may stand below `model`."""
    below = f"model.{name.replace('language_model.model.', 'language_model.')}"
    for whole in (name,) if name.startswith("model.") else (name, below):
        yield whole
        head, _, last = whole.rpartition(".")
        for part in _FUSED.get(last, ()):
            yield f"{head}.{part}"


def _is_ignored(name: str, ignored: tuple[str, ...], *, substring: bool = False) -> bool:
    for own in _own_names(name):
        for wanted in ignored:
            if wanted.startswith("re:"):
                if re.match(wanted.removeprefix("re:"), own):
                    return True
            elif wanted == own or (substring and wanted in own):
                return True
    return False


def _is_excluded(name: str, ignored: tuple[str, ...]) -> bool:
    """ModelOpt's lists hold wildcards and beginnings of names."""
    return any(
        fnmatch(own, wanted) or fnmatch(own, f"{wanted}.*") or own.startswith(f"{wanted}.")
        for own in _own_names(name)
        for wanted in ignored
    )
