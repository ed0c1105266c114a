"""Whether a rank's part of the weights suits the checkpoint's quantisation.

Scales stand for blocks or groups of weights: a rank must own whole ones, and kernels want sizes that fill their tiles.
vLLM finds out while it creates the weights of a layer. Which weights there are is in `weight_parts`, what a scheme
asks of them in `weight_schemes`.
"""

from __future__ import annotations

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.checks import experts, fused_lists, packed_schemes
from kvplan.engine.checks.weight_parts import Experts, parts
from kvplan.engine.checks.weight_schemes import scheme_of
from kvplan.engine.config import EngineConfig
from kvplan.engine.failures import WeightBlockSplit
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.stop import stop
from kvplan.engine.values import Stage
from kvplan.launch.values import Launch


def check(
    checkpoint: Checkpoint, launch: Launch, geometry: ModelGeometry, config: EngineConfig, *, feed_forward: bool
) -> None:
    """Raises StartupStops at the first weight that does not suit.

    `feed_forward` False looks at the towers and at the linear layers of attention, which vLLM builds before the
    attention itself; True looks at what comes behind it.
    """
    if not feed_forward:
        packed_schemes.check(checkpoint, config)
    fused_lists.check(checkpoint, geometry, config, feed_forward=feed_forward)
    if feed_forward:
        experts.check(checkpoint, launch, geometry, config)
    towers_whole = launch.get("mm_encoder_tp_mode") == "data"
    scheme = scheme_of(checkpoint, config)
    if scheme is None or not geometry.layers:
        return
    for part in parts(geometry, checkpoint.text_config, config, feed_forward=feed_forward, towers_whole=towers_whole):
        routed = isinstance(part, Experts)
        objection = scheme.experts(part) if isinstance(part, Experts) else scheme.linear(part)
        if objection is not None:
            raise stop(
                Stage.LAYERS,
                WeightBlockSplit(
                    weight=part.name,
                    size=objection.size,
                    block=objection.block,
                    scheme=scheme.label,
                    tensor_parallel=config.tensor_parallel,
                    experts=routed,
                    expert_parallel=config.expert_parallel,
                ),
                objection.message,
                exception=objection.exception,
            )
