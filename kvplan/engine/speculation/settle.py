"""A `--speculative-config` settled: method, draft config, number of tokens, the draft's layers.

Source: `SpeculativeConfig.__post_init__` and `_verify_args` (config/speculative.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kvplan.checkpoint.speculators import KIND
from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.failures import (
    DraftNotBuilt,
    HeadsNotDivisible,
    NoStatesForDraft,
    SpeculativeConfigRefused,
    UnknownArchitecture,
)
from kvplan.engine.models import build as build_model
from kvplan.engine.models import draft_names, drafts, registered, resolve
from kvplan.engine.models.geometry import LayerGeometry, ModelGeometry, Role
from kvplan.engine.models.refusals import Refused, Unplaceable
from kvplan.engine.options import lengths
from kvplan.engine.parallelism.stages import stage_sizes
from kvplan.engine.parallelism.verify import pipeline_unsupported
from kvplan.engine.speculation import auxiliary, hidden_states
from kvplan.engine.speculation import method as methods
from kvplan.engine.speculation.rewriting import Draft, rewrite
from kvplan.engine.speculation.values import Speculation
from kvplan.engine.speculation.wanted import Wanted, refused, wanted
from kvplan.engine.stop import StartupStops, config_refuses, stop
from kvplan.engine.values import Stage, StartupError
from kvplan.errors import InputError
from kvplan.history import speculation as history
from kvplan.launch.values import Launch
from kvplan.releases import ALWAYS, Release, Span

AUXILIARY_STATES: Mapping[str, Span] = {
    "llama": ALWAYS,
    "qwen": ALWAYS,
    "minicpm": ALWAYS,
    "gpt_oss": ALWAYS,
    "hunyuan_vl": ALWAYS,
    "hunyuan_v1_dense": ALWAYS,
    "afmoe": ALWAYS,
    "nemotron_h": Span(since="0.17.1"),
    "deepseek_v2": Span(since="0.18.1"),
    "deepseek_v3": Span(since="0.18.1"),
    "kimi_k2": Span(since="0.18.1"),
    "kimi_k25": Span(since="0.18.1"),
    "minimax_m2": Span(since="0.19.1"),
    "gemma4": Span(since="0.19.1"),
    "laguna": Span(since="0.21.0"),
}
"""Parts of model types whose targets hand out the hidden states that EAGLE 3 needs, and since when (to 0.21.0)."""

SUFFIX_TREE_DEPTH = 24
"""Tokens that suffix decoding speculates at most where nobody says otherwise."""


def settle(
    checkpoint: Checkpoint,
    launch: Launch,
    target: ModelGeometry,
    *,
    draft: Checkpoint | None,
    tensor_parallel: int,
    pipeline_parallel: int,
    max_model_len: int,
) -> Speculation | None:
    """What the launch's speculative decoding is; None without it.

    `draft` is the checkpoint of the model that the config names, or of the target without --hf-overrides where it
    names none; `max_model_len` is the target's, in tokens. Raises StartupStops where vLLM refuses, InputError where
    kvplan cannot know the draft.
    """
    want, release = wanted(launch), launch.release
    if want is None:
        return None
    method = methods.asked_method(want, release)
    methods.check_model_given(want, method)
    if method == hidden_states.METHOD:
        found = hidden_states.settle(
            want, checkpoint, target, tensor_parallel=tensor_parallel, pipeline_parallel=pipeline_parallel
        )
        missing = _states_missing(method, target, {}, release)
        return found if missing is None else replace(found, failure=missing)
    if method in methods.MODELLESS:
        return _without_model(want, str(method), tensor_parallel)
    drafted = _drafted(
        want, method, checkpoint, launch, draft, tensor_parallel=tensor_parallel, max_model_len=max_model_len
    )
    if isinstance(drafted, str):
        return _without_model(want, drafted, tensor_parallel)
    method, rewritten, tokens, ranks = drafted.method, drafted.draft, drafted.tokens, drafted.tensor_parallel
    model, config = want.text("model"), rewritten.checkpoint.config
    settled = Speculation(
        method=method,
        tokens=tokens,
        reference=model,
        checkpoint=rewritten.checkpoint,
        cache_dtype=_dtype(want),
        attention_backend=_backend(want),
        draft_tensor_parallel=ranks,
        parallel_drafting=want.flag("parallel_drafting") or method in ("dflash", "dspark"),
        padded=not want.flag("disable_padded_drafter_batch"),
        mixed_vocabularies=want.flag("use_heterogeneous_vocab"),
        dynamic=want.values.get("num_speculative_tokens_per_batch_size") is not None,
        adaptive=want.flag("enable_adaptive_verification"),
        non_causal=_non_causal(method, config),
        modules=_modules(method, rewritten.checkpoint),
        max_model_len=want.whole("max_model_len"),
    )
    if (
        pipeline_parallel > 1
        and release.has(history.DRAFT_PIPELINED_LIKE_TARGET)
        and not drafts.supports_pipeline(rewritten.checkpoint, release)
    ):
        raise pipeline_unsupported(draft=True)
    _check_target(method, checkpoint, release)
    if method == "draft_model":
        _check_vocabulary(want, checkpoint, rewritten.checkpoint)
        geometry = _standalone(rewritten.checkpoint, release)
        layers = _last_stage(geometry, pipeline_parallel)
        return replace(settled, geometry=geometry, layers=layers)
    try:
        layers = _layers(rewritten.checkpoint, release, target, tokens, pipeline_parallel, launch)
    except Refused as refusal:
        if refusal.stage != "layers":
            raise _unknown(refusal) from None
        return replace(settled, failure=_not_built(refusal))
    failure = _unquantised(want, rewritten.checkpoint, release) or _states_missing(method, target, config, release)
    return replace(settled, layers=layers, failure=failure)


def check(checkpoint: Checkpoint, launch: Launch, draft: Checkpoint | None, *, max_model_len: int) -> None:
    """What of it is refused whatever the target's layers are. Raises StartupStops."""
    want = wanted(launch)
    if want is None:
        return
    method = methods.asked_method(want, launch.release)
    methods.check_model_given(want, method)
    if method == hidden_states.METHOD or method in methods.MODELLESS or (want.text("model") and draft is None):
        return
    tensor = launch.get("tensor_parallel_size") or 1
    _drafted(want, method, checkpoint, launch, draft, tensor_parallel=tensor, max_model_len=max_model_len)


