"""The scan's reports: the kvplan-scan/1 contract, the verdict, exit codes and the text's shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result

from kvplan.report.schema import scan as contract
from tests import asking
from tests.asking import kvplan

MANIFESTS = Path(__file__).parents[1] / "launch" / "manifests"
FINE = """name: fine
image: vllm/vllm-openai:v0.33.0
args: [meta-llama/Llama-3.1-8B, --max-model-len, "8192"]
resources: {limits: {nvidia.com/gpu: 1}}
nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
"""
BAD = FINE.replace("8192", "9000000")
LOST = "name: lost\nimage: vllm/vllm-openai:v0.33.0\ncommand: [bash, /start.sh]\n"
IGNORE = ("--ignore", "KV9,KV603")


def scan(*arguments: str, stdin: str | None = None) -> Result:
    return kvplan("scan", "--offline", *arguments, stdin=stdin)


def told(*arguments: str, stdin: str | None = None) -> dict[str, Any]:
    return asking.told("scan", "--offline", *arguments, stdin=stdin)


def test_the_json_keeps_the_contract() -> None:
    report = told(str(MANIFESTS))
    jsonschema.validate(report, json.loads(contract.SCHEMA_FILE.read_text("utf-8")))
    contract.ScanReport.model_validate_json(json.dumps(report))
    assert report["schema"] == "kvplan-scan/1"
    assert report["verdict"] == "error"
    assert all(finding["location"] for launch in report["launches"] for finding in launch["findings"])


def test_the_schema_file_is_up_to_date() -> None:
    assert contract.SCHEMA_FILE.read_text("utf-8") == contract.text(), "run: python -m kvplan.report.schema"


@pytest.mark.parametrize(
    ("text", "verdict", "code"),
    [(FINE, "ok", 0), (BAD, "error", 1), (f"{FINE}---\n{LOST}", "warning", 0), (LOST, "warning", 2)],
)
def test_verdict_and_exit_code(text: str, verdict: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(text)
    assert told(*IGNORE, str(tmp_path))["verdict"] == verdict
    assert scan(*IGNORE, str(tmp_path)).exit_code == code


def test_what_cannot_be_followed_fails_a_strict_gate(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(f"{FINE}---\n{LOST}")
    assert scan(*IGNORE, "--fail-on", "warning", str(tmp_path)).exit_code == 1


def test_nothing_found(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("a: b\n")
    result = scan(str(tmp_path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no vLLM launch found" in result.stderr
    assert scan("--allow-empty", str(tmp_path)).exit_code == 0


def test_standard_input_takes_helms_output() -> None:
    report = told(*IGNORE, "-", stdin=f"---\n# Source: chart/x.yaml\n{FINE}")
    assert report["launches"][0]["found"]["location"] == {"file": "<stdin>", "line": 5, "column": 8}
    template = scan("-", stdin="image: vllm/vllm-openai\n{{- if .Values.x }}\nargs: [{{ .Values.y }}]\n{{- end }}\n")
    assert "helm template" in " ".join(template.stdout.split())


def test_answers_to_what_the_files_leave_open(tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text("vllm serve /models/glm --max-model-len $LENGTH --kv-cache-dtype fp8\n")
    asked = scan(str(tmp_path))
    assert asked.exit_code == 2
    assert "--model-map /models/glm=ORGANISATION/NAME" in " ".join(asked.stdout.split())
    answers = ("--model-map", "/models/glm=zai-org/GLM-5.2-FP8", "--vllm-version", "0.26.0", "--gpu", "b200:8")
    report = told(*answers, str(tmp_path))
    (launch,) = report["launches"]
    assert launch["model"]["name"] == "zai-org/GLM-5.2-FP8"
    assert (launch["engine"]["release"], launch["hardware"]["gpu"]) == ("0.26.0", "b200")
    (unknown,) = [finding for finding in launch["findings"] if finding["rule"] == "KV908"]
    assert unknown["options"] == ["--max-model-len"]
    assert unknown["location"]["column"] == 40
    assert unknown["fix"] == "--env LENGTH=…"
    known = told(*answers, "--env", "LENGTH=8192", str(tmp_path))["launches"][0]
    assert known["settings"]["max_model_len"] == 8192


def test_the_files_own_release_and_gpu_win(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(FINE)
    (launch,) = told("--vllm-version", "0.20.2", "--gpu", "t4", str(tmp_path))["launches"]
    assert (launch["engine"]["release"], launch["hardware"]["gpu"]) == ("0.33.0", "h100")


def test_more_ranks_than_gpus(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(FINE.replace('"8192"', '"8192", -tp, "4"'))
    (launch,) = told(str(tmp_path))["launches"]
    assert launch["startup"]["error"]["code"] == "too_few_gpus"
    (finding,) = [finding for finding in launch["findings"] if finding["rule"] == "KV405"]
    assert (finding["location"]["line"], finding["location"]["column"]) == (3, 58)


PAIR = """apiVersion: v1
kind: Pod
metadata: {{name: {role}}}
spec:
  containers:
    - name: vllm
      image: vllm/vllm-openai:{tag}
      args: [openai/gpt-oss-120b, {args}]
