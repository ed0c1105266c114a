"""The options of state layers, as they stand once the engine config is made.

Sources: `MambaModelConfig`, `NemotronHForCausalLMConfig`, `Qwen3_5ForConditionalGenerationConfig`
(model_executor/models/config.py), `VllmConfig.validate_mamba_block_size` (config/vllm.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.failures import StateBlockWithoutPrefixCaching, StateModeRefused
from kvplan.engine.models import families
from kvplan.engine.models.geometry import ModelGeometry
from kvplan.engine.options import given
from kvplan.engine.stop import config_refuses
from kvplan.engine.values import Stage, Step
from kvplan.history import state as history
from kvplan.launch.values import Launch
from kvplan.releases import Behaviour, Release


@dataclass(frozen=True, slots=True, kw_only=True)
class StateOptions:
    """What state layers are told. Block sizes in tokens."""

    cache_mode: str = "none"
    """`none`: one state a request. `align`: the last ones. `all`: one for every block."""
    block_size: int | None = None
    """`mamba_block_size`: tokens between two states of one request."""
    user_block_size: int | None = None
    cache_dtype: str = "auto"
    recurrent_dtype: str = "auto"
    replay_window: int | None = None
    """Columns of the ring of --use-replayssm, None without it."""
    flashinfer: bool = False
    """Whether `--mamba-backend` is FlashInfer's."""
    speculative_tokens: int = 0
    canvas_tokens: int = 0
    """Tokens of a diffusion model's canvas, for which a request has as many states as for drafts."""
    attention_block_size: int | None = None
    """The attention block size (tokens) of a hybrid model where the config check settles it."""
    page_padded: int | None = None
    """`mamba_page_size_padded`: bytes that a state's page is padded to."""
    steps: tuple[Step, ...] = ()


NO_STATES = StateOptions()

_NEEDS_CHUNKS = {
    False: "Chunked prefill is required for mamba cache mode 'align'.",
    True: "Chunked prefill is required for Mamba prefix caching.",
}
"""The text, by whether there are modes to choose from no longer."""


def resolve(
    checkpoint: Checkpoint,
    launch: Launch,
    geometry: ModelGeometry,
    *,
    prefix_caching: bool,
    max_model_len: int,
    user_block_size: int | None,
    speculative_tokens: int,
    canvas_tokens: int = 0,
) -> StateOptions:
    """The state options of `launch`. Raises StartupStops where vLLM refuses them.

    `canvas_tokens` are those of a diffusion model's canvas.
    """
    release = launch.release
    asked_block = launch.get("mamba_block_size")
    if asked_block is not None and asked_block != max_model_len and not prefix_caching:
        raise config_refuses(
            Stage.OPTIONS,
            StateBlockWithoutPrefixCaching(option="--mamba-block-size"),
            "--mamba-block-size can only be set with --enable-prefix-caching",
        )
    if geometry.state is None:
        return StateOptions(speculative_tokens=speculative_tokens)
    steps: list[Step] = []
    mode = _mode(launch, geometry, prefix_caching, speculative_tokens, steps)
    recurrent = _recurrent_dtype(checkpoint, launch, geometry, steps)
    block = asked_block
    if block is None:
        block = _default_block(release, user_block_size) if prefix_caching else max_model_len
    return StateOptions(
        cache_mode=mode,
        block_size=block,
        user_block_size=asked_block,
        cache_dtype=given.value(launch, "mamba_cache_dtype") or "auto",
        recurrent_dtype=recurrent,
        replay_window=_replay_window(launch),
        flashinfer=backend(launch) == "flashinfer",
        speculative_tokens=speculative_tokens,
        canvas_tokens=canvas_tokens,
        steps=tuple(steps),
    )


