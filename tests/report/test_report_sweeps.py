"""A sweep in every format: valid by the published schemas, each combination told apart, and the exit code alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import Result
from markdown_it import MarkdownIt

from kvplan.report import documentation, outcomes, sweeptext, sweepwords
from kvplan.report.canvas import Canvas
from kvplan.report.formats import FORMATS
from kvplan.report.sweepvalues import Axis, Change, Combination, Explained, Explanation, SweepReport
from kvplan.runs.combining import combinations
from kvplan.runs.launching import LaunchRequest, Sources
from kvplan.runs.sweeping import SweepRequest
from kvplan.runs.sweeping import sweep as run
from tests.asking import kvplan
from tests.report.test_report_formats import GITLAB, JUNIT, SARIF
from tests.report.test_report_webpage import checked

GLM = ("GLM-5.2-FP8", "--kv-cache-dtype", "fp8", "-tp", "8", "--skip-layers", "0,1", "--available-kv-memory", "60GiB")
RELEASES = ("--vllm-version", "0.25.1,0.26.0", "--gpu", "h200")
"""0.25.1 stops when the cache is made."""


def sweep(*arguments: str) -> Result:
    return kvplan("sweep", "--offline", *arguments)


def sarif(*arguments: str) -> dict[str, Any]:
    log = json.loads(sweep(*arguments, "--format", "sarif").stdout)
    SARIF.validate(log)
    (run,) = log["runs"]
    found: dict[str, Any] = run
    return found


def prints(*arguments: str) -> dict[str, str]:
    return {
        one["partialFingerprints"]["kvplanFinding/v1"]: one["properties"]["combination"]["--vllm-version"]
        for one in sarif(*arguments)["results"]
    }


def test_sarif_names_the_combination_everywhere() -> None:
    run = sarif(*GLM, "--vllm-version", "0.25.1,0.26.0", "--gpu", "h200,h2000")
    (crash,) = [one for one in run["results"] if one["ruleId"] == "KV201"]
    assert crash["properties"]["combination"] == {"--gpu": "h200", "--vllm-version": "0.25.1"}
    assert crash["message"]["text"].startswith("--gpu h200 --vllm-version 0.25.1: vLLM 0.25.1 stops")
    (place,) = crash["locations"][0]["logicalLocations"]
    assert place["fullyQualifiedName"] == "vllm serve zai-org/GLM-5.2-FP8 (--gpu h200 --vllm-version 0.25.1)"
    lost = run["invocations"][0]["toolExecutionNotifications"]
    assert [(one["level"], one["properties"]["combination"]["--gpu"]) for one in lost] == [("error", "h2000")] * 2
    assert lost[0]["message"]["text"].startswith("--gpu h2000 --vllm-version 0.25.1: --gpu 'h2000' is not a GPU")


def test_fingerprints_differ_between_combinations_and_stay() -> None:
    told = prints(*GLM, *RELEASES)
    results = sarif(*GLM, *RELEASES)["results"]
    assert len(told) == len(results)
    assert set(told.values()) == {"0.25.1", "0.26.0"}
    other_memory = (*GLM[:-1], "70GiB")
    assert prints(*other_memory, *RELEASES) == told
    more = prints(*GLM, "--vllm-version", "0.24.0,0.25.1,0.26.0", "--gpu", "h200")
    assert told.items() <= more.items()


def test_gitlab_and_junit_are_valid_by_their_schemas() -> None:
    arguments = (*GLM, "--vllm-version", "0.25.1,0.26.0", "--gpu", "h200,h2000")
    issues = json.loads(sweep(*arguments, "--format", "gitlab").stdout)
    GITLAB.validate(issues)
    assert len({one["fingerprint"] for one in issues}) == len(issues)
    assert {one["location"]["path"] for one in issues if one["check_name"] == "unusable"} == {"zai-org/GLM-5.2-FP8"}
    document = sweep(*arguments, "--format", "junit").stdout
    JUNIT.validate(document)
    suites = ElementTree.fromstring(document).findall("testsuite")
    title = "vllm serve zai-org/GLM-5.2-FP8 (--gpu h200 --vllm-version {})"
    assert [one.get("name") for one in suites] == [title.format("0.25.1"), title.format("0.26.0"), "not checked"]
    assert [one.get("errors") for one in suites] == ["0", "0", "2"]
    assert suites[0].get("failures") == "1"


def test_combinations_are_escaped() -> None:
    nasty = "<script>x</script>|`y`@me \x1b[31m::error::,b"

    def told(name: str) -> str:
        return sweep("Llama-3.1-8B", "--tokenizer", nasty, "--format", name).stdout

    page = told("html")
    checked(page)
    assert "&lt;script&gt;x&lt;/script&gt;" in page
    shown = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(told("markdown"))
    assert "<script>" not in shown
    assert "<code>" not in shown
    SARIF.validate(json.loads(told("sarif")))
    GITLAB.validate(json.loads(told("gitlab")))
    JUNIT.validate(told("junit"))
    assert all(line.startswith(("::notice title=", "kvplan: ")) for line in told("github").splitlines())
    assert "\x1b" not in told("text")


def test_github_names_the_combination() -> None:
    lines = sweep(*GLM, *RELEASES, "--format", "github").stdout.splitlines()
    title = "vllm serve zai-org/GLM-5.2-FP8 (--vllm-version 0.25.1)"
    assert lines[0].startswith(f"::error title=KV201 packed-cache-viewed-plain::{title}: vLLM 0.25.1 stops")
    assert lines[-1].startswith("kvplan: error: 2 combinations, 1 error")


def test_markdown_has_the_table_the_findings_and_the_causes() -> None:
    text = sweep(*GLM, *RELEASES, "--diff", "--format", "markdown").stdout
    assert "**zai-org/GLM-5.2-FP8: 2 combinations, 1 of which vLLM does not start**" in text
    assert "| vLLM | verdict | stops at | cache dtype | page B | block | tokens |" in text
    assert "| 0.25.1 | **error** | kv\\_cache\\_view | fp8\\_ds\\_mla | 83,968 | 128 |" in text
    page = documentation.of_rule("KV201")
    assert f"| **error** | [KV201]({page}) packed-cache-viewed-plain | vLLM 0.25.1 |" in text
    assert "- **vLLM 0.25.1 -&gt; 0.26.0**\n  - outcome: stops at kv\\_cache\\_view: view\\_mismatch" in text
    assert "](https://github.com/vllm-project/vllm/issues/48379))" in text
    shown = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(text)
    assert shown.count("<table>") == 2
    assert "<code>MLA_SPEC_CARRIES_QUANT_MODE</code>" in shown


@pytest.mark.parametrize(("count", "first"), [(60, "| max-model-len |"), (61, "| severity |")])
def test_many_rows_do_not_push_findings_out_of_a_comment(count: int, first: str) -> None:
    lengths = ",".join(str(4096 + 16 * number) for number in range(count))
    text = sweep("Llama-3.1-8B", "--max-model-len", lengths, "--format", "markdown").stdout
    assert min(("| severity |", "| max-model-len |"), key=text.index) == first


def test_the_page_has_bars_table_and_causes() -> None:
    page = sweep(*GLM, "--vllm-version", "0.25.1,0.26.0", "--gpu", "h200,h2000", "--diff", "--format", "html").stdout
    checked(page)
    assert "<h2>Requests of 1,048,576 tokens at once</h2>" in page
    assert '<dt>h200, 0.25.1</dt><dd><i class="other" style="width:60.0%"></i>' in page
    assert "<span>1.14x; stops at kv_cache_view</span>" in page
    assert '<dt>h200, 0.26.0</dt><dd><i class="cache" style="width:58.9%"></i><span>1.12x</span>' in page
    assert '<span class="badge unusable">unusable</span>' in page
    assert "<h2>What changes</h2>" in page
    assert '<a href="https://github.com/vllm-project/vllm/issues/48379">vllm#48379</a>' in page


@pytest.mark.parametrize(
    ("options", "title", "says"),
    [
        (("--max-model-len", "4096,8192"), "Tokens in the cache of one GPU", "327,680"),
        ((), "Bytes that one request of the greatest length needs", "17,179,869,184 B"),
    ],
)
def test_the_bars_show_what_can_be_compared(options: tuple[str, ...], title: str, says: str) -> None:
    memory = ("--available-kv-memory", "40GiB") if options else ()
    page = sweep("Llama-3.1-8B", "--vllm-version", "0.33.0", *options, *memory, "--format", "html").stdout
    assert f"<h2>{title}</h2>" in page
    assert f"<span>{says}</span>" in page


def test_steps_that_change_the_same_are_told_once() -> None:
    text = sweep(*GLM[:3], "-tp", "4,8", "--skip-layers", "0,1", *RELEASES, "--diff").stdout
    assert text.count("vLLM 0.25.1 -> 0.26.0") == 1
    assert "vLLM 0.25.1 -> 0.26.0 (tp 4, 8)" in text


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_folds_no_figure(width: int) -> None:
    request = LaunchRequest(
        options=("GLM-5.2-FP8", "--kv-cache-dtype", "auto,fp8", "-tp", "4,8"),
        vllm_version="0.25.1,0.33.0",
        gpu="h200",
        available_kv_memory="60GiB",
        sources=Sources(offline=True),
    )
    report = run(SweepRequest(combinations=combinations(request))).report
    lines = sweeptext.render(report, Canvas(width=width)).splitlines()
    assert max(map(len, lines)) <= width
    rows = [line.split() for line in lines if line.startswith(("  0.25.1", "  0.33.0"))]
    assert len(rows) == 8
    assert {row[-1] for row in rows if width == 40} <= {"0.66x", "1.14x", "1.29x"}


def test_findings_of_several_rows_are_told_once() -> None:
    text = " ".join(sweep(*GLM, "--releases", "0.24..0.26", "--gpu", "h200").stdout.split())
    assert text.count("warning KV202:") == 1
    assert "in: vLLM 0.24.0, 0.25.1 (told for 0.24.0) fix: use vLLM 0.26.0 (a cache of" in text
    assert "More about a finding: kvplan explain KV201" in text


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (491_520, 245_760, "491,520 -> 245,760 (-50.0 %)"),
        (100_000, 110_000, "100,000 -> 110,000 (+10.0 %)"),
        (100_000, 100_001, "100,000 -> 100,001"),
        (None, 5, "- -> 5"),
    ],
)
def test_differences(before: int | None, after: int, told: str) -> None:
    change = Change("tokens", before, after, Explanation(Explained.OPTION))
    assert sweepwords.difference(change) == told


def test_which_rows_these_are() -> None:
    axes = (Axis("-tp", ("4", "8")), Axis("--vllm-version", ("0.24.0", "0.25.1", "0.26.0", "0.27.1")))
    rows = tuple(
        Combination({"-tp": size, "--vllm-version": release}, None)
        for size in axes[0].values
        for release in axes[1].values
    )
    report = SweepReport(axes, rows)
    assert sweepwords.among(report, rows) == "all"
    assert sweepwords.among(report, rows[:4]) == "tp 4"
    assert sweepwords.among(report, rows[1:4]) == "tp 4; vLLM 0.25.1 to 0.27.1"
    assert sweepwords.among(report, (rows[0], rows[4])) == "vLLM 0.24.0"
    assert sweepwords.among(report, (rows[0], rows[5])) == "tp 4; vLLM 0.24.0 | tp 8; vLLM 0.25.1"
    assert sweepwords.among(report, rows[:5]) == "tp 4 | tp 8; vLLM 0.24.0"
    assert rows[5].words == "-tp 8 --vllm-version 0.25.1"
    scattered = (rows[0], rows[5], rows[2], rows[7])
    assert sweepwords.among(report, scattered) == "tp 4; vLLM 0.24.0, 0.26.0 | tp 8; vLLM 0.25.1, 0.27.1"


def test_rows_without_anything_in_common() -> None:
    axes = tuple(Axis(name, ("1", "2", "3", "4")) for name in ("-a", "-b"))
    report = SweepReport(axes, tuple(Combination({"-a": a, "-b": b}, None) for a in "1234" for b in "1234"))
    diagonal = report.rows[::5]
    assert sweepwords.among(report, diagonal) == "4 of 16, such as a 1; b 1"


def test_alternatives_are_words_already() -> None:
    assert (
        Combination({"-tp": "8", "--vary 2": "--enforce-eager", "--vary 3": ""}, None).words == "-tp 8 --enforce-eager"
    )
    assert Combination({}, None).words == ""


def test_the_exit_code_is_the_same_in_every_format() -> None:
    for options, code in (((), 0), (("--fail-on", "error"), 1), (("--fail-on", "note", "--select", "KV7"), 0)):
        told = {name: sweep(*GLM, *RELEASES, *options, "--format", name).exit_code for name in FORMATS}
        assert set(told.values()) == {code}, told


def test_several_outputs_at_once(tmp_path: Path) -> None:
    files = [word for name in FORMATS for word in (f"--output-{name}", str(tmp_path / name))]
    result = sweep(*GLM, *RELEASES, "--diff", *files, "--fail-on", "error")
    assert result.exit_code == 1
    for name in FORMATS:
        assert (tmp_path / name).read_text("utf-8") == sweep(*GLM, *RELEASES, "--diff", "--format", name).stdout
    assert result.stdout == (tmp_path / "text").read_text("utf-8")


def test_settings_hold_for_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kvplan.toml").write_text(
        'ignore = ["KV9"]\nvllm-version = "0.26.0"\nfail-on = "warning"\n[severity]\nKV202 = "error"\n'
        '[[suppress]]\nrule = "KV201"\nmodel = "*/GLM-5.2-FP8"\nreason = "known"\n'
    )
    run = sarif(*GLM, *RELEASES)
    levels = {one["ruleId"]: one["level"] for one in run["results"]}
    assert levels["KV202"] == "error"
    assert {rule for rule in levels if rule.startswith("KV9")} == {"KV921"}
    (gone,) = [one for one in run["results"] if "suppressions" in one]
    assert gone["ruleId"] == "KV201"
    assert "1 finding suppressed" in sweep(*GLM, *RELEASES).stdout
    assert sweep(*GLM, *RELEASES).exit_code == 0
    said = sweep(*GLM, "--releases", "0.25.1,0.26", "--gpu", "h200").stderr
    assert "gives ignore, severity, suppress (" in said
    assert "gives vllm-version, ignore, severity, suppress (" in sweep(*GLM, "--gpu", "h200,b200").stderr


def test_one_combination_has_no_words() -> None:
    (result, *_) = sarif("Llama-3.1-8B")["results"]
    assert "combination" not in result["properties"]
    assert result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "vllm serve meta-llama/Llama-3.1-8B"
    assert outcomes.lost(SweepReport((), ())) == ()