---
"""


@pytest.mark.parametrize(
    ("prefill", "decode", "rules"),
    [
        (("v0.33.0", ""), ("v0.33.0", ""), []),
        (("v0.33.0", ""), ("v0.32.0", ""), ["KV701"]),
        (("v0.33.0", "--kv-cache-dtype=fp8"), ("v0.33.0", ""), ["KV702"]),
        (("v0.33.0", "--block-size=64"), ("v0.33.0", "--block-size=32"), ["KV703"]),
        (("v0.33.0", "--disable-hybrid-kv-cache-manager"), ("v0.33.0", ""), ["KV704"]),
        (("v0.33.0", ""), ("v0.33.0", "--attention-backend=TRITON_ATTN"), ["KV705"]),
    ],
)
def test_prefill_and_decode_must_agree(
    prefill: tuple[str, str], decode: tuple[str, str], rules: list[str], tmp_path: Path
) -> None:
    text = PAIR.format(role="oss-prefill", tag=prefill[0], args=prefill[1])
    text += PAIR.format(role="oss-decode", tag=decode[0], args=decode[1])
    (tmp_path / "x.yaml").write_text(text)
    first, second = told("--select", "KV7", str(tmp_path))["launches"]
    assert [finding["rule"] for finding in first["findings"]] == []
    assert [finding["rule"] for finding in second["findings"]] == rules


def test_a_pair_in_two_files_of_one_directory(tmp_path: Path) -> None:
    (tmp_path / "decode.yaml").write_text(PAIR.format(role="oss-decode", tag="v0.33.0", args=""))
    (tmp_path / "prefill.yaml").write_text(PAIR.format(role="oss-prefill", tag="v0.32.0", args=""))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "prefill.yaml").write_text(PAIR.format(role="oss-prefill", tag="v0.30.0", args=""))
    findings = [launch["findings"] for launch in told("--select", "KV7", str(tmp_path))["launches"]]
    assert [[finding["rule"] for finding in found] for found in findings] == [["KV701"], [], []]


def test_launches_of_different_models_are_no_pair(tmp_path: Path) -> None:
    text = PAIR.format(role="a-prefill", tag="v0.33.0", args="")
    text += PAIR.format(role="b-decode", tag="v0.32.0", args="").replace("gpt-oss-120b", "gpt-oss-20b")
    (tmp_path / "x.yaml").write_text(text)
    assert [launch["findings"] for launch in told("--select", "KV7", str(tmp_path))["launches"]] == [[], []]


def test_environment_is_honoured_per_release(tmp_path: Path) -> None:
    env = "env: [{name: VLLM_PP_LAYER_PARTITION, value: '30,2'}, {name: VLLM_ATTENTION_BACKEND, value: FLASHINFER}]\n"
    (tmp_path / "x.yaml").write_text(FINE.replace('"8192"', '"8192", -pp, "2"').replace("gpu: 1", "gpu: 2") + env)
    (launch,) = told(str(tmp_path))["launches"]
    assert {layer["index"] for layer in launch["layers"] if layer["rank"] == 1} == {30, 31}
    (finding,) = [finding for finding in launch["findings"] if finding["rule"] == "KV106"]
    assert finding["location"]["line"] == 6
    assert launch["launch"]["environment"]["VLLM_PP_LAYER_PARTITION"] == "30,2"


def test_a_config_map_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "maps.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  start.sh: |\n"
        "    exec vllm serve meta-llama/Llama-3.1-8B --block-size 12\n"
    )
    (tmp_path / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  volumes: [{name: v, configMap: {name: m}}]\n"
        "  containers:\n    - name: vllm\n      image: vllm/vllm-openai:v0.30.0\n      command: [sh, /s/start.sh]\n"
        "      volumeMounts: [{name: v, mountPath: /s}]\n"
    )
    report = told(str(tmp_path))
    (launch,) = report["launches"]
    assert (launch["engine"]["release"], launch["found"]["name"]) == ("0.30.0", "p/vllm")
    assert launch["found"]["location"]["file"].endswith("maps.yaml")
    assert report["unreadable"] == []


def test_devices_that_are_visible(tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text("CUDA_VISIBLE_DEVICES=0,1 vllm serve meta-llama/Llama-3.1-8B -tp 4\n")
    (launch,) = told("--gpu", "h200:8", str(tmp_path))["launches"]
    assert launch["startup"]["error"]["code"] == "too_few_gpus"


def test_the_llm_class_takes_larger_batches(tmp_path: Path) -> None:
    """16,384 tokens a batch on a GPU of 70 GiB and more, where the server takes 8,192."""
    (tmp_path / "x.py").write_text(
        "from vllm import LLM, EngineArgs\nLLM('Qwen/Qwen3-32B')\nEngineArgs('Qwen/Qwen3-32B')\n"
    )
    llm, args = told("--gpu", "h200", str(tmp_path))["launches"]
    assert llm["settings"]["max_num_batched_tokens"] == 16384
    assert args["settings"]["max_num_batched_tokens"] == 8192
