"""KV212: a cache dtype that the model's own code does not hand to its layers."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.launch.changing import Change
from kvplan.rules import words
from kvplan.rules.cache.attention import DTYPE_FLAG
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV212"


def check(plan: Plan) -> Iterator[Finding]:
    """At most one finding."""
    settings, geometry = plan.settings, plan.geometry
    if settings is None or geometry is None or settings.requested_cache_dtype in ("auto", settings.model_dtype):
        return
    deaf = tuple(layer.index for layer in geometry.layers if not layer.reads_cache_config)
    if not deaf:
        return
    yield Finding(
        rule=CODE,
        severity=Severity.WARNING,
        message=(
            f"{DTYPE_FLAG} {settings.requested_cache_dtype} does not reach {words.layers(deaf)}: "
            f"{geometry.architecture} builds them without the cache config, so they store {settings.model_dtype}"
        ),
        layers=deaf,
        options=(DTYPE_FLAG,),
        changes=(Change(without=("kv_cache_dtype",)),),
    )


RULE = Rule(
    code=CODE,
    name="cache-dtype-does-not-reach-layers",
    severity=Severity.WARNING,
    summary="The model's own code does not pass the cache dtype to its layers.",
    explanation=(
        "A layer learns the cache dtype, the skip list and the model's window from the cache config that the model's "
        "code hands to it. The classes of Falcon, and of the Baichuan models with ALiBi, leave it out. Their layers "
        "store the model's own dtype whatever `--kv-cache-dtype` says, while parts of the engine still believe in "
        "the quantised one (a skip list raises the block size, for one). Nothing in the log says so.\n\n"
        "Plan with a cache of the model's own dtype."
    ),
    bad=Example(version="0.33.0", command="vllm serve tiiuae/falcon-7b-instruct --kv-cache-dtype fp8"),
    good=Example(version="0.33.0", command="vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp8"),
    check=check,
)
