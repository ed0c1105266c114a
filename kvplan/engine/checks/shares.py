"""What tensor parallelism must divide beside the decoder's heads: towers, the vocabulary, feed-forward widths.

Sources: `divide` (distributed/utils.py), the linear layers of `model_executor/layers/linear.py`,
`VocabParallelEmbedding` (layers/vocab_parallel_embedding.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.checks.experts import backend_asked
from kvplan.engine.config import EngineConfig
from kvplan.engine.failures import AssertionFails, NoParallelPlan, PartNotDivisible
from kvplan.engine.models.by_name import FEED_FORWARD
from kvplan.engine.models.geometry import ModelGeometry, Tower
from kvplan.engine.options import given
from kvplan.engine.stop import StartupStops, stop
from kvplan.engine.values import Stage
from kvplan.history import checks
from kvplan.launch.values import Launch

VOCABULARY_MULTIPLE = 64
"""vLLM fills the vocabulary up to a multiple of this many tokens before it splits it."""


_FUSES_REDUCTION = frozenset({"KimiK3ForConditionalGeneration", "KimiLinearForCausalLM"})


def check(checkpoint: Checkpoint, launch: Launch, geometry: ModelGeometry, config: EngineConfig) -> None:
    """Raises StartupStops at the first part of the model that the ranks cannot share evenly."""
    _check_plans(geometry, config)
    if config.tensor_parallel == 1:
        return
    _check_towers(launch, geometry.towers)
    _check_fused_reduction(checkpoint, launch, geometry, config)
    _check_vocabulary(checkpoint, config.tensor_parallel)
    _check_feed_forward(checkpoint, geometry, config)


def check_before_layers(checkpoint: Checkpoint, launch: Launch, towers: Iterable[Tower]) -> None:
    """The same for what a model builds before its decoder layers: towers and the embedding of the vocabulary."""
    _check_towers(launch, towers)
    _check_vocabulary(checkpoint, launch.get("tensor_parallel_size") or 1)


def _check_towers(launch: Launch, towers: Iterable[Tower]) -> None:
    tensor = launch.get("tensor_parallel_size") or 1
    for tower in towers:
        _check_tower(tower, tensor, whole=launch.get("mm_encoder_tp_mode") == "data")


def _check_fused_reduction(
    checkpoint: Checkpoint, launch: Launch, geometry: ModelGeometry, config: EngineConfig
) -> None:
    """On Blackwell Kimi K3 adds up the ranks' products in a kernel that works on 128 tokens and columns at a time.

    Not followed is the other kernel, for sequence parallelism, which only an environment variable turns on.
    """
    if geometry.architecture not in _FUSES_REDUCTION or not config.release.has(checks.FUSED_REDUCTION):
        return
    off = launch.environment.get("VLLM_KIMI_K3_GEMM_AR", "1") == "0"
    microbatches = given.flag(launch, "enable_dbo") or given.number(launch, "ubatch_size") > 1
    if off or microbatches or config.model_dtype != "bfloat16" or launch.hardware.capability[0] != 10:
        return
    ranks, width = config.tensor_parallel, checkpoint.text_config.get("hidden_size")
    if 128 % ranks or ranks > 16 or not isinstance(width, int) or width % 128 or _spreads_tokens(launch, config):
        return
    if config.max_num_batched_tokens < 128:
        facts = AssertionFails(check="--max-num-batched-tokens is 128 or more")
        raise stop(Stage.LAYERS, facts, "", exception="AssertionError")


def _spreads_tokens(launch: Launch, config: EngineConfig) -> bool:
    """Whether Kimi K3 spreads tokens over the ranks (sequence parallelism)."""
    mega = backend_asked(launch) == "deep_gemm_mega_moe"
    return config.expert_parallel and config.pipeline_parallel == 1 and (mega or config.data_parallel > 1)


def _check_plans(geometry: ModelGeometry, config: EngineConfig) -> None:
    """The pipeline is made before layers are split."""
    for kind, size in (("pipeline", config.pipeline_parallel), ("tensor", config.tensor_parallel)):
        if size > 1 and kind in geometry.lacks_plans:
            raise stop(
                Stage.LAYERS,
                NoParallelPlan(),
                f"does not support {kind} parallel.",
            )


def _check_tower(tower: Tower, tensor: int, *, whole: bool) -> None:
    if whole and tower.whole_on_request:
        return
    splits = tower.heads is not None and tower.heads % tensor != 0
    if splits and tower.yields:
        return
    if splits:
        raise _stop("attention heads", tower.heads or 0, tensor, tower, tower.asserts)
    for name, size in tower.sizes:
        if size % tensor:
            raise _stop(name, size, tensor, tower, "" if tower.merged else None)


def _check_vocabulary(checkpoint: Checkpoint, tensor: int) -> None:
    size = checkpoint.text_config.get("vocab_size")
    if isinstance(size, bool) or not isinstance(size, int):
        return
    padded = -(-size // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE
    if padded % tensor:
        raise _stop("vocab_size", padded, tensor)


def _check_feed_forward(checkpoint: Checkpoint, geometry: ModelGeometry, config: EngineConfig) -> None:
    """The widths of MLPs and experts, in the classes whose weights are followed; expert parallelism keeps experts
    whole."""
    kind, ranks = FEED_FORWARD.get(geometry.architecture), config.tensor_parallel
    dense = kind in ("dense", "dense_and_experts")
    if kind is None or (not dense and config.expert_parallel):
        return
    ranks *= 1 if dense else config.data_parallel
    whole = dense or kind in ("block_experts", "open_experts")
    name = "intermediate_size" if whole else "moe_intermediate_size"
    size = checkpoint.text_config.get(name)
    if isinstance(size, int) and not isinstance(size, bool) and size % ranks:
        raise _stop(name, size, ranks, text="")  # merged layers and experts assert without a text


def _stop(part: str, size: int, tensor: int, tower: Tower | None = None, text: str | None = None) -> StartupStops:
    return stop(
        Stage.PARALLEL,
        PartNotDivisible(
            part=part,
            size=size,
            tensor_parallel=tensor,
            tower=None if tower is None else tower.place,
            whole_on_request=tower is not None and tower.whole_on_request,
        ),
        f"{size} is not divisible by {tensor}" if text is None else text,
        exception="AssertionError",
    )
