"""`--config FILE.yaml` as the releases read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan.errors import InputError
from kvplan.launch.locations import OriginKind
from kvplan.launch.parser import EntryPoint, Parsed, parse
from kvplan.launch.tokens import tokens_of
from kvplan.releases import resolve


def read(
    tmp_path: Path,
    text: str,
    line: str = "--config c.yaml",
    release: str = "0.33.0",
    entry: EntryPoint = EntryPoint.SERVE,
) -> Parsed:
    (tmp_path / "c.yaml").write_text(text, encoding="utf-8")
    return parse(tokens_of(line.split()), resolve(release), entry, tmp_path)


def values(parsed: Parsed) -> dict[str, Any]:
    return {name: setting.value for name, setting in parsed.settings.items()}


def test_scalars_lists_and_objects(tmp_path: Path) -> None:
    text = """\
model: org/model
tensor-parallel-size: 4
kv_cache_dtype: fp8
kv-cache-dtype-skip-layers: [0, 1]
enforce-eager: true
attention-config:
  backend: FLASH_ATTN
served-model-name: []
max-model-len: 128k
"""
    parsed = read(tmp_path, text)
    assert parsed.refusals == ()
    assert values(parsed) == {
        "model": "org/model",
        "tensor_parallel_size": 4,
        "kv_cache_dtype": "fp8",
        "kv_cache_dtype_skip_layers": ["0", "1"],
        "enforce_eager": True,
        "attention_config": {"backend": "FLASH_ATTN"},
        "max_model_len": 128_000,
    }
    setting = parsed.settings["kv_cache_dtype"]
    assert setting.origin is OriginKind.CONFIG_FILE
    assert setting.location is not None
    assert (setting.location.file, setting.location.line, setting.location.column) == ("c.yaml", 3, 1)


def test_the_command_line_wins_without_a_remark(tmp_path: Path) -> None:
    parsed = read(tmp_path, "tensor-parallel-size: 4\nmodel: a/b\n", "m -tp 2 --config c.yaml")
    assert parsed.model_tag is not None
    assert parsed.model_tag.text == "m"
    assert parsed.settings["tensor_parallel_size"].value == 2
    assert parsed.settings["tensor_parallel_size"].origin is OriginKind.FLAG
    assert parsed.remarks == ()


@pytest.mark.parametrize(
    ("release", "entry", "expected"),
    [
        ("0.27.1", EntryPoint.SERVE, None),
        ("0.27.1", EntryPoint.MODULE, None),
        ("0.28.0", EntryPoint.SERVE, None),
        ("0.28.0", EntryPoint.MODULE, False),
        ("0.33.0", EntryPoint.MODULE, False),
    ],
)
def test_false_negates_only_for_the_module_form(
    tmp_path: Path, release: str, entry: EntryPoint, *, expected: bool | None
) -> None:
    line = "m --config c.yaml" if entry is EntryPoint.SERVE else "--config c.yaml --model m"
    parsed = read(tmp_path, "enable-prefix-caching: false\n", line, release, entry)
    assert values(parsed).get("enable_prefix_caching") is expected


def test_one_word_form_is_taken_and_not_read(tmp_path: Path) -> None:
    parsed = read(tmp_path, "tensor-parallel-size: 4\n", "m --config=c.yaml")
    assert values(parsed) == {"config": "c.yaml"}


def test_no_model_anywhere(tmp_path: Path) -> None:
    parsed = read(tmp_path, "tensor-parallel-size: 4\n", "-tp 2 --config c.yaml")
    assert parsed.refusals[0].message.startswith("No model specified!")
    assert parsed.refusals[0].exception == "ValueError"


@pytest.mark.parametrize(
    ("text", "exception"),
    [
        ("", "AttributeError"),
        ("- 1\n", "AttributeError"),
        ("1: 2\n", "TypeError"),
        ("a: [1,\n", "ParserError"),
        ("a: 'x\n", "ScannerError"),
        ("a: 2024-13-45\n", "ValueError"),
        ("a: {b: 2024-01-02}\n", "TypeError"),
        ("a: *nowhere\n", "ComposerError"),
        ("a: !unknown x\n", "ConstructorError"),
        ("a: 0x" + "f" * 5000 + "\n", "ValueError"),
    ],
)
def test_files_on_which_vllm_itself_fails(tmp_path: Path, text: str, exception: str) -> None:
    parsed = read(tmp_path, text, "m --config c.yaml -tp 2")
    assert [refusal.exception for refusal in parsed.refusals] == [exception]
    assert parsed.settings["tensor_parallel_size"].value == 2


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
MERGE_BOMB = "a0: &a0 {k: v}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        MERGE_BOMB,
        "a: &a [*a]\n",
        "a: " + "[" * 3000 + "]" * 3000 + "\n",
        "a: " + "x" * 1_100_000 + "\n",
        "s: &s " + "x" * 200_000 + "\nb: [" + ", ".join(["*s"] * 2000) + "]\n",
        "a: \x00\n",
    ],
    ids=["aliases", "merges", "cycle", "depth", "bytes", "text", "control"],
)
def test_hostile_files_are_refused_quickly(tmp_path: Path, text: str) -> None:
    try:
        parsed = read(tmp_path, text, "m --config c.yaml")
    except InputError as caught:
        message = str(caught)
    else:
        message = parsed.refusals[0].message
    assert "c.yaml" in message


def test_unreadable_files_are_input_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.yaml: the file cannot be read"):
        read(tmp_path, "", "m --config missing.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"a: \xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        read(tmp_path, "", "m --config binary.yaml")
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path, "", "m --config folder.yaml")
