"""KV920: a folder stands in for the model of the same name."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.values import Plan
from kvplan.rules.rule import Manifest, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV920"
REMARK = "model_read_from_folder"
"""The kind of the remark on a launch whose model, or draft, is read so; its detail says which."""

_CONFIG = (
    '{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "num_hidden_layers": 1, "hidden_size": 64,\n'
    ' "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 64, "torch_dtype": "bfloat16"}\n'
)


def check(plan: Plan) -> Iterator[Finding]:
    """One finding a model."""
    for remark in plan.launch.remarks:
        if remark.kind == REMARK:
            yield Finding(
                rule=CODE,
                severity=Severity.NOTE,
                message=remark.detail,
                location=remark.location,
                fix="rename the folder, or write the model as the path that is meant (./…)",
            )


RULE = Rule(
    code=CODE,
    name="model-read-from-folder",
    severity=Severity.NOTE,
    summary="The model's name is that of a folder at hand, which was read in the place of the catalog or the Hub.",
    explanation=(
        "vLLM takes a model's name for a path where such a folder exists, and so does kvplan. Whoever may add a folder "
        "to what is scanned may so have another model checked than the one that will be served: a folder "
        "`zai-org/GLM-5.2-FP8` in the repository stands in for that model wherever kvplan runs in it, while the "
        "container that serves it has no such folder.\n\n"
        "The note cannot be switched off by --select, --ignore or a settings file. Rename the folder, or write "
        "`./folder` in the launch where the folder is what is served."
    ),
    bad=Manifest(
        file="serve.sh", content="vllm serve Qwen/Qwen3-0.6B\n", beside=(("Qwen/Qwen3-0.6B/config.json", _CONFIG),)
    ),
    good=Manifest(
        file="serve.sh", content="vllm serve Qwen/Qwen3-0.6B\n", beside=(("models/qwen/config.json", _CONFIG),)
    ),
    check=check,
)
