"""What the scanned tree does to the verdict is never done in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.report.formats import FORMATS
from tests.asking import kvplan

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "num_hidden_layers": 1,
    "hidden_size": 64,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 64,
}
LAUNCH = "vllm serve zai-org/GLM-5.2-FP8 -tp 1 --kv-cache-dtype fp8\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run.sh").write_text(LAUNCH)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _folder(tree: Path, name: str = "zai-org/GLM-5.2-FP8") -> None:
    (tree / name).mkdir(parents=True)
    (tree / name / "config.json").write_text(json.dumps(CONFIG))


def _rules(result: Any) -> list[str]:
    report = json.loads(result.stdout)
    return [finding["rule"] for launch in report.get("launches", [report]) for finding in launch["findings"]]


@pytest.mark.parametrize("name", FORMATS)
def test_a_folder_that_stands_in_for_a_model(name: str, tree: Path) -> None:
    _folder(tree)
    (tree / "kvplan.toml").write_text('ignore = ["KV9"]\n')
    result = kvplan("scan", "run.sh", "--offline", "--format", name)
    assert "is read from the folder" in result.stderr
    assert "KV920" in result.stdout


def test_a_check_says_it_too(tree: Path) -> None:
    _folder(tree)
    result = kvplan("check", "zai-org/GLM-5.2-FP8", "--offline", "--isolated", "--format", "json", "--select", "KV1")
    assert "is read from the folder" in result.stderr
    assert "KV920" in _rules(result)


def test_a_folder_that_is_written_as_one_is_meant(tree: Path) -> None:
    _folder(tree, "models/own")
    (tree / "run.sh").write_text(LAUNCH.replace("zai-org/GLM-5.2-FP8", "models/own"))
    words = ("--offline", "--isolated", "--format", "json")
    assert "KV920" not in _rules(kvplan("check", "./models/own", *words))
    assert "KV920" not in _rules(kvplan("scan", "run.sh", *words, "--model-map", "models/own=./models/own"))
    assert "KV920" in _rules(kvplan("scan", "run.sh", *words))


@pytest.mark.parametrize("name", FORMATS)
def test_settings_that_change_findings(name: str, tree: Path) -> None:
    (tree / "kvplan.toml").write_text('ignore = ["KV9", "KV2"]\n[severity]\nKV203 = "note"\n')
    result = kvplan("scan", "run.sh", "--offline", "--format", name)
    assert "kvplan.toml gives ignore, severity" in result.stderr
    assert "KV921" in result.stdout
    assert "KV921" not in kvplan("scan", "run.sh", "--offline", "--isolated", "--format", name).stdout


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ('[scan]\nexclude = ["other.sh"]\n', "scan.exclude"),
        ('[[suppress]]\nrule = "KV203"\nmodel = "x"\nreason = "because"\n', "suppress"),
        ('[catalog.models]\n"a/b" = "zai-org/GLM-5.2-FP8"\n', "catalog"),
        ('fail-on = "error"\n', "fail-on"),
    ],
)
def test_every_setting_that_acts_is_named_once(settings: str, says: str, tree: Path) -> None:
    (tree / "kvplan.toml").write_text(settings)
    (tree / "run2.sh").write_text(LAUNCH)
    result = kvplan("scan", "run.sh", "run2.sh", "--offline", "--format", "json")
    assert says in result.stderr
    assert _rules(result).count("KV921") == 1
    assert "KV921" in _rules(kvplan("check", "GLM-5.2-FP8", "--offline", "--format", "json")) or says == "scan.exclude"


def test_settings_that_only_answer_are_said_on_standard_error(tree: Path) -> None:
    (tree / "kvplan.toml").write_text('gpu = "h200"\n')
    result = kvplan("scan", "run.sh", "--offline", "--format", "json")
    assert "kvplan.toml gives gpu" in result.stderr
    assert "KV921" not in _rules(result)
