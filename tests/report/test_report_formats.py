"""The formats for other programs: valid by their published schemas, complete, escaped, and alike in exit code."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kvplan.engine.values import Plan
from kvplan.launch.locations import Location
from kvplan.report import github, gitlab, junit, markdown, markup, outcomes, places, sarif
from kvplan.report.formats import FORMATS
from kvplan.report.values import make
from kvplan.rules.values import Finding, Severity
from tests.asking import kvplan
from tests.small_config import SMALL_QWEN3

SCHEMAS = Path(__file__).parent / "schemas"
MANIFESTS = Path(__file__).parents[1] / "launch" / "manifests"
SARIF = jsonschema.Draft4Validator(json.loads(lzma.decompress((SCHEMAS / "sarif-schema-2.1.0.json.xz").read_bytes())))
GITLAB = jsonschema.Draft7Validator(json.loads((SCHEMAS / "gitlab-code-quality.json").read_text("utf-8")))
JUNIT = xmlschema.XMLSchema(SCHEMAS / "junit-10.xsd")
POD = """name: glm
image: vllm/vllm-openai:v0.33.0
args: [zai-org/GLM-5.2-FP8, -tp, "8", --kv-cache-dtype-skip-layers, "0", "1"]
resources: {limits: {nvidia.com/gpu: 8}}
nodeSelector: {nvidia.com/gpu.product: NVIDIA-H200}
"""
LONG = POD.replace("--kv-cache-dtype-skip-layers", '--max-model-len, "9000000", --kv-cache-dtype-skip-layers')
LOST = "name: lost\nimage: vllm/vllm-openai:v0.33.0\ncommand: [bash, /start.sh]\n"
NASTY = "50% <b>|`x`| ::error::\r\n@team #1 [a](javascript:1) \x1b[31m*b* _c_ & https://x.example ]]>"


def scan(*arguments: str) -> str:
    return kvplan("scan", "--offline", *arguments).stdout


def check(*arguments: str) -> str:
    return kvplan("check", "GLM-5.2-FP8", "--offline", "--skip-layers", "0,1", *arguments).stdout


@pytest.fixture
def manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a launch that only has warnings, one that does not start and one that cannot be followed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "a b.yaml").write_text(f"{POD}---\n{LONG.replace('name: glm', 'name: long')}---\n{LOST}")
    return tmp_path


@pytest.mark.parametrize("folder", ["deploy", str(MANIFESTS)])
def test_a_scan_is_valid_by_the_published_schemas(folder: str, manifests: Path) -> None:
    log = json.loads(scan("--format", "sarif", folder))
    SARIF.validate(log)
    issues = json.loads(scan("--format", "gitlab", folder))
    GITLAB.validate(issues)
    JUNIT.validate(scan("--format", "junit", folder))
    (run,) = log["runs"]
    assert run["results"]
    assert run["invocations"][0]["toolExecutionNotifications"]
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    prints = [result["partialFingerprints"]["kvplanFinding/v1"] for result in run["results"]]
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize("command", ["check", "plan"])
def test_one_launch_is_valid_by_the_published_schemas(command: str) -> None:
    def told(name: str) -> str:
        return kvplan(command, "GLM-5.2-FP8", "--offline", "--skip-layers", "0,1", "--format", name).stdout

    log = json.loads(told("sarif"))
    SARIF.validate(log)
    GITLAB.validate(json.loads(told("gitlab")))
    JUNIT.validate(told("junit"))
    (run,) = log["runs"]
    (first, *_) = run["results"]
    assert first["ruleId"] == "KV203"
    assert first["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "zai-org/GLM-5.2-FP8", "uriBaseId": "%SRCROOT%"},
                "region": {"startLine": 1, "startColumn": 1},
            },
            "logicalLocations": [{"fullyQualifiedName": "vllm serve zai-org/GLM-5.2-FP8", "kind": "resource"}],
        }
    ]


def test_sarif_has_help_places_and_levels(manifests: Path) -> None:
    (run,) = json.loads(scan("--format", "sarif", "deploy"))["runs"]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    (rule,) = [rule for rule in rules if rule["id"] == "KV203"]
    assert "The skip list names layers" in rule["help"]["text"]
    assert "```sh\nkvplan check" in rule["help"]["markdown"]
    result = next(result for result in run["results"] if result["ruleId"] == "KV203")
    assert result["level"] == "warning"
    assert "Fix: --kv-cache-dtype fp8" in result["message"]["text"]
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "deploy/a%20b.yaml", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 3, "startColumn": 39},
    }


def test_fingerprints_survive_line_moves_and_other_numbers(manifests: Path) -> None:
    def prints() -> dict[str, list[str]]:
        (run,) = json.loads(scan("--format", "sarif", "deploy"))["runs"]
        issues = json.loads(scan("--format", "gitlab", "deploy"))
        return {
            "sarif": [one["partialFingerprints"]["kvplanFinding/v1"] for one in run["results"]],
            "gitlab": [one["fingerprint"] for one in issues],
        }

    before = prints()
    file = manifests / "deploy" / "a b.yaml"
    file.write_text("# moved\n\n\n" + file.read_text().replace("9000000", "8000000"))
    assert prints() == before


def test_absolute_paths_below_the_current_folder_become_relative(manifests: Path) -> None:
    assert scan("--format", "sarif", str(manifests / "deploy")) == scan("--format", "sarif", "deploy")


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("a/b c#d.yaml", "a/b%20c%23d.yaml"),
        ("./x.sh", "x.sh"),
        ("a:b.sh", "a%3Ab.sh"),
        ("/no/ü.sh", "file:///no/%C3%BC.sh"),
    ],
)
def test_uris(file: str, uri: str) -> None:
    assert places.uri(file) == uri


def test_paths_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "Path", PureWindowsPath)
    assert places.relative("deploy\\a b.yaml") == "deploy/a b.yaml"
    assert places.uri("deploy\\a b.yaml") == "deploy/a%20b.yaml"
    assert places.uri(".\\x.sh") == "x.sh"


def test_every_result_has_a_place_below_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code scanning refuses a log with a result that has none, or whose address is not one of a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(SMALL_QWEN3))
    for model, uri in (("GLM-5.2-FP8", "zai-org/GLM-5.2-FP8"), ("./model", "model/config.json")):
        (run,) = json.loads(kvplan("check", model, "--offline", "--format", "sarif").stdout)["runs"]
        places = [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]]
        assert places
        assert set(places) == {uri}


def test_standard_input_is_no_file() -> None:
    result = kvplan("scan", "--offline", "--format", "sarif", "-", stdin=POD)
    log = json.loads(result.stdout)
    SARIF.validate(log)
    places = [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in log["runs"][0]["results"]]
    assert set(places) == {"zai-org/GLM-5.2-FP8"}


def test_github_annotations(manifests: Path) -> None:
    lines = scan("--format", "github", "deploy").splitlines()
    kinds = [line.split(" ", 1)[0] for line in lines]
    assert kinds[0] == "::error"
    assert kinds[-2:] == ["::warning", "kvplan:"]
    assert [kind for kind in kinds[:-2] if kind == "::warning"]
    assert kinds.index("::notice") > kinds.index("::warning")
    (skip,) = [line for line in lines if "KV203" in line and line.startswith("::warning")][:1]
    assert skip.startswith("::warning file=deploy/a b.yaml,line=3,col=39,title=KV203 skip-list-without-quantisation::")
    assert "%0AFix: " in skip


def nasty(plan: Plan, make_finding: Callable[..., Finding]) -> Any:
    place = Location("a,b:c%.yaml", 3, 4)
    finding = make_finding(Severity.ERROR, "KV205", message=NASTY, fix=NASTY, location=place)
    return make(plan, [finding])


def test_what_comes_from_outside_is_escaped(good: Plan, make_finding: Callable[..., Finding]) -> None:
    report = nasty(good, make_finding)
    first, last = github.render(report).splitlines()
    assert first.startswith("::error file=a%2Cb%3Ac%25.yaml,line=3,col=4,title=KV205")
    assert "50%25 <b>" in first
    assert "%0A" in first
    assert last.startswith("kvplan: error")
    SARIF.validate(json.loads(sarif.render(report)))
    GITLAB.validate(json.loads(gitlab.render(report)))
    document = junit.render(report)
    JUNIT.validate(document)
    failure = ElementTree.fromstring(document).find(".//failure")
    assert failure is not None
    assert "]]>" in str(failure.get("message"))
    shown = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(markdown.render(report))
    assert "<b>" not in shown
    assert "<code>" not in shown
    assert "javascript:1)" in shown
    assert 'href="javascript' not in shown
    assert "@\u200bteam #\u200b1" in shown
    assert "https://\u200bx.example" in shown
    assert "50% &lt;b&gt;|`x`|" in shown


@given(st.text())
def test_escaped_text_shows_as_it_is(text: str) -> None:
    shown = MarkdownIt("gfm-like", {"linkify": False, "html": True}).renderInline(f"x {markup.escaped(text)} x")
    from html import unescape

    from kvplan.report.words import printable

    assert "<" not in shown
    plain = unescape(shown).replace("\u200b", "")
    assert plain == f"x {printable(' '.join(text.split()))} x".replace("\u200b", "")


def test_junit_fails_what_fail_on_names(manifests: Path) -> None:
    def failed(*options: str) -> set[str]:
        document = ElementTree.fromstring(scan("--format", "junit", *options, "deploy"))
        cases = document.iter("testcase")
        return {
            str(case.get("name"))
            for case in cases
            if case.find("failure") is not None or case.find("error") is not None
        }

    assert failed() == {"KV109 context-too-long"}
    strict = failed("--fail-on", "warning")
    assert "KV203 skip-list-without-quantisation" in strict
    assert any(name.startswith("deploy/a b.yaml:") for name in strict)


def test_a_clean_launch_is_a_test_that_passes(good: Plan) -> None:
    document = ElementTree.fromstring(junit.render(make(good, [])))
    assert [case.get("name") for case in document.iter("testcase")] == ["starts"]
    assert document.get("failures") == "0"


def test_markdown_tells_verdict_findings_layers_and_capacity(good: Plan, make_finding: Callable[..., Finding]) -> None:
    text = markdown.render(make(good, [make_finding()]))
    assert text.startswith("### kvplan: warning\n\n**zai-org/GLM-5.2-FP8 starts on vLLM 0.33.0, with 1 warning**\n")
    assert "| severity | rule | finding | fix |" in text
    assert "| 2-77 | fp8\\_ds\\_mla |" in text
    assert re.search(r"\| tokens \| [\d,]+ \|", text)


def test_a_long_scan_still_fits_into_a_comment(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("---\n".join(POD.replace("glm", f"glm-{number}") for number in range(150)))
    text = scan("--format", "markdown", str(tmp_path))
    assert 30_000 < len(text) < 65_536
    assert "left out for length" in text


def test_the_exit_code_is_the_same_in_every_format(manifests: Path) -> None:
    for options, code in (((), 1), (("--select", "KV203"), 0), (("--select", "KV203", "--fail-on", "warning"), 1)):
        arguments = ("scan", "--offline", *options, "deploy")
        assert {kvplan(*arguments, "--format", name).exit_code for name in FORMATS} == {code}
    arguments = ("check", "GLM-5.2-FP8", "--offline", "--skip-layers", "0,1", "--fail-on", "warning")
    assert {kvplan(*arguments, "--format", name).exit_code for name in FORMATS} == {1}


def test_several_outputs_at_once(manifests: Path) -> None:
    files = [word for name in FORMATS for word in (f"--output-{name}", f"{name}.out")]
    result = kvplan("scan", "--offline", *files, "deploy")
    assert result.exit_code == 1
    for name in FORMATS:
        assert (manifests / f"{name}.out").read_text("utf-8") == scan("--format", name, "deploy")
    assert result.stdout == (manifests / "text.out").read_text("utf-8")
    one = check("--output-sarif", "one.sarif", "--format", "github", "--output", "one.txt")
    assert one == ""
    assert (manifests / "one.sarif").read_text("utf-8") == check("--format", "sarif")
    assert (manifests / "one.txt").read_text("utf-8") == check("--format", "github")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--output-sarif", "-"), "--format and --output-sarif both write to standard output"),
        (("--output", "x", "--output-sarif", "./x"), "--output and --output-sarif both write to ./x"),
        (("--output-junit", "no/such/folder/x"), "--output-junit no/such/folder/x: cannot be written"),
    ],
)
def test_outputs_that_cannot_be(options: tuple[str, ...], says: str, manifests: Path) -> None:
    result = kvplan("check", "GLM-5.2-FP8", "--offline", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_formats_for_programs_are_made_of_an_empty_scan_too(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("a: b\n")
    target = tmp_path / "x.sarif"
    assert kvplan("scan", "--allow-empty", "--output-sarif", str(target), str(tmp_path)).stdout == ""
    SARIF.validate(json.loads(target.read_text("utf-8")))


def test_references_have_pages() -> None:
    assert outcomes.address("vllm#48379") == "https://github.com/vllm-project/vllm/issues/48379"
    assert outcomes.address("the docs") is None


def test_findings_that_were_let_be(manifests: Path) -> None:
    """Results with a suppression in SARIF, skipped tests in JUnit, a list in Markdown and HTML, none elsewhere."""
    file = manifests / "deploy" / "a b.yaml"

    def prints() -> set[str]:
        (run,) = json.loads(scan("--format", "sarif", "deploy"))["runs"]
        return {one["partialFingerprints"]["kvplanFinding/v1"] for one in run["results"]}

    before = prints()
    remark = "# kvplan: ignore[KV203] waits for FP8\n"
    file.write_text(file.read_text().replace("args:", f"{remark}args:", 1))
    log = json.loads(scan("--format", "sarif", "deploy"))
    SARIF.validate(log)
    gone = [one for one in log["runs"][0]["results"] if "suppressions" in one]
    assert [(one["ruleId"], one["suppressions"][0]["kind"]) for one in gone] == [("KV203", "inSource")]
    assert gone[0]["suppressions"][0]["justification"].startswith("waits for FP8 (")
    assert prints() == before
    document = scan("--format", "junit", "deploy")
    JUNIT.validate(document)
    assert '<skipped message="waits for FP8 (' in document
    assert "| KV203 | waits for FP8 (" in scan("--format", "markdown", "deploy")
    assert "<dt>KV203</dt><dd>waits for FP8 (" in scan("--format", "html", "deploy")
    for name in ("github", "gitlab"):
        assert "skip-list-without-quantisation" not in scan("--format", name, "deploy")
        assert "KV203" in scan("--format", name, "--no-ignore", "deploy")
