"""The method extract_hidden_states: a cache layer that keeps the hidden states of some of the target's layers.

Sources: model_executor/models/extract_hidden_states.py, the proposer of that name (v1/spec_decode),
config/speculative.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.failures import DraftNotBuilt
from kvplan.engine.models.geometry import CustomCache, Kind, LayerGeometry, ModelGeometry, Role
from kvplan.engine.models.shapes import Form
from kvplan.engine.parallelism.verify import pipeline_unsupported
from kvplan.engine.speculation.values import Speculation
from kvplan.engine.speculation.wanted import Wanted, refused
from kvplan.engine.values import Stage, StartupError
from kvplan.errors import InputError

METHOD = "extract_hidden_states"
ARCHITECTURE = "ExtractHiddenStatesModel"
LAYER_IDS = "eagle_aux_hidden_state_layer_ids"


def settle(
    want: Wanted, checkpoint: Checkpoint, target: ModelGeometry, *, tensor_parallel: int, pipeline_parallel: int
) -> Speculation:
    """The layer that keeps the states. Raises StartupStops where vLLM refuses, InputError on a field that cannot be.

    36 decoder layers of a hidden size of 4,096, three of them extracted: 3 * 4,096 * 2 bytes a token in bfloat16.
    """
    tokens = want.whole("num_speculative_tokens")
    if tokens is None:
        raise refused("num_speculative_tokens must be provided", "num_speculative_tokens", None)
    if pipeline_parallel > 1:
        raise pipeline_unsupported(draft=True)
    width = checkpoint.text_config.get("hidden_size")
    if not isinstance(width, int):
        raise InputError(f"{checkpoint.file}: the field 'hidden_size' is missing: the hidden states are that wide")
    layer = LayerGeometry(
        name=f"cache_only_layers.{target.num_layers}",
        index=target.num_layers,
        kind=Kind.OWN,
        role=Role.DRAFT,
        layer_class="CacheOnlyAttentionLayer",
        total_kv_heads=len(_layer_ids(want)),
        head_size=width,
        custom_backend="CACHE_ONLY_ATTN",
        own=CustomCache(form=Form.HIDDEN_STATES),
    )
    return Speculation(
        method=METHOD,
        tokens=tokens,
        checkpoint=replace(checkpoint, architectures=(ARCHITECTURE,)),
        draft_tensor_parallel=tensor_parallel,
        padded=not want.flag("disable_padded_drafter_batch"),
        layers=(layer,),
    )


def _layer_ids(want: Wanted) -> tuple[object, ...]:
    """The layers whose states are kept, of `draft_model_config.hf_config`; none where it does not name any."""
    given = want.values.get("draft_model_config")
    config = given.get("hf_config") if isinstance(given, Mapping) else None
    ids = config.get(LAYER_IDS) if isinstance(config, Mapping) else None
    if ids is None:
        return ()
    if not isinstance(ids, (list, tuple)):
        raise InputError(f"--speculative-config: the field 'draft_model_config.hf_config.{LAYER_IDS}' must be a list")
    return tuple(ids)


def one_token_only() -> StartupError:
    """The assertion of the V1 runner's proposer."""
    return StartupError(Stage.LAYERS, "AssertionError", "num_speculative_tokens must be 1", DraftNotBuilt())
