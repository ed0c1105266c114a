"""No field of a config causes a request, and a Hub that is not there is asked once."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import huggingface_hub
import pytest

from kvplan.checkpoint import asking, load
from kvplan.checkpoint.normalise import normalise
from kvplan.errors import InputError
from tests.asking import kvplan

ELSEWHERE = {
    "backbone": "evil/repository",
    "use_timm_backbone": False,
    "use_pretrained_backbone": True,
    "backbone_kwargs": {"a": 1},
    "_name_or_path": "evil/repository",
    "auto_map": {"AutoConfig": "evil/repository--configuration.Evil"},
    "base_model_name_or_path": "evil/repository",
    "encoder_name": "evil/repository",
    "vision_model_name": "evil/repository",
    "text_model_name": "evil/repository",
    "tokenizer_class": "evil/repository",
}


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """No socket leads anywhere; what was tried."""
    tried: list[object] = []

    def refuse(*given: object, **_named: object) -> NoReturn:
        tried.append(given)
        raise OSError("no network in this test")

    for name in ("getaddrinfo", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    return tried


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    asking.forget()
    yield
    asking.forget()


def test_no_model_type_leads_to_a_request(guarded: list[object]) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}
    for model_type in CONFIG_MAPPING_NAMES:
        for config in (
            {"model_type": model_type, **sizes, **ELSEWHERE},
            {"model_type": "llava", "vision_config": {"model_type": model_type, **ELSEWHERE}},
        ):
            try:
                normalise(config, file="config.json")
            except InputError:
                continue
    assert guarded == []


def test_a_check_without_network_makes_no_request(guarded: list[object], tmp_path: Path) -> None:
    config = {"model_type": "detr", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, **ELSEWHERE}
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_attention_heads": 4, "hidden_size": 64}))
    kvplan("check", "--offline", "--isolated", str(tmp_path / "config.json"))
    assert guarded == []


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A Hub that never answers; what it was asked for."""
    asked: list[str] = []

    def download(repo_id: str, filename: str, **_options: Any) -> NoReturn:
        asked.append(f"{repo_id}/{filename}")
        time.sleep(30)
        raise AssertionError

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_given, **_named: None)
    monkeypatch.setattr("kvplan.checkpoint.hub.asking.FIRST", 0.1)
    monkeypatch.setattr("kvplan.checkpoint.hub._download.__defaults__", (0.1,))
    return asked


def test_a_silent_hub_is_asked_once_and_that_is_said(silent: list[str], tmp_path: Path) -> None:
    (tmp_path / "models.sh").write_text("".join(f"vllm serve acme/model-{number}\n" for number in range(3)))
    begun = time.monotonic()
    result = kvplan("scan", "--isolated", str(tmp_path / "models.sh"), "--format", "json")
    assert time.monotonic() - begun < 10
    assert len(silent) == 1
    assert result.stderr.count("asking the Hub for acme/model-0/config.json") == 1
    assert result.stderr.count("asking the Hub") == 1
    reasons = [one["reason"] for one in json.loads(result.stdout)["unreadable"]]
    assert ["cannot be reached" in reason for reason in reasons] == [True] * 3


@pytest.mark.usefixtures("silent")
def test_a_hub_that_is_back_is_asked_again(silent: list[str]) -> None:
    for _ in range(2):
        with pytest.raises(InputError, match="no answer within"):
            load("acme/model")
        asking.forget()
    assert len(silent) == 2
