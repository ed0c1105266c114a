"""What speculative decoding does to the model runner, to scheduling and to the batch.

Sources: `use_v2_model_runner`, `_get_v2_model_runner_unsupported_features`, `_set_max_num_scheduled_tokens` and the
asynchronous scheduling part of `VllmConfig.__post_init__` (config/vllm.py).
"""

from __future__ import annotations

from kvplan.engine.failures import NoRoomForDraft
from kvplan.engine.models.draft_names import DFLASH2
from kvplan.engine.pool.graphs import captures_decode_steps
from kvplan.engine.speculation.values import Speculation
from kvplan.engine.speculation.wanted import refused
from kvplan.engine.stop import config_refuses
from kvplan.engine.values import Stage
from kvplan.history import speculation as history
from kvplan.launch.values import Launch
from kvplan.releases import Release


def forces_v2(speculation: Speculation | None, release: Release) -> bool:
    """Whether the draft runs the V2 model runner whatever the target would."""
    if speculation is None:
        return False
    if speculation.method == "dspark" and release.has(history.DSPARK_FORCES_V2):
        return True
    if speculation.method != "dflash" or speculation.checkpoint is None:
        return False
    if release.has(history.MIXED_DFLASH_FORCES_V2) and len({layer.sliding_window for layer in speculation.layers}) > 1:
        return True
    return release.has(history.DFLASH2_FORCES_V2) and bool(DFLASH2.intersection(speculation.checkpoint.architectures))


def keeps_v1(speculation: Speculation | None, release: Release, pipeline: int) -> bool:
    """Whether the V2 runner lacks this speculation, so that a launch falls back to V1."""
    if speculation is None:
        return False
    method = speculation.method
    have = {"eagle", "eagle3", "mtp"}
    for entry, names in (
        (history.V2_RUNS_DFLASH, ("dflash",)),
        (history.V2_RUNS_DSPARK, ("dspark",)),
        (history.V2_RUNS_HIDDEN_STATES, ("extract_hidden_states",)),
        (history.V2_RUNS_DRAFT_MODELS, ("draft_model",)),
        (history.V2_RUNS_NGRAM, ("ngram", "ngram_gpu")),
    ):
        if release.has(entry):
            have.update(names)
    if method not in have:
        return True
    parallel = speculation.parallel_drafting and method not in ("dflash", "dspark")
    mixed = speculation.mixed_vocabularies and release.has(history.V2_REFUSES_MIXED_VOCABULARIES)
    dynamic = speculation.dynamic and not release.has(history.V2_DYNAMIC_LENGTH)
    staged = method == "eagle3" and pipeline > 1 and not release.has(history.V2_RUNS_EAGLE3_PIPELINED)
    return parallel or mixed or dynamic or staged


def stops_async(speculation: Speculation | None, release: Release, runner: str, *, asked: bool) -> str | None:
    """Why scheduling cannot be asynchronous, None where it can; `asked` for an explicit --async-scheduling."""
    if speculation is None or (runner == "V2" and release.has(history.ASYNC_WITH_EVERY_METHOD_ON_V2)):
        return None
    able = {"eagle", "eagle3", "mtp", "dflash", "dspark", "extract_hidden_states"}
    if release.has(history.ASYNC_WITH_GPU_NGRAM):
        able.add("ngram_gpu")
    if asked or release.has(history.ASYNC_BY_DEFAULT_WITH_DRAFT_MODELS):
        able.add("draft_model")
    if speculation.method not in able:
        return f"{speculation.method}-based speculative decoding"
    return None if speculation.padded else "disable_padded_drafter_batch=True"


def check_adaptive(speculation: Speculation | None, launch: Launch, pipeline: int) -> None:
    """What adaptive verification cannot be combined with. Raises StartupStops."""
    if speculation is None or not speculation.adaptive:
        return
    release = launch.release
    if speculation.method != "dspark" and release.has(history.ADAPTIVE_VERIFICATION_OF_DSPARK_ONLY):
        raise refused(
            "Adaptive verification only supported with DSpark", "enable_adaptive_verification", True, ("false",)
        )
    for hindered, what in (
        (bool(launch.get("enable_lora")), "LoRA"),
        (not captures_decode_steps(launch), _NO_GRAPHS),
        (pipeline > 1, "pipeline parallelism"),
    ):
        if hindered:
            raise refused(_hindrance(what, release), "enable_adaptive_verification", True, ("false",))


_NO_GRAPHS = "enforce_eager/cudagraph_mode=none"


def _hindrance(what: str, release: Release) -> str:
    if release.has(history.ADAPTIVE_VERIFICATION_HINDERED_BY_RUNNER):
        return f"Model Runner V2 does not yet support: adaptive verification with {what}"
    if what == _NO_GRAPHS and release.has(history.ADAPTIVE_VERIFICATION_NEEDS_FULL_GRAPHS):
        return "Adaptive verification requires full CUDA graphs."
    return f"Adaptive verification is not currently compatible with {what}"


def check_batch(speculation: Speculation | None, release: Release, batched: int, seqs: int) -> None:
    """Refuse a batch that has no room for the draft's own tokens. Raises StartupStops."""
    if speculation is None:
        return
    if release.has(history.BATCH_EXCEEDS_LOOKAHEAD):
        slots = speculation.lookahead
        text = _TOO_FEW.format(batched=batched, name="num_lookahead_tokens", slots=slots)
    elif release.has(history.DRAFT_SLOTS_OF_ONE_REQUEST):
        slots = _slots(speculation, one_request=True)
        text = _TOO_FEW.format(batched=batched, name="scheduled_token_delta", slots=slots)
    elif release.has(history.DRAFT_SLOTS_PER_SEQUENCE):
        slots = _slots(speculation, one_request=False) * seqs
        text = _NOTHING_LEFT.format(left=batched - slots)
    else:
        return
    if batched > slots:
        return
    raise config_refuses(Stage.OPTIONS, NoRoomForDraft(batched_tokens=batched, slots=slots), text)


_TOO_FEW = (
    "VllmConfig does not have enough slots to schedule a token and support the speculative decoding settings. Got "
    "max_num_batched_tokens={batched} and {name}={slots}."
)
_NOTHING_LEFT = (
    "max_num_scheduled_tokens is set to {left} based on the speculative decoding settings, which does not allow any "
    "tokens to be scheduled. Increase max_num_batched_tokens or decrease num_speculative_tokens or max_num_seqs."
)


def _slots(speculation: Speculation, *, one_request: bool) -> int:
    """Extra slots of one request in a drafting batch (`max_num_new_slots_for_drafting`)."""
    if one_request and speculation.method == "dflash":
        return speculation.tokens
    slots = speculation.tokens - 1 if speculation.parallel_drafting else 0
    return slots + (1 if speculation.method == "draft_model" else 0)
