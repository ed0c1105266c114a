"""The file that the rules about pairs are shown with: prefill and decode of one model in one compose file."""

from __future__ import annotations

from kvplan.rules.rule import Manifest


def together(*, prefill: str = "", decode: str = "", releases: tuple[str, str] = ("0.33.0", "0.33.0")) -> Manifest:
    """openai/gpt-oss-120b served in two containers, with more options for each; `releases` of prefill and decode."""
    services = zip(("prefill", "decode"), releases, (prefill, decode), strict=True)
    return Manifest(file="compose.yaml", content="services:\n" + "".join(_service(*service) for service in services))


def _service(role: str, release: str, options: str) -> str:
    transfer = """--kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'"""
    command = " ".join(filter(None, ("openai/gpt-oss-120b", options)))
    return f"  {role}:\n    image: vllm/vllm-openai:v{release}\n    command: >-\n      {command}\n      {transfer}\n"