@dataclass(frozen=True, slots=True)
class _Drafted:
    """A draft before the target's layers are looked at."""

    method: str
    draft: Draft
    """Under the architecture name that its method gives it."""
    tokens: int
    tensor_parallel: int


def _drafted(
    want: Wanted,
    method: str | None,
    checkpoint: Checkpoint,
    launch: Launch,
    draft: Checkpoint | None,
    *,
    tensor_parallel: int,
    max_model_len: int,
) -> _Drafted | str:
    """The draft that `method` and the checkpoints make, or the method where it turns out to have no model."""
    release, model = launch.release, want.text("model")
    if model is None and method not in ("mtp", "dspark"):
        raise refused("num_speculative_tokens must be provided with speculative model", "num_speculative_tokens", None)
    if model is not None and draft is None:
        raise InputError(f"--speculative-config: the draft model {model} was not read; give its directory or config")
    if draft is not None:
        draft = _of_speculators(draft, release)
    try:
        rewritten = rewrite(draft or checkpoint, release)
    except Refused as refusal:
        raise refused(refusal.message, "method", method) from None
    longest = want.whole("max_model_len")
    _check_class(rewritten.checkpoint, release)
    _check_length(longest, rewritten.checkpoint, launch)
    found = methods.detected(method, rewritten.checkpoint, model or checkpoint.reference, checkpoint, release)
    if found in ("medusa", "mlp_speculator"):
        return found
    rewritten = _named(found, rewritten, checkpoint)
    tokens = _tokens(want, found, rewritten, checkpoint, release)
    ranks = _tensor_parallel(want, tensor_parallel)
    _check_longer(longest, max_model_len)
    heads = rewritten.checkpoint.text_config.get("num_attention_heads")
    if isinstance(heads, int):
        _check_heads(heads, ranks)
    return _Drafted(found, rewritten, tokens, ranks)


