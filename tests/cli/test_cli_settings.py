"""Settings files: which one holds, what it changes, and how it is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.errors import InputError
from kvplan.rules.values import Severity
from kvplan.runs.settings.finding import find
from kvplan.runs.settings.reading import read
from tests.asking import kvplan, told
from tests.small_config import SMALL_QWEN3

GLM = ("GLM-5.2-FP8", "--skip-layers", "0,1", "--offline")
LAUNCH = "vllm serve {model} --max-model-len 8192 --kv-cache-dtype fp8\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def model(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(SMALL_QWEN3))


def test_the_nearest_file_holds(here: Path) -> None:
    deep = here / "a" / "b"
    deep.mkdir(parents=True)
    (here / "kvplan.toml").write_text('gpu = "b200"')
    assert find(deep) == here / "kvplan.toml"
    (here / "a" / "pyproject.toml").write_text("[tool.other]\nkvplan = 1")
    assert find(deep) == here / "kvplan.toml"
    (here / "a" / "pyproject.toml").write_text('[tool.kvplan]\ngpu = "h100"')
    assert find(deep) == here / "a" / "pyproject.toml"
    assert read(here / "a" / "pyproject.toml").options == {"gpu": "h100"}
    (here / "a" / "kvplan.toml").write_text("")
    (here / "a" / ".kvplan.toml").write_text("")
    assert find(deep) == here / "a" / ".kvplan.toml"


def test_a_settings_file_is_said_and_its_values_are_defaults(here: Path) -> None:
    (here / "kvplan.toml").write_text(
        'vllm-version = "0.26.0"\ngpu = "b200:4"\navailable-kv-memory = 1073741824\nignore = ["KV1"]\n'
    )
    result = kvplan("check", *GLM, "--format", "json")
    assert "kvplan.toml gives vllm-version, gpu, available-kv-memory, ignore" in result.stderr
    report = json.loads(result.stdout)
    assert (report["engine"]["release"], report["hardware"]["gpu"]) == ("0.26.0", "b200")
    assert report["capacity"]["available_bytes"] == 2**30


def test_the_command_line_wins(here: Path) -> None:
    (here / "kvplan.toml").write_text('vllm-version = "0.26.0"\ngpu = "b200"\n')
    result = kvplan("check", *GLM, "--gpu", "h200", "--vllm-version", "0.33.0", "--format", "json")
    assert result.stderr == ""
    report = json.loads(result.stdout)
    assert (report["engine"]["release"], report["hardware"]["gpu"]) == ("0.33.0", "h200")


def test_isolated_and_a_file_by_name(here: Path) -> None:
    (here / "kvplan.toml").write_text("nonsense = [")
    (here / "other.toml").write_text('gpu = "b200"')
    assert kvplan("check", *GLM, "--isolated").exit_code == 0
    assert told("check", *GLM, "--kvplan-config", "other.toml")["hardware"]["gpu"] == "b200"
    assert kvplan("check", *GLM).exit_code == 2
    both = kvplan("check", *GLM, "--isolated", "--kvplan-config", "other.toml")
    assert (both.exit_code, both.stdout) == (2, "")
    missing = kvplan("check", *GLM, "--kvplan-config", "none.toml")
    assert (missing.exit_code, missing.stderr) == (2, "kvplan: none.toml: cannot be read: no such file or directory\n")


def test_vllms_own_config_option_stays_vllms(here: Path) -> None:
    (here / "serve.yaml").write_text("max-model-len: 4096\n")
    report = told("check", "meta-llama/Llama-3.1-8B", "--config", "serve.yaml", "--offline")
    assert report["settings"]["max_model_len"] == 4096


def test_fail_on_holds_for_the_gates_and_not_for_plan(here: Path) -> None:
    (here / "kvplan.toml").write_text('fail-on = "note"\n')
    (here / "run.sh").write_text(LAUNCH.format(model="meta-llama/Llama-3.1-8B"))
    assert kvplan("check", *GLM).exit_code == 1
    assert kvplan("check", *GLM, "--fail-on", "error").exit_code == 0
    assert kvplan("scan", "--offline", "run.sh").exit_code == 1
    assert kvplan("plan", *GLM).exit_code == 0
    assert kvplan("sweep", *GLM, "--gpu", "h200,b200").exit_code == 0


def test_a_sweep_takes_the_settings_and_its_own_releases(here: Path) -> None:
    (here / "kvplan.toml").write_text(
        'vllm-version = "0.30.0"\ngpu = "b200"\n[catalog.models]\nglm = "zai-org/GLM-5.2-FP8"\n'
    )
    result = kvplan("sweep", "glm", "--releases", "0.25.1,0.26.0", "--offline")
    assert result.exit_code == 0
    assert "b200" in result.stdout
    assert "0.25.1" in result.stdout
    assert "0.30.0" not in result.stdout


def test_models_lists_those_of_the_project_and_marks_them(here: Path) -> None:
    model(here / "models" / "Acme" / "Own-1B")
    (here / "models" / "broken").mkdir()
    (here / "models" / "broken" / "config.json").write_text("{")
    (here / "kvplan.toml").write_text(
        'vllm-version = "0.26.0"\n[catalog]\ndirectories = ["models"]\n'
        '[catalog.models]\n"/models/glm" = "zai-org/GLM-5.2-FP8"\nhub = "acme/elsewhere"\n'
    )
    result = kvplan("models")
    assert result.stderr == ""
    own, _, known = result.stdout.partition("\nCatalog\n")
    lines = [line.split() for line in own.splitlines()]
    assert own.startswith("Of this project (kvplan.toml)\n")
    assert ["/models/glm", "GlmMoeDsaForCausalLM", "glm_moe_dsa", "zai-org/GLM-5.2-FP8"] in lines
    assert ["Acme/Own-1B", "Qwen3ForCausalLM", "qwen3", "models/Acme/Own-1B"] in lines
    assert "is not JSON" in told("models", "broken")["models"][0]["problem"]
    assert "zai-org/GLM-5.2-FP8" in known
    assert result.stdout.rstrip().endswith(", 4 of them of this project")
    rows = told("models", "glm-5.2-fp8")["models"]
    assert {(row["name"], row["source"]) for row in rows} == {("zai-org/GLM-5.2-FP8", "catalog")}
    assert told("models", "own-1b")["models"][0]["source"] == "settings"
    assert "Of this project" not in kvplan("models", "--isolated").stdout
    assert "gives vllm-version" in kvplan("models", "--architectures", "glm").stderr


def test_severities(here: Path) -> None:
    (here / "kvplan.toml").write_text('[severity]\nKV203 = "error"\nKV2 = "note"\n')
    report = told("check", *GLM)
    assert {f["rule"]: f["severity"] for f in report["findings"]}["KV203"] == "error"
    assert report["findings"][0]["rule"] == "KV203"
    assert (report["verdict"], kvplan("check", *GLM).exit_code) == ("error", 1)
    assert read(here / "kvplan.toml").severities["KV202"] is Severity.NOTE


def test_a_start_that_fails_is_not_graded_away(here: Path) -> None:
    (here / "kvplan.toml").write_text('[severity]\nKV = "note"\n')
    report = told("check", "meta-llama/Llama-3.1-8B", "--max-model-len", "9000000", "--offline")
    assert report["verdict"] == "error"
    assert {finding["severity"] for finding in report["findings"]} == {"note"}


def test_catalog_additions(here: Path) -> None:
    model(here / "models" / "acme" / "tiny")
    (here / "sub").mkdir()
    (here / "models" / "flat.json").write_text(json.dumps(SMALL_QWEN3))
    (here / "kvplan.toml").write_text(
        '[catalog]\ndirectories = ["models"]\n[catalog.models]\n'
        '"/models/prod" = "./models/acme/tiny"\nglm = "zai-org/GLM-5.2-FP8"\n'
    )
    for name in ("tiny", "Acme/Tiny", "flat", "/models/prod", "/models/prod/"):
        assert told("check", name, "--offline")["model"]["architecture"] == "Qwen3ForCausalLM", name
    assert told("check", "glm", "--offline")["model"]["name"] == "zai-org/GLM-5.2-FP8"
    (here / "sub" / "run.sh").write_text(LAUNCH.format(model="/models/prod") + LAUNCH.format(model="tiny"))
    report = told("scan", "--offline", "sub")
    assert report["unreadable"] == []
    assert {launch["model"]["architecture"] for launch in report["launches"]} == {"Qwen3ForCausalLM"}
    model(here / "models" / "other" / "tiny")
    (here / "elsewhere.toml").write_text('catalog.directories = ["models", "models/acme"]')
    ambiguous = kvplan("check", "tiny", "--offline", "--kvplan-config", "elsewhere.toml")
    assert ambiguous.exit_code == 2
    assert "several configs of catalog.directories have this name" in ambiguous.stderr


def test_include_and_exclude(here: Path) -> None:
    text = LAUNCH.format(model="meta-llama/Llama-3.1-8B")
    for name in ("deploy/a.sh", "deploy/old/b.sh", "docs/c.sh"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)

    def files(*paths: str) -> list[str]:
        return [launch["found"]["location"]["file"] for launch in told("scan", "--offline", *paths)["launches"]]

    (here / "kvplan.toml").write_text('scan = {exclude = ["old/"]}\n')
    assert files(".") == ["deploy/a.sh", "docs/c.sh"]
    (here / "kvplan.toml").write_text('scan = {include = ["deploy/**"], exclude = ["old/"]}\n')
    assert files(".") == ["deploy/a.sh"]
    assert files("docs/c.sh", "deploy") == ["docs/c.sh", "deploy/a.sh"]
    assert kvplan("scan", "--offline", "deploy/old/b.sh").exit_code == 2
    assert files(".", "--include", "docs/", "--exclude", "none/") == ["docs/c.sh"]
    assert files(".", "--exclude", "docs/", "--exclude", "a.sh") == ["deploy/old/b.sh"]
    refused = kvplan("scan", "--exclude", "a[z-a]", ".")
    said = refused.stderr.splitlines()[-1].partition(" is not a pattern")[0]
    assert (refused.exit_code, said) == (2, "kvplan: --exclude: 'a[z-a]'")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('gpus = "h200"', "there is no setting gpus; did you mean gpu?"),
        ('release = "0.26.0"', "there is no setting release; did you mean vllm-version?"),
        ('available_kv_memory = "6GiB"', "did you mean available-kv-memory?"),
        ("scan = {exlude = []}", "there is no setting scan.exlude; did you mean exclude?"),
        ("vllm-version = 0.26", 'vllm-version: is a number, not a string: write vllm-version = "0.26.0"'),
        ('vllm-version = "0.2"', "vllm-version: 0.2: releases before"),
        ('gpu = "h2000"', "gpu: 'h2000' is not a GPU kvplan knows; did you mean"),
        ('available-kv-memory = "lots"', "available-kv-memory: 'lots' is not an amount of memory"),
        ("available-kv-memory = true", "is a truth value"),
        ('select = "KV2"', 'select: is a string, not a list of strings: write select = ["KV2"]'),
        ('ignore = ["KV999"]', "ignore: there is no rule 'KV999'"),
        ('fail-on = "warnings"', "fail-on: 'warnings' is none of error, warning, note"),
        ('severity = {KV999 = "note"}', "severity.KV999: there is no rule"),
        ('severity = {KV203 = "info"}', "severity.KV203: 'info' is none of"),
        ("severity = 1979-05-27", "severity: is a date or time; write a table: [severity]"),
        ('catalog.directories = ["none"]', "catalog.directories: none is not a directory"),
        ('catalog.models = {a = ""}', "catalog.models.a: names no model"),
        ('scan = {include = ["a[z-a]"]}', "scan.include: 'a[z-a]' is not a pattern"),
        ("gpu = ", "is not TOML"),
    ],
)
def test_refusals_name_file_key_and_fix(text: str, says: str, here: Path) -> None:
    (here / "kvplan.toml").write_text(text)
    with pytest.raises(InputError) as caught:
        read(here / "kvplan.toml")
    assert str(caught.value).startswith("kvplan.toml: ")
    assert says in str(caught.value)
    result = kvplan("check", *GLM)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)


def test_a_broken_pyproject_matters_only_where_it_speaks_of_kvplan(here: Path) -> None:
    (here / "pyproject.toml").write_text("[tool.other\n")
    assert kvplan("check", *GLM).exit_code == 0
    (here / "pyproject.toml").write_text("[tool.kvplan\n")
    assert kvplan("check", *GLM).exit_code == 2
    (here / "pyproject.toml").write_text("[tool.kvplan]\ngpus = 1\n")
    assert "pyproject.toml [tool.kvplan]: there is no setting gpus" in kvplan("check", *GLM).stderr
