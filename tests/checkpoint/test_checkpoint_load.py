"""What references mean, and every way a model's files can be wrong."""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from kvplan.checkpoint import Source, load
from kvplan.checkpoint.reading import MAX_BYTES
from kvplan.errors import InputError

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}


def write(folder: Path, config: Any, name: str = "config.json") -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / name
    if isinstance(config, bytes):
        path.write_bytes(config)
    else:
        path.write_text(config if isinstance(config, str) else json.dumps(config), encoding="utf-8")
    return path


def refused(reference: str | Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load(str(reference), offline=True, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("reference", ["GLM-5.2-FP8", "glm-5.2-fp8", "zai-org/GLM-5.2-FP8", "ZAI-ORG/glm-5.2-fp8"])
def test_a_catalog_name_is_found_in_any_spelling(reference: str) -> None:
    model = load(reference)
    assert model.name == "zai-org/GLM-5.2-FP8"
    assert model.source is Source.CATALOG
    assert model.path is None
    assert model.architectures == ("GlmMoeDsaForCausalLM",)
    assert model.text_config["kv_lora_rank"] + model.text_config["qk_rope_head_dim"] == 576
    assert model.provenance


def test_a_misspelt_name_lists_the_nearest() -> None:
    message = refused("GLM-5.2-FP9")
    assert "zai-org/GLM-5.2-FP8" in message


def test_a_name_of_nothing_says_what_can_be_given() -> None:
    assert "kvplan models" in refused("no such thing at all")
    assert "empty" in refused("  ")


def test_directory_and_file_lead_to_the_same_config(tmp_path: Path) -> None:
    path = write(tmp_path / "My-Llama", LLAMA)
    by_directory, by_file = load(str(path.parent)), load(str(path))
    assert by_directory.source is Source.DIRECTORY
    assert by_file.source is Source.FILE
    assert by_directory.name == by_file.name == "My-Llama"
    assert by_directory.config == by_file.config
    assert by_directory.config_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert by_directory.text_config is by_directory.config
    assert by_directory.config["head_dim"] == 128
    assert by_directory.config["dtype"] == "bfloat16"
    assert by_directory.config["rope_scaling"] == by_directory.config["rope_parameters"]


def test_a_path_comes_before_the_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "GLM-5.2-FP8", LLAMA)
    monkeypatch.chdir(tmp_path)
    assert load("GLM-5.2-FP8").architectures == ("LlamaForCausalLM",)


def test_what_looks_like_a_path_is_one() -> None:
    assert "no such file" in refused("./zai-org/GLM-5.2-FP8")
    assert "no such file" in refused("/nowhere/config.json")
    assert "no such file" in refused("~/no-such-model-here")


def test_standard_input() -> None:
    model = load("-", stdin=io.StringIO(json.dumps(LLAMA)))
    assert model.source is Source.STDIN
    assert model.config["num_key_value_heads"] == 8
    binary = io.TextIOWrapper(io.BytesIO(json.dumps(LLAMA).encode("utf-8-sig")), encoding="utf-8")
    assert load("-", stdin=binary).config == model.config


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b'{"model_type": "llama",\n "hidden_size": }', ":2:17: is not JSON"),
        (b'{"model_type": "ll\xffma"}', "not UTF-8 (byte 18 is 0xff)"),
        (b"[1, 2]", "top level is a list"),
        (b"null", "top level is null"),
        (b"12", "top level is a number"),
        (b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}", "nested more than 100 levels"),
        (b'{"a": ' + b"[" * 150 + b"]" * 150 + b"}", "nested more than 100 levels"),
        (b'{"hidden_size": 1, "hidden_size": 2}', "'hidden_size' is given twice with different values"),
        (b'{"hidden_size": ' + b"9" * 5000 + b"}", "has 5000 digits"),
        (b'{"rope_theta": 1e999}', "out of range"),
        (b"{}", "field 'model_type' is missing"),
        (b'{"model_type": 7}', "field 'model_type' is 7: write a string"),
        (b'{"speculators_config": {}}', "draft"),
        (b'{"model_type": "not_a_model"}', "'not_a_model' is not known"),
    ],
)
def test_broken_files_get_one_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = write(tmp_path, content)
    message = refused(path)
    assert message.startswith(str(path))
    assert words in message


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("num_hidden_layers", "32", "write a whole number without quotes"),
        ("num_hidden_layers", -1, "below 0"),
        ("num_hidden_layers", 10**9, "above 100000"),
        ("num_hidden_layers", True, "write a whole number"),
        ("num_hidden_layers", 1.5, "write a whole number"),
        ("num_hidden_layers", [1], "num_hidden_layers"),
        ("num_attention_heads", 0, "num_attention_heads"),
        ("hidden_size", "many", "write a whole number"),
        ("head_dim", -128, "below 0"),
        ("max_position_embeddings", "8192", "without quotes"),
        ("architectures", "LlamaForCausalLM", "write a list"),
        ("architectures", [3], "architectures[0]"),
    ],
)
def test_wrong_fields_are_named(tmp_path: Path, name: str, value: Any, words: str) -> None:
    path = write(tmp_path, {**LLAMA, name: value})
    if name == "num_attention_heads":  # transformers divides by it
        assert "division" in refused(path) or name in refused(path)
    else:
        message = refused(path)
        assert name in message
        assert words in message


