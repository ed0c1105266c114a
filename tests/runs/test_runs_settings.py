"""The settings file's published schema, what wrong types are told as, and who waits for pydantic."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kvplan.errors import InputError
from kvplan.runs.settings.reading import read
from kvplan.runs.settings.schema import SCHEMA_FILE, build, text
from kvplan.runs.settings.shape import SettingsFile

ROOT = Path(__file__).parents[2]
ENTRY = '[[suppress]]\nrule = "KV203"\npath = "x"\nreason = "r"\n'


def as_json(value: Any) -> Any:
    """TOML's values as a validator of JSON knows them."""
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    return value.isoformat() if isinstance(value, date) else value


def fits(document: str) -> bool:
    return jsonschema.Draft202012Validator(build()).is_valid(as_json(tomllib.loads(document)))


def test_the_published_schema_is_up_to_date() -> None:
    jsonschema.Draft202012Validator.check_schema(build())
    assert SCHEMA_FILE.read_text(encoding="utf-8") == text(), "python -m tests.regenerate schemas"


def test_the_example_of_the_reference_fits_and_has_nearly_all_keys() -> None:
    reference = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```toml\n(.*?)^```$", reference, re.MULTILINE | re.DOTALL)
    assert fits(example)
    keys = {str(field.alias) for field in SettingsFile.model_fields.values()}
    assert keys - set(tomllib.loads(example)) == {"select"}


@pytest.mark.parametrize(
    ("document", "good"),
    [
        ("", True),
        ("available-kv-memory = 64424509440", True),
        ("available-kv-memory = 0", True),
        ("available-kv-memory = 6.5", False),
        ('available-kv-memory = "3GiB"', True),
        ("gpu = 3", False),
        ('gpus = "h200"', False),
        ('fail-on = "info"', False),
        ('severity = {KV2 = "note"}', True),
        ('severity = {KV2 = "info"}', False),
        ("scan = {exlude = []}", False),
        (ENTRY, True),
        (ENTRY.replace('reason = "r"\n', ""), False),
        (f"{ENTRY}expires = 2027-01-31", True),
        (f"{ENTRY}expires = 3", False),
    ],
)
def test_the_schema_refuses_what_kvplan_refuses(document: str, good: bool, tmp_path: Path) -> None:
    assert fits(document) is good
    (tmp_path / "kvplan.toml").write_text(document)
    if good:
        read(tmp_path / "kvplan.toml")
    else:
        with pytest.raises(InputError):
            read(tmp_path / "kvplan.toml")


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("gpu = []", 'kvplan.toml: gpu: is a list, not a string: write gpu = "h200:8"'),
        ("fail-on = 3", 'kvplan.toml: fail-on: is a number, not a string: write fail-on = "error"'),
        ('select = ["KV2", 3]', 'kvplan.toml: select: is a list, not a list of strings: write select = ["…"]'),
        ("severity.KV2 = 3", 'kvplan.toml: severity.KV2: is a number, not a string: write KV2 = "error"'),
        (
            "catalog.models.a = 1",
            'kvplan.toml: catalog.models.a: is a number, not a string: write a = "zai-org/GLM-5.2-FP8"',
        ),
        ("scan = 3", "kvplan.toml: scan: is a number; write a table: [scan]"),
        ("catalog.models = []", "kvplan.toml: catalog.models: is a list; write a table: [catalog.models]"),
        ("suppress = {}", "kvplan.toml: suppress: is a table; write a list of tables: [[suppress]]"),
        ("suppress = [1]", "kvplan.toml: suppress: is a list; write a list of tables: [[suppress]]"),
        (
            "suppress = [{path = 3, reason = 2}]",
            'kvplan.toml: suppress[1].rule: is missing: write rule = "KV203"',
        ),
        (
            f"{ENTRY}expires = 2027-01-31T00:00:00",
            "kvplan.toml: suppress[1].expires: is a date or time, not a date: write expires = 2027-01-31",
        ),
        ("gpu = 3\n[[suppress]]\npaths = 3", "kvplan.toml: there is no setting suppress[1].paths; did you mean path?"),
    ],
)
def test_wrong_types(document: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kvplan.toml").write_text(document)
    with pytest.raises(InputError) as raised:
        read(Path("kvplan.toml"))
    assert str(raised.value) == says


def test_a_tool_table_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\nkvplan = 3\n")
    with pytest.raises(InputError, match=r"is a number; write a table: \[tool\.kvplan\]$"):
        read(tmp_path / "pyproject.toml")


@pytest.mark.parametrize(("settings", "loads"), [("", False), ('gpu = "h200"\n', True)])
def test_only_who_has_settings_waits_for_pydantic(settings: str, loads: bool, tmp_path: Path) -> None:
    if settings:
        (tmp_path / "kvplan.toml").write_text(settings)
    script = (
        "import sys\n"
        "from kvplan.cli import main\n"
        "code = main.main(['check', 'GLM-5.2-FP8', '--offline'], standalone_mode=False)\n"
        "print(code, 'pydantic' in sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == f"0 {loads}"
