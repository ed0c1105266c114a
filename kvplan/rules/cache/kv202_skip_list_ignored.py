"""KV202: layers named by the skip list whose class does not look at it in this release."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.facade import Role
from kvplan.engine.values import Plan
from kvplan.history.cache import MLA_HONOURS_SKIP_LIST
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.cache.attention import SKIP_FLAG, attention_layers, mla_indices
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV202"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding for MLA layers and one for layers that no release skips."""
    latent = mla_indices(plan)
    ignored = plan.skip.ignored_layers
    upgradable = tuple(index for index in ignored if index in latent and not plan.release.has(MLA_HONOURS_SKIP_LIST))
    rest = tuple(index for index in ignored if index not in upgradable)
    if upgradable:
        yield Finding(
            rule=CODE,
            severity=Severity.WARNING,
            message=(
                f"{words.release_name(plan)} ignores the skip list for MLA layers: {words.layers(upgradable)} "
                f"{_stays(plan, upgradable)}"
            ),
            layers=upgradable,
            options=(SKIP_FLAG,),
            changes=(
                Change(release=MLA_HONOURS_SKIP_LIST.since),
                Change(without=("kv_cache_dtype_skip_layers",)),
            ),
        )
    if rest:
        classes = sorted({layer.layer_class for layer in plan.layers if layer.index in rest})
        yield Finding(
            rule=CODE,
            severity=Severity.WARNING,
            message=(
                f"the skip list does not reach {words.listed(classes) or 'these layers'}: "
                f"{words.layers(rest)} {_stays(plan, rest)}"
            ),
            layers=rest,
            options=(SKIP_FLAG,),
            fix=f"drop these layers from {SKIP_FLAG}",
        )


def _stays(plan: Plan, concerned: tuple[int, ...]) -> str:
    """`stay fp8_ds_mla`."""
    if all(layer.role is Role.STATE for layer in plan.layers if layer.index in concerned):
        return f"{'keeps a state' if len(concerned) == 1 else 'keep states'}, which no cache dtype reaches"
    layers = [layer for layer in attention_layers(plan) if layer.index in concerned]
    dtypes = {dtype for layer in layers if (dtype := layer.cache_dtype or layer.storage_dtype) is not None}
    verb = "stays" if len(concerned) == 1 else "stay"
    return f"{verb} {words.listed(sorted(dtypes))}" if dtypes else f"{verb} as the others"


RULE = Rule(
    code=CODE,
    name="skip-list-ignored",
    severity=Severity.WARNING,
    summary="The skip list names layers whose class does not look at it in this release.",
    explanation=(
        "`--kv-cache-dtype-skip-layers` is read by each layer class for itself. `Attention` reads it from "
        "0.19.1 on, `MLAAttention` (DeepSeek, Kimi K2, GLM-4.7-Flash, GLM-5) only from 0.26.0 on. Before that "
        "the tokens are accepted and nothing happens: the layers are quantised like the others. 0.25.x raises "
        "the block size for such a list all the same.\n\n"
        "Upgrade to 0.26.0 or later. On an older release the choice is all layers or none."
    ),
    references=("vllm#47309",),
    since="0.19.1",
    bad=Example(
        version="0.24.0",
        command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1",
    ),
    good=Example(
        version="0.26.0",
        command="vllm serve GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1",
    ),
    check=check,
)
