"""The refusals whose words are known to differ, and why.

kvplan stops these launches at vLLM's stage, with another exception or message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RECORDS: Mapping[str, tuple[str, ...]] = {
    "the installed Transformers, not vLLM, refuses the config": (
        "0.20.2/google__gemma-4-26B-A4B-it--h200--spec-gemma4a",
        "0.24.0/_class__DeepseekV4ForCausalLM--h200--ar-9af1968a",
        "0.33.0/MiniMaxAI__MiniMax-M3--h100--ar-308257bd",
        "0.33.0/MiniMaxAI__MiniMax-M3--h100--ar-3d7a7f40",
        "0.33.0/MiniMaxAI__MiniMax-M3--h100--ar-4ef77289",
        "0.33.0/MiniMaxAI__MiniMax-M3--h100--ar-78d65c9e",
        "0.33.0/_class2__T5GemmaForConditionalGeneration--h200--ar-9590ceb5",
    ),
    "two parts of the model cannot be built, and vLLM comes to the other one first": (
        "0.22.1/allenai__Olmo-3-7B-Instruct--l40s--f1-0",
        "0.24.0/zai-org__GLM-4.5-Air--b200--draft-5e9f3092",
        "0.33.0/_wide__Granite4VisionForConditionalGeneration--h100--ar-2b9fbdb2",
        "0.33.0/moonshotai__Kimi-K3--h100--ar-69f58636",
        "0.33.0/zai-org__GLM-4.5-Air--h200--draft-a7882d8a",
    ),
    "the release takes the audio tower of its config class, not the one in the file": (
        "0.22.1/_wide__Qwen3ASRForConditionalGeneration--h100--ar-c5087b15",
    ),
    "kvplan stops before vLLM would: it says that it does not emulate this": (
        "0.33.0/_class2__MoonshineForConditionalGeneration--h200--ar-1d833d0b",
        "0.33.0/_class__MuseGlimmerAssistantModel--h200--ar-74d3247d",
        "0.33.0/_fuzz__deepseek-v3.2-short--h200--fz-89",
    ),
}
"""Ids of records by the reason."""


def is_among(record: Mapping[str, Any]) -> bool:
    """Whether the words of the record's refusal are known to differ."""
    return any(record["id"] in records for records in RECORDS.values())
