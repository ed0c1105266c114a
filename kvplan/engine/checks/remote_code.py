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

OPTION = "--trust-remote-code"

_CLASSES_OF_VLLM: Mapping[str, tuple[str | None, str | None]] = {
    "RefinedWeb": (None, None),
    "RefinedWebModel": (None, None),
    "alpamayo2_super": ("0.33.0", None),
    "arctic": ("0.26.0", "0.28.0"),
    "bagel": (None, None),
    "bailing_moe_v3_vl": ("0.30.0", None),
    "chatglm": (None, None),
    "colqwen3": ("0.17.1", None),
    "deepseek_v41": ("0.30.0", None),
    "deepseek_vl_v2": (None, None),
    "dory": ("0.33.0", None),
    "dots3_note": ("0.28.0", None),
    "eagle": (None, None),
    "fireredlid": ("0.20.2", "0.28.0"),
    "flint": ("0.33.0", None),
    "funaudiochat": (None, None),
    "hyperclovax_vlm": ("0.21.0", "0.28.0"),
    "inkling_model": ("0.26.0", None),
    "isaac": (None, None),
    "jais": (None, "0.22.1"),
    "k3_dspark": ("0.27.1", None),
    "kimi_k2": ("0.18.1", None),
    "kimi_k3": ("0.27.1", None),
    "kimi_vl": (None, None),
    "medusa": (None, "0.32.0"),
    "midashenglm": (None, None),
    "minimax_m3_mtp": ("0.24.0", None),
    "mlp_speculator": (None, "0.32.0"),
    "moondream3": ("0.21.0", None),
    "musespark1x_text": ("0.33.0", None),
    "openvla": ("0.22.1", None),
    "ops_colqwen3": ("0.17.1", None),
    "ovis": (None, None),
    "qwen3_vl_nemotron_embed": ("0.17.1", None),
    "speculators": (None, None),
    "step3_text": (None, None),
    "step3_vl": (None, None),
    "step5": ("0.33.0", None),
    "step5_vl": ("0.33.0", None),
    "tarsier2": (None, "0.24.0"),
    "ultravbert": ("0.33.0", None),
    "ultravox": (None, None),
    "umm": ("0.20.2", "0.28.0"),
    "unlimited-ocr": ("0.25.1", None),
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
    listed = _CLASSES_OF_VLLM.get(checkpoint.model_type)
    if listed is not None and launch.release.within(*listed):
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