def test_a_repeated_field_that_agrees_is_harmless(tmp_path: Path) -> None:
    text = json.dumps(LLAMA)[:-1] + ', "num_hidden_layers": 32}'
    assert load(str(write(tmp_path, text))).config["num_hidden_layers"] == 32


def test_numbers_beyond_json_are_tagged(tmp_path: Path) -> None:
    text = json.dumps({**LLAMA, "time_step_limit": [0.0, float("inf")], "odd": float("nan")})
    config = load(str(write(tmp_path, text))).config
    assert config["time_step_limit"] == [0.0, {"__float__": "Infinity"}]
    assert json.dumps(config, allow_nan=False)


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    assert load(str(write(tmp_path, json.dumps(LLAMA).encode("utf-8-sig")))).model_type == "llama"


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    assert "larger than 64 MiB" in refused(path)


def test_a_directory_without_config(tmp_path: Path) -> None:
    assert "has no config.json" in refused(tmp_path)
    (tmp_path / "config.json").mkdir()
    assert "is a directory" in refused(tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, LLAMA)
    path.chmod(0)
    assert "may not be read" in refused(path)


def test_permission_errors_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, LLAMA)

    def denied(path: object, *arguments: Any, **options: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("kvplan.files.os.open", denied)
    assert "may not be read" in refused(path)


def test_a_config_without_architectures_gets_the_base_model(tmp_path: Path) -> None:
    config = {name: value for name, value in LLAMA.items() if name != "architectures"}
    assert load(str(write(tmp_path, config))).architectures == ("LlamaModel",)


def test_weight_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, LLAMA)
    assert load(str(path)).weight_bytes is None
    (tmp_path / "model-1.safetensors").write_bytes(b"x" * 70)
    (tmp_path / "model-2.safetensors").write_bytes(b"x" * 30)
    assert load(str(path)).weight_bytes == 100
    write(tmp_path, {"metadata": {"total_size": 16_060_522_496}}, "model.safetensors.index.json")
    assert load(str(path)).weight_bytes == 16_060_522_496
    write(tmp_path, "{broken", "model.safetensors.index.json")
    assert load(str(path)).weight_bytes == 100


def test_overrides_of_flat_fields_derive_nothing_anew(tmp_path: Path) -> None:
    path = write(tmp_path, LLAMA)
    plain, changed = load(str(path)), load(str(path), hf_overrides={"hidden_size": 2048, "head_dim": 64})
    assert changed.config["hidden_size"] == 2048
    assert changed.config["head_dim"] == 64
    assert changed.config_sha256 == plain.config_sha256
    assert plain.config["hidden_size"] == 4096
    assert load(str(path), hf_overrides={"hidden_size": 2048}).config["head_dim"] == 128


def test_overrides_reach_nested_configs_and_the_catalog() -> None:
    name = "google/gemma-3-4b-it"
    changed = load(name, hf_overrides={"text_config": {"num_hidden_layers": 7}})
    assert changed.text_config["num_hidden_layers"] == 7
    assert changed.config["text_config"] is changed.text_config
    assert load(name).text_config["num_hidden_layers"] == 34
    assert changed.config_sha256 == load(name).config_sha256
    architecture = load(name, hf_overrides={"architectures": ["Gemma3ForCausalLM"]})
    assert architecture.architectures == ("Gemma3ForCausalLM",)


def test_rope_overrides_of_a_wrapper_do_not_reach_its_language_model() -> None:
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    plain = load("Qwen/Qwen2.5-VL-7B-Instruct")
    for name in ("rope_scaling", "rope_parameters"):
        changed = load("Qwen/Qwen2.5-VL-7B-Instruct", hf_overrides={name: rope})
        assert changed.config[name] == rope
        assert changed.text_config["rope_parameters"] == plain.text_config["rope_parameters"]


def test_overrides_below_a_section_update_the_objects_in_it() -> None:
    name = "Qwen/Qwen2.5-VL-7B-Instruct"
    theta = load(name).text_config["rope_parameters"]["rope_theta"]
    changed = load(name, hf_overrides={"text_config": {"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}})
    rope = changed.text_config["rope_parameters"]
    assert (rope["rope_type"], rope["factor"], rope["rope_theta"]) == ("yarn", 4.0, theta)


def test_overrides_of_unknown_types_work_alike(tmp_path: Path) -> None:
    model = load("chatglm3-6b", hf_overrides={"seq_length": 4096, "rope_scaling": {"factor": 2.0}})
    assert model.config["seq_length"] == 4096
    assert model.config["rope_scaling"] == {"factor": 2.0}


def test_the_same_file_is_normalised_once(tmp_path: Path) -> None:
    path = write(tmp_path, LLAMA)
    assert load(str(path)).config is load(str(path)).config
    assert load(str(path)).config is not load(str(path), hf_overrides={"hidden_size": 1024}).config


def test_a_zero_that_something_is_divided_by_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_attention_heads": 0}')
    with pytest.raises(InputError, match=r"field 'num_attention_heads' is 0"):
        load(str(file))
