"""`kvplan sweep`: combinations, rows that fail, and the history entries behind what changes between releases."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from click.testing import Result

from kvplan.releases import KNOWN
from kvplan.report.schema import sweep as contract
from tests.asking import kvplan

FORTY = ("--available-kv-memory", "40GiB")
FORMULA = "TOKENS_FROM_CONCURRENCY"
RESERVE = "SLIDING_RESERVE_COUNTS_BATCHES_IN_FLIGHT"


def sweep(*arguments: str) -> Result:
    return kvplan("sweep", "--offline", *arguments)


def told(*arguments: str) -> dict[str, Any]:
    result = sweep("--format", "json", *arguments)
    assert result.exit_code == 0, result.stderr
    report: dict[str, Any] = json.loads(result.stdout)
    jsonschema.validate(report, json.loads(contract.SCHEMA_FILE.read_text("utf-8")))
    return report


def column(report: dict[str, Any], value: str) -> list[Any]:
    return [row["values"][value] for row in report["rows"]]


def changes(report: dict[str, Any], value: str) -> dict[str, tuple[str, list[str]]]:
    """How each change of `value` is explained, by the release that brings it."""
    return {
        report["rows"][step["after"]]["release"]: (change["explained"], change["causes"])
        for step in report["steps"]
        for change in step["changes"]
        if change["value"] == value
    }


def test_gemma_loses_concurrency_at_0_26_to_the_reserve() -> None:
    report = told("gemma-3-27b-it", "--releases", "all", *FORTY, "--diff")
    assert [row["release"] for row in report["rows"]] == list(KNOWN)
    at = KNOWN.index("0.26.0")
    times = [round(value, 2) for value in column(report, "max_concurrency")]
    assert times == [2.81] * at + [2.23] * (len(KNOWN) - at)
    assert changes(report, "max_concurrency") == {"0.26.0": ("alone", [RESERVE])}
    assert report["causes"][RESERVE]["since"] == "0.26.0"


def test_the_text_names_the_cause_in_its_own_sentence() -> None:
    result = sweep("gemma-3-27b-it", "--releases", "all", *FORTY, "--diff")
    assert result.exit_code == 0
    words = " ".join(result.stdout.split())
    assert "18 combinations" in words
    assert "concurrency 2.81x -> 2.23x (-20.9 %)" in words
    sentence = "the reserve of a sliding-window layer counts every batch in flight, not one"
    assert f"because since 0.26.0 {sentence} ({RESERVE}" in words
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_gpt_oss_has_two_causes_for_its_tokens() -> None:
    report = told("gpt-oss-120b", "--releases", "all", *FORTY, "--diff")
    assert list(dict.fromkeys(column(report, "tokens"))) == [582_528, 1_095_405, 1_034_609]
    assert changes(report, "tokens") == {"0.20.2": ("alone", [FORMULA]), "0.26.0": ("alone", [RESERVE])}


def test_causes_over_several_releases_act_together() -> None:
    report = told("gpt-oss-120b", "--vllm-version", "0.16.0,0.33.0", *FORTY, "--diff")
    ((explained, causes),) = changes(report, "tokens").values()
    assert explained == "together"
    assert set(causes) == {FORMULA, RESERVE}
    assert changes(report, "max_concurrency") == {"0.33.0": ("alone", [RESERVE])}


def test_causes_are_found_backwards_too() -> None:
    report = told("gpt-oss-120b", "--vllm-version", "0.26.0,0.25.1", *FORTY, "--diff")
    assert changes(report, "tokens") == {"0.25.1": ("alone", [RESERVE])}


def test_a_start_that_fails_is_a_row_with_its_cause() -> None:
    report = told(
        *("GLM-5.2-FP8", "--kv-cache-dtype", "fp8", "-tp", "8", "--available-kv-memory", "60GiB", "--diff"),
        *("--vllm-version", "0.25.1,0.26.0", "--gpu", "h200"),
    )
    assert column(report, "outcome") == ["stops at kv_cache_view: view_mismatch", "starts"]
    assert changes(report, "outcome") == {"0.26.0": ("alone", ["MLA_SPEC_CARRIES_QUANT_MODE"])}
    assert report["causes"]["MLA_SPEC_CARRIES_QUANT_MODE"]["reference"] == "vllm#48379"


def test_what_tables_change_is_said_to_come_from_tables() -> None:
    report = told(
        *("GLM-5.2-FP8", "--kv-cache-dtype", "fp8", "-tp", "8", "--diff", "--vllm-version", "0.17.1,0.18.1"),
    )
    assert changes(report, "block_size") == {"0.18.1": ("alone", ["TABLES"])}


def test_rows_stand_in_a_stable_order_with_the_release_fastest() -> None:
    report = told(
        *("GLM-5.2-FP8", "--vllm-version", "0.26.0,0.33.0", "-tp", "4,8", "--kv-cache-dtype=auto,fp8"),
        *("--gpu", "h200,b200", "--available-kv-memory", "40GiB,60GiB"),
    )
    axes = {axis["option"]: axis["values"] for axis in report["axes"]}
    assert list(axes) == ["--gpu", "--available-kv-memory", "-tp", "--kv-cache-dtype", "--vllm-version"]
    assert len(report["rows"]) == 32
    assert report["rows"][0]["options"] == {name: values[0] for name, values in axes.items()}
    assert report["rows"][1]["options"]["--vllm-version"] == "0.33.0"
    assert report["rows"][-1]["options"] == {name: values[-1] for name, values in axes.items()}
    assert report["rows"][-1]["available_bytes"] == 60 << 30
    assert report["steps"] is None


def test_rows_that_differ_in_an_option_need_no_history() -> None:
    report = told("Llama-3.1-8B", "--kv-cache-dtype", "auto,fp8", *FORTY, "--diff")
    (step,) = report["steps"]
    assert step["option"] == "--kv-cache-dtype"
    assert {change["explained"] for change in step["changes"]} == {"option"}
    assert column(report, "tokens") == [327_680, 655_360]


def test_one_unusable_value_is_a_row() -> None:
    report = told("Llama-3.1-8B", "--gpu", "h200,h2000", "--diff")
    good, bad = report["rows"]
    assert good["problem"] is None
    assert "'h2000' is not a GPU" in bad["problem"]
    assert bad["values"] is None
    assert report["verdict"] == "error"
    text = sweep("Llama-3.1-8B", "--gpu", "h200,h2000", "--diff").stdout
    assert "unusable (1 combination): --gpu 'h2000' is not a GPU" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no-such-model", "--releases", "all"), "no-such-model"),
        (("Llama-3.1-8B", "--gpu", "h2000,h3000"), "h2000"),
        (("Llama-3.1-8B", "-tp", "4,,8"), "empty value"),
        (("Llama-3.1-8B", "--releases", "all", "--vllm-version", "0.26"), "not both"),
        (("Llama-3.1-8B", "--releases", "0.30..0.20"), "runs backwards"),
        (("Llama-3.1-8B", "--vary", "--enforce-eager"), "alternatives"),
        (("Llama-3.1-8B", "--vary", "'a | b"), "quotation"),
        (("--vary", "a | b", "--", "vllm", "serve", "Llama-3.1-8B"), "--vary adds to options before --"),
        (
            ("Llama-3.1-8B", "--releases", "all", "--max-num-seqs", ",".join(map(str, range(1, 100)))),
            "1,782 combinations (99 of --max-num-seqs x 18 of --vllm-version) are more than 1,000",
        ),
    ],
)
def test_what_cannot_be_used_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    result = sweep(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert message in result.stderr


def test_lists_json_and_literal_commands_are_left_whole() -> None:
    report = told(
        *("Llama-3.1-8B", "--kv-cache-dtype", "fp8", "--skip-layers", "0,1", "--vllm-version", "0.33.0"),
        *("--hf-overrides", '{"num_hidden_layers": 4, "x": 1}'),
    )
    assert report["axes"] == []
    assert len(report["rows"]) == 1
    literal = told("--vllm-version", "0.26.0,0.33.0", "--", "vllm", "serve", "Llama-3.1-8B", "-tp", "4,8")
    assert [axis["option"] for axis in literal["axes"]] == ["--vllm-version"]
    assert column(literal, "outcome") == ["stops at options: refused_option"] * 2


def test_vary_takes_any_words() -> None:
    report = told(
        *("GLM-5.2-FP8", "-tp", "8", "--kv-cache-dtype", "fp8", "--vllm-version", "0.33.0"),
        *("--vary", "--skip-layers 0,1 | --hf-overrides '{\"num_hidden_layers\": 4}' | "),
    )
    assert [row["options"]["--vary"] for row in report["rows"]][::2] == ["--skip-layers 0,1", ""]
    assert column(report, "block_size") == [128, 64, 64]


def test_fail_on_looks_at_all_rows() -> None:
    arguments = ("Llama-3.1-8B", "--max-model-len", "4096,9000000", "--select", "KV1,KV6", *FORTY)
    assert sweep(*arguments).exit_code == 0
    assert sweep(*arguments, "--fail-on", "error").exit_code == 1


def test_a_narrow_page_has_a_table_for_each_slow_option() -> None:
    text = sweep(
        *("GLM-5.2-FP8", "--gpu", "h200,b200", "-tp", "4,8", "--kv-cache-dtype", "auto,fp8"),
        *("--releases", "0.25..0.26", "--available-kv-memory", "40GiB,60GiB"),
    ).stdout
    assert "gpu h200; available-kv-memory 40GiB" in text
    assert text.count("concurrency") > 1
    assert max(map(len, text.splitlines())) <= 100


def test_the_schema_file_is_up_to_date() -> None:
    assert contract.SCHEMA_FILE.read_text("utf-8") == contract.text(), "run: python -m kvplan.report.schema"
