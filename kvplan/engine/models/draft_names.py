"""What vLLM ties to the name of a draft's architecture or model type, or to its target's, instead of to a field.

Sources: `config/speculative.py`, `transformers_utils/configs/eagle.py`, `use_v2_model_runner` (config/vllm.py).
"""

from __future__ import annotations

from kvplan.history import speculation as history
from kvplan.releases import Behaviour

DSPARK = frozenset({"Qwen3DSparkModel", "Qwen3OmniDSparkModel", "MuseSparkDSparkModel", "Gemma4DSparkModel"})
"""Architectures that are run by the method `dspark`, whatever the checkpoint is called."""

STANDALONE_DSPARK = DSPARK | {"K3DSparkModel"}
"""DSpark drafts with a config of their own; the stages of any other ship with the target."""

DSPARK_ALIASES: dict[tuple[str, str], str] = {("DSparkDraftModel", "qwen3"): "Qwen3DSparkModel"}
"""Architecture and model type of DSpark drafts that go by another architecture's name."""

DSPARK_IN_TARGET: dict[str, str] = {"deepseek_v41": "DSparkV41DraftModel"}
"""The draft of a target whose checkpoint holds the stages, by the target's model type."""

DSPARK_IN_OTHER_TARGETS = "DSparkDraftModel"
"""The draft of any other such target."""

DSPARK_BLOCK_IS_N_PREDICT = frozenset({"deepseek_v41"})
"""Targets whose DSpark draft predicts as many tokens as its block has. Source: 0.30's `config/speculative.py`."""

DFLASH = frozenset({"MuseGlimmerAssistantModel"})
"""Architectures that are run by the method `dflash`, whatever the checkpoint is called."""

DFLASH_KEEPS_NAME = frozenset({"LiLiCorrDraftModel"})
"""Drafts whose class the method `dflash` does not look up under a prefixed name."""

DFLASH2 = frozenset({"DFlash2DraftModel", "DFlash2BeamDraftModel", "LiLiCorrDraftModel"})
"""DFlash 2 drafts."""

NO_MTP: dict[str, str] = {
    "deepseek_v41": (
        "DeepSeek V4.1 has no classic-MTP draft: its checkpoints ship DSpark stages under mtp.*. Use speculative "
        "method 'dspark' instead of 'mtp'."
    )
}
"""Targets by model type that have no MTP modules, and what vLLM says."""

ONE_TOKEN: dict[str, tuple[Behaviour, str]] = {
    "InklingMTPModel": (
        history.INKLING_MTP_ONE_TOKEN,
        "Inkling MTP currently supports exactly one speculative token",
    ),
    "ParseAuxMTPModel": (history.PARSE_MTP_ONE_TOKEN, "Parse 3.5 has only one trained MTP step"),
}
"""Drafts that propose a single token, in which releases, and what vLLM says of more."""

SPECULATORS: dict[str, Behaviour | None] = {
    "eagle3": None,
    "dflash": history.SPECULATORS_DFLASH,
    "peagle": history.SPECULATORS_PEAGLE,
    "dspark": history.SPECULATORS_DSPARK,
    "dflash2": history.SPECULATORS_DFLASH2,
}
"""Kinds of drafts in the speculators format, and in which releases (None: in all)."""

SPECULATORS_FIRST: dict[str, str] = {"eagle3": "Eagle3LlamaForCausalLM", "peagle": "PeagleLlamaForCausalLM"}
"""The class that built a kind whatever the model type of its layers (until SPECULATORS_NAME_BY_TYPE)."""

NO_PREFIX_CACHING: dict[str, tuple[Behaviour, str]] = {
    "ExaoneMoeMTP": (
        history.EXAONE_MTP_REFUSES_PREFIX_CACHING,
        "ExaoneMoeMTP currently does not support prefix caching",
    )
}
"""Drafts that assert that prefix caching is off, in which releases, and what they say."""

READ_DRAFT_QUANTISATION = frozenset(
    {
        "cohere_eagle",
        "deepseek_eagle3",
        "laguna_dflash",
        "llama_eagle",
        "llama_eagle3",
        "mistral_eagle",
        "qwen3_dflash",
        "qwen3_eagle3",
    }
)
"""Modules of drafts that read their quantisation from the draft's own config (`get_draft_quant_config`)."""