def _of_speculators(draft: Checkpoint, release: Release) -> Checkpoint:
    """What the release makes of a draft in the speculators format; any other stays as it is. Raises StartupStops."""
    kind = draft.config.get(KIND)
    if kind is None:
        return draft
    since = draft_names.SPECULATORS.get(kind)
    if since is not None and not release.has(since):
        known = tuple(name for name, of in draft_names.SPECULATORS.items() if of is None or release.has(of))
        raise refused(
            f"Expected one of: {', '.join(known)}. Please ensure you're loading a speculators-format model.",
            "model",
            draft.reference,
            known,
        )
    names, config = draft.architectures, dict(draft.config)
    if kind in draft_names.SPECULATORS_FIRST and not release.has(history.SPECULATORS_NAME_BY_TYPE):
        names = (draft_names.SPECULATORS_FIRST[kind],)
    if not release.has(history.SPECULATORS_MAY_BE_CAUSAL):
        config.pop("dflash_config", None)
    nested = draft.text_config is not draft.config
    return replace(draft, architectures=names, config=config, text_config=draft.text_config if nested else config)


def _unquantised(want: Wanted, draft: Checkpoint, release: Release) -> StartupError | None:
    """The refusal of a draft that is to be quantised on loading and says nothing of quantisation in its own config.

    Its class looks there for the settings and then among --hf-overrides, for which the speculative config has put a
    function of its own.
    """
    if not release.has(history.DRAFT_QUANTISED_BY_ITS_CONFIG) or draft.quantization is not None:
        return None
    classes = (registered.lookup(name, release) for name in draft.architectures)
    reads = any(found is not None and found.module in draft_names.READ_DRAFT_QUANTISATION for found in classes)
    asked = want.text("quantization")
    if asked is None or not reads:
        return None
    told = release.has(history.OVERRIDES_OF_DRAFT_HELD)
    return StartupError(
        Stage.LAYERS,
        "ValueError" if told else "AttributeError",
        "hf_overrides must be a dict for get_quant_config to get the quantization config from it."
        if told
        else "'function' object has no attribute 'get'",
        SpeculativeConfigRefused(
            key="quantization", value=asked, why=f"the config of {draft.reference} has no quantisation section"
        ),
    )


def _states_missing(
    method: str, target: ModelGeometry, draft: Mapping[str, object], release: Release
) -> StartupError | None:
    """The refusal of a target that does not hand out the hidden states that its draft reads."""
    own = draft.get("eagle_config")
    unread = isinstance(own, Mapping) and own.get("use_aux_hidden_state") is False
    if method not in auxiliary.METHODS or unread or auxiliary.hands_out(target.architecture, release):
        return None
    return StartupError(
        Stage.LAYERS,
        "RuntimeError",
        "Model does not support EAGLE3 interface but aux_hidden_state_outputs was requested",
        NoStatesForDraft(
            architecture=target.architecture, method=method, since=auxiliary.first_release(target.architecture)
        ),
    )


def _check_target(method: str, target: Checkpoint, release: Release) -> None:
    """Older releases list the kinds of targets that EAGLE 3 and DFlash drafts may have."""
    if method not in ("eagle3", "dflash") or not release.has(history.AUXILIARY_STATES_BY_MODEL_TYPE):
        return
    known = tuple(name for name, span in AUXILIARY_STATES.items() if release.within(span))
    model_type = str(target.text_config.get("model_type") or target.model_type)
    if not any(name in model_type for name in known):
        raise refused(
            f"{method} is only supported for {list(known)} models. Got "
            f"self.target_model_config.hf_text_config.model_type={model_type!r}",
            "method",
            method,
        )


def _without_model(want: Wanted, method: str, tensor_parallel: int) -> Speculation:
    tokens = want.whole("num_speculative_tokens")
    if tokens is None and method == "suffix":
        tokens = int(want.values.get("suffix_decoding_max_tree_depth") or SUFFIX_TREE_DEPTH)
    if method.startswith("ngram"):
        _check_lookup(want)
    if tokens is None:
        raise refused(
            "num_speculative_tokens must be provided with speculative model unless the draft model config contains "
            "an n_predict parameter.",
            "num_speculative_tokens",
            None,
        )
    return Speculation(
        method=method,
        tokens=tokens,
        draft_tensor_parallel=tensor_parallel,
        padded=not want.flag("disable_padded_drafter_batch"),
        dynamic=want.values.get("num_speculative_tokens_per_batch_size") is not None,
    )


def _check_lookup(want: Wanted) -> None:
    longest, shortest = want.whole("prompt_lookup_max"), want.whole("prompt_lookup_min")
    if longest is not None and shortest is not None and shortest > longest:
        raise refused(
            f"prompt_lookup_min={shortest} must be <= prompt_lookup_max={longest}", "prompt_lookup_min", shortest
        )


