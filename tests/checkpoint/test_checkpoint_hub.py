"""Models of the Hub, with a Hub that is not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub import errors

from kvplan.checkpoint import Source, asking, hub, load
from kvplan.errors import InputError

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 3}
REPO = "acme/private-llama"


class FakeHub:
    """A Hub with some files in the cache and some behind the network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cached: dict[str, Path] = {}
        self.remote: dict[str, Any] = {}
        self.asked: list[str] = []

    def write(self, name: str, value: object) -> Path:
        path = self.folder / name
        path.write_text(json.dumps(value))
        return path

    def try_to_load_from_cache(self, repo_id: str, filename: str, **options: Any) -> str | None:
        path = self.cached.get(filename)
        return str(path) if path else None

    def hf_hub_download(self, repo_id: str, filename: str, **options: Any) -> str:
        self.asked.append(filename)
        answer = self.remote.get(filename)
        if answer is None:
            raise _error(errors.EntryNotFoundError, "no such file")
        if isinstance(answer, Exception):
            raise answer
        return str(answer)


def _error(kind: type[Exception], text: str) -> Exception:
    """A Hub error made without the HTTP response that some versions want."""
    error = kind.__new__(kind)
    error.args = (text,)
    return error


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    made = FakeHub(tmp_path)
    asking.forget()
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", made.try_to_load_from_cache)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", made.hf_hub_download)
    return made


def test_the_cache_comes_first(fake: FakeHub) -> None:
    fake.cached["config.json"] = fake.write("config.json", CONFIG)
    model = load(REPO, offline=True)
    assert model.source is Source.HUB_CACHE
    assert model.name == model.reference == REPO
    assert model.config["num_hidden_layers"] == 3
    assert fake.asked == []


def test_the_network_brings_the_companions_too(fake: FakeHub) -> None:
    fake.remote["config.json"] = fake.write("config.json", CONFIG)
    quant = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    fake.remote["hf_quant_config.json"] = fake.write("hf_quant_config.json", quant)
    fake.remote["model.safetensors.index.json"] = fake.write("index.json", {"metadata": {"total_size": 42}})
    model = load(REPO)
    assert model.source is Source.HUB
    assert model.weight_bytes == 42
    assert model.quantization == {**quant, "quant_method": "modelopt"}


def test_companions_are_not_missed(fake: FakeHub) -> None:
    fake.remote["config.json"] = fake.write("config.json", {**CONFIG, "quantization_config": {"quant_method": "fp8"}})
    fake.remote["model.safetensors.index.json"] = OSError("down")
    model = load(REPO)
    assert model.weight_bytes is None
    assert "hf_quant_config.json" not in fake.asked


def test_offline_asks_nobody(fake: FakeHub) -> None:
    with pytest.raises(InputError, match="--offline forbids the network"):
        load(REPO, offline=True)
    assert fake.asked == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (errors.GatedRepoError, "is gated"),
        (errors.RepositoryNotFoundError, "no such public repository"),
        (errors.EntryNotFoundError, "has no config.json"),
        (errors.LocalEntryNotFoundError, "cannot be reached"),
        (OSError, "cannot be reached"),
        (RuntimeError, "cannot be reached"),
    ],
)
def test_what_the_hub_refuses_is_one_line(fake: FakeHub, error: type[Exception], words: str) -> None:
    fake.remote["config.json"] = _error(error, "several\nlines of https://x")
    with pytest.raises(InputError, match=words) as caught:
        load(REPO)
    assert "\n" not in str(caught.value)


def test_a_missing_repository_lists_the_nearest_of_the_catalog(fake: FakeHub) -> None:
    fake.remote["config.json"] = _error(errors.RepositoryNotFoundError, "404")
    with pytest.raises(InputError, match=r"zai-org/GLM-5\.2-FP8"):
        load("zai-org/GLM-5.2-FP88")


def test_messages_about_the_file_name_the_repository(fake: FakeHub) -> None:
    fake.cached["config.json"] = fake.write("config.json", {"model_type": "llama", "num_hidden_layers": "x"})
    with pytest.raises(InputError, match=r"^acme/private-llama/config\.json: field 'num_hidden_layers'"):
        load(REPO, offline=True)


@pytest.mark.parametrize(
    ("text", "answer"),
    [("a/b", True), ("zai-org/GLM-5.2-FP8", True), ("a", False), ("a/b/c", False), ("a/../b", False), ("a b/c", False)],
)
def test_repository_names(text: str, answer: bool) -> None:
    assert hub.is_repo_id(text) is answer
