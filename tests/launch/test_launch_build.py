"""Launches from literal commands and from kvplan's own options."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.errors import InputError
from kvplan.launch.build import expand_skip_layers, from_arguments, from_command, from_options
from kvplan.launch.environment import knows, parse_assignments
from kvplan.launch.hardware import parse_gpu
from kvplan.launch.locations import Location
from kvplan.launch.parser import EntryPoint
from kvplan.launch.prefixes import strip
from kvplan.launch.tokens import Token, tokens_of
from kvplan.launch.values import Launch
from kvplan.releases import KNOWN, resolve

NEWEST = resolve("0.33.0")


def command(line: str, release: str = "0.33.0", **extra: Any) -> Launch:
    return from_command(shlex.split(line), release=resolve(release), **extra)


def options(line: str, release: str = "0.33.0", model: str | None = "m") -> Launch:
    return from_options(model, shlex.split(line), release=resolve(release))


@pytest.mark.parametrize(
    "line",
    [
        "vllm serve org/model -tp 8",
        "/opt/venv/bin/vllm serve org/model -tp 8",
        "serve org/model -tp 8",
        "exec vllm serve org/model -tp 8",
        "env vllm serve org/model -tp 8",
        "vllm serve -tp 8 --model org/model",
        "python -m vllm.entrypoints.openai.api_server --model org/model -tp 8",
        "python3 -m vllm.entrypoints.openai.api_server --model=org/model -tp=8",
        "/usr/bin/python3.12 -u -m vllm.entrypoints.openai.api_server -tp 8 --model org/model",
        "python3 -mvllm.entrypoints.openai.api_server --model org/model --tensor_parallel_size 8",
        "python -m vllm.entrypoints.cli.main serve org/model -tp 8",
    ],
)
def test_ways_to_start_the_server(line: str) -> None:
    launch = command(line)
    assert launch.model == "org/model"
    assert launch.get("tensor_parallel_size") == 8
    assert launch.literal
    assert launch.refusals == ()
    assert launch.remarks == ()
    assert launch.hardware.assumed


def test_assignments_before_the_command() -> None:
    launch = command(
        "A=1 env -u A VLLM_MLA_DISABLE=1 exec vllm serve m", environment={"VLLM_MLA_DISABLE": "0", "B": "2"}
    )
    assert launch.environment == {"VLLM_MLA_DISABLE": "1", "B": "2"}
    assert command("env -i X=1 vllm serve m").environment == {"X": "1"}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "A=1",
        "env",
        "vllm",
        "vllm bench serve",
        "ls -l",
        "python server.py",
        "python -m http.server",
        "python -m vllm.entrypoints.api_server --model m",
        "python -m vllm.entrypoints.cli.main chat",
        "env -S 'vllm serve m'",
        "--model m",
    ],
)
def test_other_commands_say_what_is_expected(line: str) -> None:
    with pytest.raises(InputError, match="expected `"):
        command(line)


def test_settings_and_accepted_options_are_told_apart() -> None:
    launch = command("vllm serve m --port 8000 --kv-cache-dtype fp8 --api-key x y --block-size 32")
    assert sorted(launch.settings) == ["block_size", "kv_cache_dtype"]
    assert launch.accepted == ("--port", "--api-key")
    assert launch.settings["kv_cache_dtype"].spelled == "--kv-cache-dtype"


def test_swallowed_model_means_the_default_model() -> None:
    launch = command("vllm serve --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1 zai-org/GLM-5.2-FP8")
    assert launch.model == "Qwen/Qwen3-0.6B"
    assert launch.get("kv_cache_dtype_skip_layers") == ["0", "1", "zai-org/GLM-5.2-FP8"]
    assert [(remark.kind, remark.option) for remark in launch.remarks] == [
        ("positional_swallowed", "--kv-cache-dtype-skip-layers")
    ]
    assert "'zai-org/GLM-5.2-FP8'" in launch.remarks[0].detail


def test_sliding_window_is_no_model() -> None:
    launch = command("vllm serve --kv-cache-dtype-skip-layers sliding_window")
    assert [remark.kind for remark in launch.remarks] == ["default_model"]


def test_positional_of_the_module_form_has_no_effect() -> None:
    launch = command("python -m vllm.entrypoints.openai.api_server org/model")
    assert launch.model == "Qwen/Qwen3-0.6B"
    assert [remark.kind for remark in launch.remarks] == ["positional_ignored", "default_model"]


def test_config_in_one_word_is_remarked() -> None:
    assert [remark.kind for remark in command("vllm serve m --config=c.yaml").remarks] == ["config_not_read"]


def test_locations_follow_the_words() -> None:
    places = [Location("d.yaml", line, 9) for line in range(1, 5)]
    launch = from_arguments(
        tokens_of(["org/model", "--kv-cache-dtype", "fp8", "--no-such"], places), EntryPoint.SERVE, release=NEWEST
    )
    assert launch.settings["kv_cache_dtype"].location == places[1]
    assert launch.refusals[0].location == places[3]
    assert launch.remarks[0].location == places[3]


def test_unknown_environment() -> None:
    launch = command("VLLM_ATTENTION_BACKEND=FLASHINFER VLLM_MLA_DISABLE=1 HF_HOME=/x vllm serve m")
    assert [(remark.kind, remark.option) for remark in launch.remarks] == [
        ("unknown_environment", "VLLM_ATTENTION_BACKEND")
    ]
    assert launch.refusals == ()
    for release in KNOWN:
        assert not knows("VLLM_ATTENTION_BACKEND", resolve(release))
        assert knows("VLLM_ALLOW_LONG_MAX_MODEL_LEN", resolve(release))
    strict = command("VLLM_NO_SUCH=1 vllm serve m --fail-on-environ-validation")
    assert strict.refusals[0].message == "Unknown vLLM environment variable detected: VLLM_NO_SUCH"
    assert strict.refusals[0].exception == "ValueError"


def test_assignments_for_the_env_option() -> None:
    assert parse_assignments(["VLLM_X=1", "B=a=b", "C="]) == {"VLLM_X": "1", "B": "a=b", "C": ""}
    with pytest.raises(InputError, match="is not an assignment"):
        parse_assignments(["VLLM_X"])


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("0", ["0"]),
        ("0,1", ["0", "1"]),
        ("0-3", ["0", "1", "2", "3"]),
        ("0, 2-3,sliding_window", ["0", "2", "3", "sliding_window"]),
    ],
)
def test_skip_layers_values(text: str, layers: list[str]) -> None:
    assert expand_skip_layers(text) == layers


@pytest.mark.parametrize("text", ["", ",", "0,,1", "-1", "3-0", "0-999999", "--x"])
def test_bad_skip_layers_values(text: str) -> None:
    with pytest.raises(InputError, match="--skip-layers"):
        expand_skip_layers(text)


@pytest.mark.parametrize(
    ("line", "layers"),
    [
        ("--skip-layers 0,1", ["0", "1"]),
        ("--skip-layers=0-2 -tp 8", ["0", "1", "2"]),
        ("--skip_layers 0 1 4-5 -tp 8", ["0", "1", "4", "5"]),
        ("--skip-layers 0 --skip-layers 3", ["0", "3"]),
        ("--kv-cache-dtype-skip-layers 0 1", ["0", "1"]),
        ("--kv-cache-dtype-skip-layers 0,1", ["0,1"]),
    ],
)
def test_skip_layers_in_kvplans_own_options(line: str, layers: list[str]) -> None:
    launch = options(line)
    assert launch.get("kv_cache_dtype_skip_layers") == layers
    assert not launch.literal
    assert launch.settings["kv_cache_dtype_skip_layers"].spelled in ("--skip-layers", "--kv-cache-dtype-skip-layers")


def test_skip_layers_swallows_no_model() -> None:
    launch = options("--skip-layers 0,1 org/model", model=None)
    assert launch.model == "org/model"
    assert launch.settings["kv_cache_dtype_skip_layers"].spelled == "--skip-layers"


def test_skip_layers_before_the_option_existed() -> None:
    launch = options("--skip-layers 0,1", "0.18.1")
    assert launch.refusals[0].message == "unrecognized arguments: --kv-cache-dtype-skip-layers 0 1"
    assert [remark.kind for remark in launch.remarks] == ["not_yet_option"]


@pytest.mark.parametrize(
    ("line", "model", "message"),
    [
        ("--kv-cache-dtpye fp8", "m", "did you mean --kv-cache-dtype"),
        ("--zzz", "m", "no such option: --zzz"),
        ("-tp 8", None, "no model given"),
        ("--kv-cache-dtype-skip-layers 0 org/model", None, "put the model first"),
        ("--skip-layers", "m", "needs a value"),
        ("--skip-layers 0 --kv-cache-dtype-skip-layers 1", "m", "not both"),
        ("-tp 8 -- vllm serve x", "m", "literal command"),
        ("other/model", "m", "one model"),
    ],
)
def test_mistakes_in_using_kvplan(line: str, model: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        options(line, model=model)


def test_what_a_release_refuses_is_no_mistake_in_using_kvplan() -> None:
    launch = options("--swap-space 4 --kv-cache-dtype fp8", "0.33.0")
    assert launch.refusals[0].message == "unrecognized arguments: --swap-space 4"
    assert launch.get("kv_cache_dtype") == "fp8"
    assert options("-tp x").refusals[0].option == "--tensor-parallel-size"


def test_hardware_and_memory_are_handed_on() -> None:
    launch = from_options("m", [], release=NEWEST, hardware=parse_gpu("b200:4"), available_kv_memory=2**36)
    assert (launch.hardware.name, launch.hardware.count, launch.available_kv_memory) == ("b200", 4, 2**36)


WORD = st.one_of(
    st.sampled_from(["vllm", "serve", "env", "exec", "python", "-m", "A=1", "--skip-layers", "0-3", "--", "m"]),
    st.sampled_from(["--kv-cache-dtype", "--hf-overrides", "-tp", "--config", "vllm.entrypoints.openai.api_server"]),
    st.text(max_size=10),
    st.recursive(st.none() | st.integers(), lambda inner: st.lists(inner, max_size=2)).map(json.dumps),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(WORD, max_size=9), st.sampled_from(KNOWN), st.sampled_from(["literal", "own"]))
def test_any_words_are_a_launch_or_an_input_error(words: list[str], release: str, mode: str) -> None:
    try:
        if mode == "literal":
            launch = from_command(words, release=resolve(release))
        else:
            launch = from_options(None, words, release=resolve(release))
    except InputError as caught:
        message = str(caught)
    else:
        message = str(launch)
    assert message


def test_an_ambiguous_abbreviation_is_a_usage_error_of_kvplans_own() -> None:
    with pytest.raises(InputError, match=r"ambiguous option: --kv-cache-dtyp could match"):
        from_options("m", ["--kv-cache-dtyp", "fp8"], release=resolve("0.33.0"))


def stripped(text: str) -> tuple[str, dict[str, str]]:
    """The command that is left, and the words that assign variables."""
    rest, assigned = strip(tokens_of(text.split()), split=divided)
    return " ".join(word.text for word in rest), {name: word.text for name, word in assigned.items()}


def divided(word: Token) -> Sequence[Token]:
    """A word as the words that it holds, which `+` divides here."""
    return [word.with_text(part) for part in word.text.split("+")]


@pytest.mark.parametrize(
    "before",
    ["exec", "nohup", "time -p", "/usr/bin/env", "setsid", "/sbin/tini -g --", "then", "env -i"],
)
def test_starters_are_passed_by(before: str) -> None:
    rest, assigned = stripped(f"{before} program m")
    assert (rest, assigned) == ("program m", {})


def test_assignments_are_kept_until_env_drops_them() -> None:
    assert stripped("A=1 B=2 env -u A C=3 program m") == ("program m", {"B": "B=2", "C": "C=3"})
    assert stripped("A=1 env -i C=3 program") == ("program", {"C": "C=3"})
    assert stripped("A=1 env --unset=A program") == ("program", {})
    assert stripped("env -- A=1 program") == ("program", {"A": "A=1"})


def test_a_command_line_in_one_word_is_divided() -> None:
    assert stripped("env -S A=1+program m") == ("program m", {"A": "A=1"})


def test_other_options_of_env_are_told() -> None:
    told: list[str] = []
    strip(tokens_of(["env", "-S", "program m"]), unread=told.append)
    assert told == ["-S"]