def _named(method: str, draft: Draft, target: Checkpoint) -> Draft:
    """The draft under the architecture name that its method gives it."""
    found = draft.checkpoint
    names = found.architectures
    match method:
        case "eagle":
            names = tuple(name if name.startswith("Eagle") else f"Eagle{name}" for name in names)
        case "eagle3":
            names = tuple(
                name if name.startswith(("Eagle3", "Peagle", "PEagle")) or name.endswith("Eagle3") else f"Eagle3{name}"
                for name in names
            )
        case "dflash":
            names = tuple(
                name
                if name.startswith("DFlash") or name.endswith("DFlash") or name in draft_names.DFLASH_KEEPS_NAME
                else f"DFlash{name}"
                for name in names
            )
        case "dspark":
            alias = next((other for name in names if (other := _dspark_alias(name, found)) is not None), None)
            if alias is not None:
                names = (alias,)
            elif not draft_names.STANDALONE_DSPARK.intersection(names):
                ships = draft_names.DSPARK_IN_TARGET
                names = (ships.get(target.model_type, draft_names.DSPARK_IN_OTHER_TARGETS),)
    return draft if names == found.architectures else replace(draft, checkpoint=replace(found, architectures=names))


def _dspark_alias(name: str, draft: Checkpoint) -> str | None:
    return draft_names.DSPARK_ALIASES.get((name, draft.model_type))


def _tokens(want: Wanted, method: str, draft: Draft, target: Checkpoint, release: Release) -> int:
    """The number of tokens to speculate. Raises StartupStops where it is missing or does not fit the draft."""
    tokens, text = want.whole("num_speculative_tokens"), draft.checkpoint.text_config
    block = text.get("dspark_block_size") if method == "dspark" else None
    predicted = draft.n_predict
    if isinstance(block, int) and target.model_type in draft_names.DSPARK_BLOCK_IS_N_PREDICT:
        predicted = block
    if method == "dspark" and release.has(history.DSPARK_WIDTH_IS_BLOCK):
        if tokens is None:
            tokens = text.get("block_size") or block
    elif predicted is not None:
        if tokens is None:
            tokens = predicted
        elif predicted == 0:
            raise _no_layers_to_draft_with(draft.checkpoint)
        elif tokens > predicted and tokens % predicted:
            raise refused(
                f"num_speculative_tokens:{tokens} must be divisible by n_predict={predicted}",
                "num_speculative_tokens",
                tokens,
            )
    if not isinstance(tokens, int):
        raise refused(
            "A speculative model was provided, but `num_speculative_tokens` was not provided",
            "num_speculative_tokens",
            None,
        )
    if isinstance(block, int) and tokens < block and release.has(history.DSPARK_NEEDS_WHOLE_BLOCK):
        raise refused(
            f"DSpark requires num_speculative_tokens >= dspark_block_size ({block}); got {tokens}.",
            "num_speculative_tokens",
            tokens,
        )
    for name in draft.checkpoint.architectures:
        behaviour, message = draft_names.ONE_TOKEN.get(name, (None, ""))
        if tokens != 1 and behaviour is not None and release.has(behaviour):
            raise refused(message, "num_speculative_tokens", tokens, ("1",))
    return tokens


def _no_layers_to_draft_with(draft: Checkpoint) -> StartupStops:
    """vLLM divides the number of tokens by that of the MTP layers."""
    return stop(
        Stage.OPTIONS,
        SpeculativeConfigRefused(key="method", value="mtp", why=f"the config of {draft.reference} has no MTP layers"),
        "integer modulo by zero",
        exception="ZeroDivisionError",
    )


def _dtype(want: Wanted) -> str | None:
    return want.text("kv_cache_dtype")


def _backend(want: Wanted) -> str | None:
    name = want.text("attention_backend")
    return None if name is None or name.lower() == "auto" else name


def _tensor_parallel(want: Wanted, target: int) -> int:
    if want.values.get("tensor_parallel_size") is not None:
        raise refused(
            "'tensor_parallel_size' is not a valid argument in the speculative_config. Please pass "
            "'draft_tensor_parallel_size' instead.",
            "tensor_parallel_size",
            want.values["tensor_parallel_size"],
        )
    asked = want.whole("draft_tensor_parallel_size")
    if asked is None:
        return target
    if asked not in (1, target):
        raise refused(
            f"speculative_draft_tensor_parallel_size={asked} cannot be other value than 1 or target model "
            "tensor_parallel_size",
            "draft_tensor_parallel_size",
            asked,
            ("1", str(target)),
        )
    return asked


