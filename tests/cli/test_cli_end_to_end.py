"""The whole way through the command line: what issue 2 of the project asks `kvplan check` to say, to the byte."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kvplan.cli import main
from tests.asking import kvplan

SIXTY_GIB = "64424509440"
SKIPPING = (
    *("vllm", "serve", "zai-org/GLM-5.2-FP8", "--kv-cache-dtype", "fp8"),
    *("-tp", "8", "--kv-cache-dtype-skip-layers"),
)


def told(*arguments: str, stdin: str | None = None) -> dict[str, Any]:
    """The JSON that `kvplan plan` prints."""
    result = kvplan("plan", "--format", "json", "--offline", *arguments, stdin=stdin)
    assert result.stderr == ""
    report: dict[str, Any] = json.loads(result.stdout)
    assert result.exit_code == (0 if report["startup"]["starts"] else 1)
    return report


def glm(release: str, *skip: str, gpu: str = "h200") -> dict[str, Any]:
    """GLM-5.2-FP8 with fp8 and a skip list on eight GPUs, 60 GiB for the cache of each."""
    options = ("--vllm-version", release, "--gpu", gpu, "--available-kv-memory", SIXTY_GIB)
    return told(*options, "--", *SKIPPING, *skip)


def of_role(report: dict[str, Any], role: str) -> list[dict[str, Any]]:
    return [layer for layer in report["layers"] if layer["role"] == role]


def values(layers: list[dict[str, Any]], *fields: str) -> set[tuple[Any, ...]]:
    return {tuple(layer[field] for field in fields) for layer in layers}


def rules_of(report: dict[str, Any]) -> set[str]:
    return {finding["rule"] for finding in report["findings"]}


def test_the_first_command_of_the_readme() -> None:
    result = kvplan("check", "GLM-5.2-FP8", "--skip-layers", "0,1", "--offline")
    assert result.exit_code == 0
    assert result.stdout.startswith("warning: zai-org/GLM-5.2-FP8 starts on vLLM 0.33.0, with 1 warning")
    words = " ".join(result.stdout.split())
    assert "cache dtype auto -> bfloat16" in words
    assert "the skip list 0 1 has no effect" in words
    assert "--kv-cache-dtype fp8" in words
    assert "assumed" in words


def test_fail_on_warning_makes_it_fail() -> None:
    arguments = ("check", "GLM-5.2-FP8", "--skip-layers", "0,1", "--offline", "--fail-on")
    assert kvplan(*arguments, "warning").exit_code == 1
    assert kvplan(*arguments, "note").exit_code == 1
    assert kvplan(*arguments, "warning", "--ignore", "KV203").exit_code == 0


def test_0_24_ignores_the_list() -> None:
    report = glm("0.24.0", "0", "1")
    assert report["startup"]["outcome"] == "ok"
    assert report["cache"]["block_size"] == 64
    assert report["cache"]["skip"]["ignored_layers"] == [0, 1]
    main_layers = of_role(report, "attention")
    assert len(main_layers) == 78
    assert values(main_layers, "cache_dtype", "page_bytes", "block_size") == {("fp8_ds_mla", 41_984, 64)}
    indexers = of_role(report, "indexer")
    assert len(indexers) == 21
    assert values(indexers, "page_bytes") == {(8_448,)}
    capacity = report["capacity"]
    assert (capacity["num_blocks"], capacity["tokens"]) == (18_662, 1_194_368)
    assert f"{capacity['max_concurrency']:.2f}" == "1.14"
    assert "KV202" in rules_of(report)


def test_0_25_dies_at_the_view() -> None:
    report = glm("0.25.1", "0", "1")
    assert (report["startup"]["outcome"], report["startup"]["stage"]) == ("error", "kv_cache_view")
    assert report["startup"]["error"]["message"].startswith("shape '[")
    assert report["cache"]["block_size"] == 128
    main_layers = of_role(report, "attention")
    assert values(main_layers, "cache_dtype", "quant_mode", "page_bytes", "bytes_per_token") == {
        ("fp8_ds_mla", "NONE", 83_968, 656.0)
    }
    indexers = of_role(report, "indexer")
    assert (len(indexers), values(indexers, "page_bytes")) == (21, {(16_896,)})
    assert report["capacity"]["num_blocks"] == 9_331
    assert "KV201" in rules_of(report)
    (message,) = [finding["message"] for finding in report["findings"] if finding["rule"] == "KV201"]
    assert "656" in message
    assert "576" in message


def test_0_25_without_a_list_quotes_vllms_own_numbers() -> None:
    options = ("--vllm-version", "0.25.1", "--gpu", "h200", "--available-kv-memory", SIXTY_GIB)
    report = told(*options, "--", *SKIPPING[:-1])
    assert "shape '[18662, 64, 576]' is invalid for input of size 783505408" in report["startup"]["error"]["message"]


@pytest.mark.parametrize("release", ["0.26.0", "0.33.0"])
def test_0_26_and_later_skip(release: str) -> None:
    report = glm(release, "0", "1")
    assert report["startup"]["outcome"] == "ok"
    fields = ("index", "storage_dtype", "backend", "page_bytes", "skipped")
    skipped = [layer for layer in of_role(report, "attention") if layer["index"] < 2]
    assert values(skipped, *fields) == {(index, "bfloat16", "FLASH_ATTN_MLA_SPARSE", 147_456, True) for index in (0, 1)}
    rest = [layer for layer in of_role(report, "attention") if layer["index"] >= 2]
    assert len(rest) == 76
    assert values(rest, "cache_dtype", "quant_mode", "page_bytes") == {("fp8_ds_mla", "FP8_PER_TENSOR", 83_968)}
    indexers = of_role(report, "indexer")
    assert (len(indexers), values(indexers, "page_bytes")) == (21, {(16_896,)})
    assert report["cache"]["block_size"] == 128
    assert report["cache"]["skip"]["matched_layers"] == [0, 1]
    capacity = report["capacity"]
    assert (capacity["num_blocks"], capacity["tokens"]) == (9_162, 1_172_736)
    assert "1.12x" in " ".join(capacity["log_lines"])


def test_a_comma_makes_one_token_that_matches_nothing() -> None:
    report = glm("0.33.0", "0,1")
    assert report["cache"]["skip"]["unmatched_tokens"] == ["0,1"]
    assert report["cache"]["skip"]["matched_layers"] == []
    assert report["cache"]["block_size"] == 128
    assert report["capacity"]["num_blocks"] == 9_331
    (fix,) = [finding["fix"] for finding in report["findings"] if finding["rule"] == "KV103"]
    assert "0 1" in fix


def test_b200_resolves_to_fp8_without_a_flag() -> None:
    report = told("GLM-5.2-FP8", "-tp", "8", "--gpu", "b200", "--vllm-version", "0.33.0")
    assert report["cache"]["requested_dtype"] == "auto"
    assert values(of_role(report, "attention"), "cache_dtype", "backend") == {("fp8_e4m3", "FLASHINFER_MLA_SPARSE")}


@pytest.mark.parametrize(
    ("release", "backend"),
    [("0.30.0", None), ("0.31.0", "FLASHINFER_MLA_SPARSE_SM90"), ("0.33.0", "FLASHINFER_MLA_SPARSE_SM90")],
)
def test_fp8_e4m3_on_h200(release: str, backend: str | None) -> None:
    report = told("GLM-5.2-FP8", "--kv-cache-dtype", "fp8_e4m3", "-tp", "8", "--gpu", "h200", "--vllm-version", release)
    if backend is None:
        assert (report["startup"]["outcome"], report["startup"]["stage"]) == ("error", "backend")
        assert "KV301" in rules_of(report)
    else:
        assert values(of_role(report, "attention"), "backend") == {(backend,)}


def test_gpt_oss_meets_a_bare_assertion() -> None:
    report = told("openai/gpt-oss-120b", "--kv-cache-dtype", "fp8", "--skip-layers", "0,1", "--gpu", "h100")
    assert report["startup"]["error"]["type"] == "AssertionError"
    (finding,) = [finding for finding in report["findings"] if finding["severity"] == "error"]
    assert len(finding["message"]) > 60


def test_why_finds_a_value_by_its_plain_name() -> None:
    told = kvplan("why", "GLM-5.2-FP8", "--layer", "0", "--value", "cache_dtype")
    assert told.exit_code == 0
    assert re.findall(r"^  (\S+) = (\S+)", told.stdout, re.MULTILINE) == [
        ("cache.dtype", "auto"),
        ("layer.cache_dtype", "auto"),
    ]


def test_why_tells_only_about_the_layer_and_value_asked_for() -> None:
    result = kvplan(
        *("why", "GLM-5.2-FP8", "--kv-cache-dtype", "fp8", "--skip-layers", "0,1", "--offline"),
        *("--layer", "0", "--value", "backend", "--format", "json"),
    )
    trace = json.loads(result.stdout)["trace"]
    assert trace
    assert all(step["layers"] == [] or 0 in step["layers"] for step in trace)
    assert all("backend" in step["value"].split(".") for step in trace)


def test_a_config_comes_from_standard_input() -> None:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 1024,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "intermediate_size": 2048,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
        "torch_dtype": "bfloat16",
    }
    report = told("-", "--gpu", "h100", "--available-kv-memory", "1GiB", stdin=json.dumps(config))
    # 16 tokens × 2 (K and V) × 4 heads × 128 elements × 2 bytes
    assert values(report["layers"], "page_bytes") == {(32_768,)}
    assert report["capacity"]["num_blocks"] == 2**30 // 65_536


def test_the_output_file_holds_what_would_be_printed(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    arguments = ("plan", "GLM-5.2-FP8", "--offline", "--format", "json")
    result = kvplan(*arguments, "--output", str(file))
    assert (result.stdout, result.exit_code) == ("", 0)
    assert file.read_text(encoding="utf-8") == kvplan(*arguments).stdout


def test_selecting_rules() -> None:
    arguments = ("check", "GLM-5.2-FP8", "--skip-layers", "0,1", "--offline", "--format", "json")
    selected = json.loads(kvplan(*arguments, "--select", "KV203,KV9").stdout)
    assert "KV203" in rules_of(selected)
    assert all(rule == "KV203" or rule.startswith("KV9") for rule in rules_of(selected))
    ignored = json.loads(kvplan(*arguments, "--ignore", "KV203", "--ignore", "KV9").stdout)
    assert ignored["verdict"] == "note"


def test_rules_by_text() -> None:
    def codes(*text: str) -> list[str]:
        return [rule["code"] for rule in json.loads(kvplan("rules", *text, "--format", "json").stdout)["rules"]]

    assert all(code.startswith("KV2") for code in codes("kv2"))
    assert "KV103" in codes("skip-token")
    assert len(codes()) > len(codes("skip list")) > 1
    assert kvplan("rules", "no such thing").exit_code == 2


def test_a_dismissed_failure_does_not_count() -> None:
    arguments = ("check", "GLM-5.2-FP8", "--kv-cache-dtype", "fp8", "--vllm-version", "0.25.1", "--offline")
    assert kvplan(*arguments).exit_code == 1
    assert kvplan(*arguments, "--ignore", "KV201").exit_code == 0
    assert kvplan(*arguments, "--ignore", "KV903").exit_code == 1


@pytest.mark.parametrize("command", ["check", "plan", "why"])
def test_standalone_mode_off_returns_the_exit_code(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main.main(
        args=[command, "--offline", "--format", "json", "--", "vllm", "serve", "GLM-5.2-FP8"], standalone_mode=False
    )
    assert code == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "kvplan/1"


def test_a_plan_can_be_a_gate_too() -> None:
    arguments = ("plan", "GLM-5.2-FP8", "--skip-layers", "0,1", "--offline")
    assert kvplan(*arguments).exit_code == 0
    assert kvplan(*arguments, "--fail-on", "error").exit_code == 0
    assert kvplan(*arguments, "--fail-on", "warning").exit_code == 1


def test_every_rule_is_explained_and_its_example_runs_on() -> None:
    listed = json.loads(kvplan("rules", "--format", "json").stdout)["rules"]
    for rule in listed:
        explained = kvplan("explain", rule["code"].lower())
        assert explained.exit_code == 0
        assert explained.stdout.startswith(f"{rule['code']} {rule['name']} ({rule['severity']})")
        assert all(f"  {line}\n" in explained.stdout for line in rule["good"].splitlines())
    assert all(rule["code"] in kvplan("rules").stdout for rule in listed)


def test_releases_tell_what_changed() -> None:
    everything = json.loads(kvplan("releases", "--format", "json").stdout)
    assert "0.25.1" in everything["releases"]
    one = kvplan("releases", "v0.26")
    assert re.search(r"^0\.26\.0$", one.stdout, re.MULTILINE)
    assert "0.27.1\n" not in one.stdout


def test_models_and_architectures() -> None:
    models = json.loads(kvplan("models", "glm-5.2", "--format", "json").stdout)["models"]
    assert {"zai-org/GLM-5.2", "zai-org/GLM-5.2-FP8"} <= {model["name"] for model in models}
    listed = kvplan("models", "--architectures", "qwen3").stdout
    assert re.search(r"^  Qwen3ForCausalLM +decoder +\S+\.py +all +(yes|no) \(\d+\)$", listed, re.MULTILINE)
    (told,) = json.loads(kvplan("models", "--architectures", "mamba2", "--format", "json").stdout)["architectures"]
    assert set(told) == {"architecture", "kind", "not_computed", "family", "wraps", "releases", "covered"}
    assert (told["architecture"], told["releases"][-1]) == ("Mamba2ForCausalLM", "0.33.0")


def test_version_names_the_releases() -> None:
    assert "0.16.0 to 0.33.0" in kvplan("--version").stdout


def test_a_draft_of_another_machine_is_looked_for_beside_the_target(tmp_path: Path) -> None:
    sizes = {"num_attention_heads": 8, "num_key_value_heads": 8, "hidden_size": 512, "intermediate_size": 1024}
    common = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", **sizes}
    for name, layers in (("large", 4), ("small", 1)):
        (tmp_path / name).mkdir()
        config = {**common, "num_hidden_layers": layers, "vocab_size": 32000}
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    wish = '{"model": "/mnt/models/%s", "num_speculative_tokens": 3}'
    target = str(tmp_path / "large")
    found = kvplan("plan", target, "--gpu", "h200", "--format", "json", "--speculative-config", wish % "small")
    assert found.exit_code == 0
    assert len(json.loads(found.stdout)["layers"]) == 5
    beside = tmp_path / "small"
    assert (
        found.stderr == f"kvplan: the draft model /mnt/models/small is not on this machine: reading {beside} instead\n"
    )
    missing = kvplan("plan", target, "--gpu", "h200", "--speculative-config", wish % "other")
    assert missing.exit_code == 2
    assert "/mnt/models/other" in missing.stderr


def test_a_scanned_launch_has_its_draft_read(tmp_path: Path) -> None:
    # Llama-3.2-1B has 16 layers of 8 KV heads x 64: 16 x 2,048 B a token beside the target's 32 x 4,096 B.
    config = {"method": "draft_model", "model": "meta-llama/Llama-3.2-1B", "num_speculative_tokens": 3}
    script = tmp_path / "serve.sh"
    script.write_text(f"vllm serve meta-llama/Llama-3.1-8B --speculative-config '{json.dumps(config)}'\n", "utf-8")
    (launch,) = json.loads(kvplan("scan", str(script), "--offline", "--format", "json").stdout)["launches"]
    drafts = [layer for layer in launch["layers"] if layer["role"] == "draft"]
    assert [layer["bytes_per_token"] for layer in drafts] == [2048.0] * 16
    assert "KV608" in {finding["rule"] for finding in launch["findings"]}


def test_a_scanned_draft_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    config = {"method": "eagle3", "model": "nobody/nothing", "num_speculative_tokens": 3}
    script = tmp_path / "serve.sh"
    script.write_text(f"vllm serve meta-llama/Llama-3.1-8B --speculative-config '{json.dumps(config)}'\n", "utf-8")
    (unread,) = json.loads(kvplan("scan", str(script), "--offline", "--format", "json").stdout)["unreadable"]
    assert "the draft model: nobody/nothing: is not in the catalog" in unread["reason"]
