"""Whether the config can be read without running code from the model's repository.

Transformers runs the code that `auto_map` names only where neither it nor vLLM has a config class for the model
type. Source: `get_config` and `_CONFIG_REGISTRY` (transformers_utils/config.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.checkpoint.values import Checkpoint
from kvplan.engine.failures import RemoteCodeNeeded
from kvplan.engine.stop import config_refuses
from kvplan.engine.values import Stage
from kvplan.launch.values import Launch
from kvplan.releases import ALWAYS, Span

OPTION = "--trust-remote-code"

CLASSES_OF_VLLM: Mapping[str, Span] = {
    "RefinedWeb": ALWAYS,
    "RefinedWebModel": ALWAYS,
    "alpamayo2_super": Span(since="0.33.0"),
    "arctic": Span(since="0.26.0", until="0.28.0"),
    "bagel": ALWAYS,
    "bailing_moe_v3_vl": Span(since="0.30.0"),
    "chatglm": ALWAYS,
    "colqwen3": Span(since="0.17.1"),
    "deepseek_v41": Span(since="0.30.0"),
    "deepseek_vl_v2": ALWAYS,
    "dory": Span(since="0.33.0"),
    "dots3_note": Span(since="0.28.0"),
    "eagle": ALWAYS,
    "fireredlid": Span(since="0.20.2", until="0.28.0"),
    "flint": Span(since="0.33.0"),
    "funaudiochat": ALWAYS,
    "hyperclovax_vlm": Span(since="0.21.0", until="0.28.0"),
    "inkling_model": Span(since="0.26.0"),
    "isaac": ALWAYS,
    "jais": Span(until="0.22.1"),
    "k3_dspark": Span(since="0.27.1"),
    "kimi_k2": Span(since="0.18.1"),
    "kimi_k3": Span(since="0.27.1"),
    "kimi_vl": ALWAYS,
    "medusa": Span(until="0.32.0"),
    "midashenglm": ALWAYS,
    "minimax_m3_mtp": Span(since="0.24.0"),
    "mlp_speculator": Span(until="0.32.0"),
    "moondream3": Span(since="0.21.0"),
    "muse_spark_dspark": Span(since="0.33.0"),
    "musespark1x_text": Span(since="0.33.0"),
    "openvla": Span(since="0.22.1"),
    "ops_colqwen3": Span(since="0.17.1"),
    "ovis": ALWAYS,
    "qwen3_vl_nemotron_embed": Span(since="0.17.1"),
    "speculators": ALWAYS,
    "step3_text": ALWAYS,
    "step3_vl": ALWAYS,
    "step5": Span(since="0.33.0"),
    "step5_vl": Span(since="0.33.0"),
    "tarsier2": Span(until="0.24.0"),
    "ultravbert": Span(since="0.33.0"),
    "ultravox": ALWAYS,
    "umm": Span(since="0.20.2", until="0.28.0"),
    "unlimited-ocr": Span(since="0.25.1"),
}
"""Model types that vLLM brings a config class for and transformers may not, with the releases that do."""


_ALSO_IN_TRANSFORMERS = frozenset({"kimi_linear", "minimax_m3_vl", "qwen3_asr"})
"""Model types that kvplan reads by its own conventions although transformers has a class for them."""


def check(checkpoint: Checkpoint, launch: Launch) -> None:
    """Raises StartupStops where vLLM wants --trust-remote-code to read the config.

    With the option, a config of an unknown model type is taken to come with code, although it may name none.
    """
    if launch.get("trust_remote_code"):
        return
    listed = CLASSES_OF_VLLM.get(checkpoint.model_type)
    if listed is not None and launch.release.within(listed):
        return
    unknown = checkpoint.normalised_by == "conventions" and checkpoint.model_type not in _ALSO_IN_TRANSFORMERS
    if not unknown and listed is None:
        return
    mapped = checkpoint.config.get("auto_map")
    code = mapped.get("AutoConfig") if isinstance(mapped, Mapping) else None
    name = checkpoint.name
    if code:
        text = (
            f"The repository {name} contains custom code which must be executed to correctly load the model. You can "
            f"inspect the repository content at https://hf.co/{name} . Please pass the argument "
            "`trust_remote_code=True` to allow custom code to be run."
        )
    else:
        text = (
            f"The checkpoint you are trying to load has model type `{checkpoint.model_type}` but Transformers does not "
            "recognize this architecture. This could be because of an issue with the checkpoint, or because your "
            "version of Transformers is out of date."
        )
    raise config_refuses(
        Stage.OPTIONS,
        RemoteCodeNeeded(model_type=checkpoint.model_type, class_path=str(code) if code else None),
        text,
    )