def _check_class(draft: Checkpoint, release: Release) -> None:
    """The draft's config has to name a class that the release knows, before its method gives it another name."""
    if not draft.architectures or any(registered.lookup(name, release) for name in draft.architectures):
        return
    try:
        resolve.resolve(draft.architectures, release, runner="draft")
    except Refused as refusal:
        raise _unknown(refusal) from None


def _check_length(asked: int | None, draft: Checkpoint, launch: Launch) -> None:
    """The draft's config bounds the length that the speculative config asks for as the target's does."""
    if asked is not None:
        lengths.check_longest(asked, draft, launch)


def _check_longer(asked: int | None, target: int) -> None:
    if asked is not None and asked > target:
        raise refused(
            f"speculative_max_model_len={asked} cannot be larger than target_max_model_len={target}",
            "max_model_len",
            asked,
        )


def _check_heads(heads: int, tensor_parallel: int) -> None:
    if heads and heads % tensor_parallel:
        raise config_refuses(
            Stage.PARALLEL,
            HeadsNotDivisible(heads=heads, tensor_parallel=tensor_parallel),
            f"Total number of attention heads ({heads}) must be divisible by tensor parallel size ({tensor_parallel}).",
        )


def _check_vocabulary(want: Wanted, target: Checkpoint, draft: Checkpoint) -> None:
    ours, theirs = target.text_config.get("vocab_size"), draft.text_config.get("vocab_size")
    if want.flag("use_heterogeneous_vocab") or ours == theirs:
        return
    raise refused(
        f"Target and draft model should have the same vocabulary size. Target model vocab_size={ours}. Draft model "
        f"vocab_size={theirs}.",
        "model",
        draft.reference,
    )


def _modules(method: str, draft: Checkpoint) -> int:
    """MTP modules that take turns in one step (`num_nextn_predict_layers` of the draft's config)."""
    count = draft.config.get("num_nextn_predict_layers", 1)
    return count if method == "mtp" and isinstance(count, int) else 1


def _non_causal(method: str, config: Mapping[str, object]) -> bool:
    """Whether some layer of a DFlash or DSpark draft attends in both directions."""
    if method == "dspark":
        return True
    if method != "dflash":
        return False
    causal = config.get("is_causal")
    own = config.get("dflash_config")
    if causal is None and isinstance(own, Mapping):
        causal = own.get("causal")
    if causal is not None:
        return not causal
    types = config.get("layer_types")
    return not (isinstance(types, (list, tuple)) and types and all(kind == "sliding_attention" for kind in types))


def _standalone(draft: Checkpoint, release: Release) -> ModelGeometry:
    try:
        return build_model(draft, release, prefix="draft_model")
    except Refused as refusal:
        raise _unknown(refusal) from None
    except Unplaceable as unplaceable:
        raise InputError(f"--speculative-config: the draft model {draft.reference}: {unplaceable}") from None


def _last_stage(draft: ModelGeometry, stages: int) -> tuple[LayerGeometry, ...]:
    """The draft's layers on the last pipeline stage, which alone runs it, split like any model."""
    first = sum(stage_sizes(draft.num_layers, stages, None)[:-1])
    return tuple(replace(layer, role=Role.DRAFT) for layer in draft.layers if layer.index >= first)


def _layers(
    draft: Checkpoint, release: Release, target: ModelGeometry, tokens: int, stages: int, launch: Launch
) -> tuple[LayerGeometry, ...]:
    partition = launch.environment.get("VLLM_PP_LAYER_PARTITION")
    try:
        return drafts.build(
            draft,
            release,
            target,
            stage_layers=stage_sizes(target.num_layers, stages, partition)[-1],
            tokens=tokens,
        )
    except Unplaceable as unplaceable:
        raise InputError(f"--speculative-config: the draft {draft.reference}: {unplaceable}") from None


def _unknown(refusal: Refused) -> Exception:
    return stop(Stage.OPTIONS, UnknownArchitecture(), refusal.message, exception=refusal.exception)


def _not_built(refusal: Refused) -> StartupError:
    return StartupError(Stage.LAYERS, refusal.exception, refusal.message, DraftNotBuilt())