def _mode(
    launch: Launch, geometry: ModelGeometry, prefix_caching: bool, speculative_tokens: int, steps: list[Step]
) -> str:
    """`mamba_cache_mode` after the model's config hook."""
    release = launch.release
    asked = None if release.has(history.STATE_MODE_FOLLOWS_PREFIX_CACHING) else launch.get("mamba_cache_mode")
    if not prefix_caching:
        steps.append(_mode_step("none", "prefix caching is off: a request keeps one state"))
        return "none"
    mode, cause, behaviour = _mode_when_caching(release, geometry, asked, speculative_tokens)
    steps.append(_mode_step(mode, cause, behaviour))
    needs_chunks = mode == "align" or not release.has(history.EVERY_STATE_MODE_EXISTS)
    if needs_chunks and launch.get("enable_chunked_prefill") is False:
        raise config_refuses(
            Stage.OPTIONS,
            StateModeRefused(option="--no-enable-chunked-prefill"),
            _NEEDS_CHUNKS[release.has(history.STATE_MODE_FOLLOWS_PREFIX_CACHING)],
            raised="AssertionError",
        )
    if mode == "align" and speculative_tokens and release.has(history.ALIGN_EXCLUDES_DRAFTS):
        raise config_refuses(
            Stage.OPTIONS,
            StateModeRefused(option="--speculative-config"),
            "Mamba cache mode 'align' is currently not compatible with speculative decoding.",
            raised="AssertionError",
        )
    return mode


def _mode_when_caching(
    release: Release, geometry: ModelGeometry, asked: str | None, speculative_tokens: int
) -> tuple[str, str, Behaviour | None]:
    if asked == "all" and not geometry.caches_every_state:
        return "align", "--mamba-cache-mode all, which this model class cannot do", None
    if asked in ("all", "align"):
        return asked, f"--mamba-cache-mode {asked}", None
    if geometry.caches_every_state and release.has(history.EVERY_STATE_CACHED_BY_DEFAULT):
        if speculative_tokens and release.has(history.DRAFTS_KEEP_LAST_STATES):
            return "align", "prefix caching with speculative decoding", history.DRAFTS_KEEP_LAST_STATES
        return (
            "all",
            "prefix caching, and the model class can cache every state",
            history.EVERY_STATE_CACHED_BY_DEFAULT,
        )
    return "align", "prefix caching: the last states of a request are kept", history.EVERY_STATE_CACHED_BY_DEFAULT


def _mode_step(mode: str, cause: str, behaviour: Behaviour | None = None) -> Step:
    return Step(
        Stage.OPTIONS, "cache.mamba_cache_mode", mode, cause, option="--enable-prefix-caching", behaviour=behaviour
    )


def _default_block(release: Release, user_block_size: int | None) -> int | None:
    """`mamba_block_size` with prefix caching: the attention block size as the config has it then."""
    if user_block_size is None and release.has(history.STATE_BLOCK_DEFAULT_UNSET):
        return None
    return 16 if user_block_size is None else user_block_size


def _recurrent_dtype(checkpoint: Checkpoint, launch: Launch, geometry: ModelGeometry, steps: list[Step]) -> str:
    asked = str(given.value(launch, "mamba_ssm_cache_dtype") or "auto")
    hook = families.hook_of(geometry.architecture, launch.release) if asked == "auto" else None
    hooked = None
    if hook is not None and hook.state_dtype is not None:
        hooked = hook.state_dtype(checkpoint.text_config, launch.release)
    dtype = asked if hooked is None else hooked.dtype
    if hooked is not None:
        cause = hooked.cause
    else:
        cause = "auto: the layer class takes the dtype it is written for" if asked == "auto" else "as asked"
    steps.append(
        Step(
            Stage.OPTIONS,
            "cache.mamba_ssm_cache_dtype",
            dtype,
            cause,
            option="--mamba-ssm-cache-dtype",
            behaviour=None if hooked is None else hooked.behaviour,
        )
    )
    return dtype


def backend(launch: Launch) -> str:
    nested = launch.get("mamba_config")
    asked = launch.get("mamba_backend")
    if asked is None and isinstance(nested, Mapping):
        asked = nested.get("backend")
    return str(asked or "triton").lower()


def _replay_window(launch: Launch) -> int | None:
    """Columns of the ring that --use-replayssm keeps beside each state."""
    return int(given.value(launch, "replayssm_buffer_len") or 0) if launch.get("use_replayssm") else None
