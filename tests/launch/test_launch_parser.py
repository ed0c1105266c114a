"""vLLM's own parsing rules, traps included."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kvplan.errors import InputError
from kvplan.launch.options import Kind, table_of
from kvplan.launch.parser import EntryPoint, Parsed, parse
from kvplan.launch.tokens import tokens_of
from kvplan.releases import KNOWN, resolve


def read(line: str | list[str], release: str = "0.33.0", entry: EntryPoint = EntryPoint.SERVE) -> Parsed:
    words = line.split() if isinstance(line, str) else line
    return parse(tokens_of(words), resolve(release), entry)


def values(line: str | list[str], release: str = "0.33.0", entry: EntryPoint = EntryPoint.SERVE) -> dict[str, Any]:
    parsed = read(line, release, entry)
    assert parsed.refusals == ()
    return {name: setting.value for name, setting in parsed.settings.items()}


def refusal(line: str | list[str], release: str = "0.33.0") -> str:
    return read(line, release).refusals[0].message


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("m --kv-cache-dtype fp8", {"kv_cache_dtype": "fp8"}),
        ("m --kv_cache_dtype=fp8", {"kv_cache_dtype": "fp8"}),
        ("m --kv-cache_dtype fp8", {"kv_cache_dtype": "fp8"}),
        ("--kv-cache-dtype fp8 m", {"kv_cache_dtype": "fp8"}),
        ("m -tp 8 -pp=2 -dp 1", {"tensor_parallel_size": 8, "pipeline_parallel_size": 2, "data_parallel_size": 1}),
        ("m -qfp8", {"quantization": "fp8"}),
        ("m --max-model-len 128k", {"max_model_len": 128_000}),
        ("m --max-model-len 128K", {"max_model_len": 131_072}),
        ("m --max-model-len 25.6k", {"max_model_len": 25_600}),
        ("m --max-model-len auto", {"max_model_len": -1}),
        ("m --max-model-len -1", {"max_model_len": -1}),
        ("m --kv-cache-memory-bytes 10G", {"kv_cache_memory_bytes": 10 * 2**30}),
        ("m --kv-cache-memory-bytes 10g", {"kv_cache_memory_bytes": 10 * 10**9}),
        ("m --kv-cache-memory-bytes None", {"kv_cache_memory_bytes": None}),
        ("m --enable-prefix-caching", {"enable_prefix_caching": True}),
        ("m --no-enable-prefix-caching", {"enable_prefix_caching": False}),
        ("m --disable-prefix-caching", {"enable_prefix_caching": False}),
        ("m --kv-cache-dtype-skip-layers 0 1 -tp 8", {"kv_cache_dtype_skip_layers": ["0", "1"]}),
        ("m --kv-cache-dtype-skip-layers 0,1", {"kv_cache_dtype_skip_layers": ["0,1"]}),
        ("m --kv-cache-dtype-skip-layers=0", {"kv_cache_dtype_skip_layers": ["0"]}),
        ("m --kv-cache-dtype-skip-layers -1", {"kv_cache_dtype_skip_layers": ["-1"]}),
        ("m --gpu-memory-utilization .95", {"gpu_memory_utilization": 0.95}),
        ("m --gpu-memory-utilization=.95", {"gpu_memory_utilization": 0.95}),
        ("m -O3", {"optimization_level": "3"}),
        ("m -O 2", {"optimization_level": "2"}),
        ("m --hf-overrides.a_b.c 4 --hf-overrides.l+ x,y", {"hf_overrides": {"a_b": {"c": 4}, "l": ["x", "y"]}}),
        ("m --hf-overrides.l+ x --hf-overrides.l+=y", {"hf_overrides": {"l": ["x", "y"]}}),
        ("m --speculative-config.method ngram", {"speculative_config": {"method": "ngram"}}),
        ("m -sc.num_speculative_tokens 3", {"speculative_config": {"num_speculative_tokens": 3}}),
        ("m --kv-transfer-config.kv_port 1k", {"kv_transfer_config": {"kv_port": 1000}}),
        ("m --moe-backend FLASHINFER-CUTLASS", {"moe_backend": "flashinfer_cutlass"}),
        ("m --gpu-memory 0.5", {"gpu_memory_utilization": 0.5}),
    ],
)
def test_syntax(line: str, expected: dict[str, Any]) -> None:
    found = values(line)
    assert {name: found[name] for name in expected} == expected
    parsed = read(line)
    assert parsed.model_tag is not None
    assert parsed.model_tag.text == "m"


def test_json_values() -> None:
    assert values(["m", "--hf-overrides", '{"rope": {"factor": 2.0}}'])["hf_overrides"] == {"rope": {"factor": 2.0}}
    assert values(["m", "--hf-overrides", "some.function"])["hf_overrides"] == "some.function"
    assert values(["m", "--attention-config", '{"backend": "FLASH_ATTN"}'])["attention_config"] == {
        "backend": "FLASH_ATTN"
    }
    size = ["m", "--kv-transfer-config", '{"kv_port": 80m, "engine_id": "80m"}']
    assert values(size)["kv_transfer_config"] == {"kv_port": 80_000_000, "engine_id": "80m"}
    assert "Invalid JSON" in refusal(size, "0.19.1")


def test_dotted_numbers_with_suffixes_came_with_0_20() -> None:
    line = "m --hf-overrides.x 80g"
    assert values(line, "0.19.1")["hf_overrides"] == {"x": "80g"}
    assert values(line, "0.20.2")["hf_overrides"] == {"x": 80 * 10**9}


@pytest.mark.parametrize(
    ("line", "release", "message"),
    [
        (
            "m --kv-cache-dtype turboquant_k8v4",
            "0.16.0",
            "argument --kv-cache-dtype: invalid choice: 'turboquant_k8v4' (choose from 'auto', 'bfloat16', 'fp8', "
            "'fp8_ds_mla', 'fp8_e4m3', 'fp8_e5m2', 'fp8_inc')",
        ),
        ("m -tp x", "0.33.0", "argument --tensor-parallel-size/-tp: invalid int value: 'x'"),
        ("m --num-gpu-blocks-override x", "0.33.0", "Value x cannot be converted to <class 'int'>."),
        ("m --block-size 24", "0.16.0", "invalid choice: 24 (choose from 1, 8, 16, 32, 64, 128, 256)"),
        ("m --max-model-len 1.5K", "0.33.0", "Did you mean to use 1.5k instead?"),
        ("m --max-model-len many", "0.33.0", "invalid human_readable_int_or_auto value: 'many'"),
        ("m --kv-cache-dtype", "0.33.0", "argument --kv-cache-dtype: expected one argument"),
        ("m --kv-cache-dtype -tp 8", "0.33.0", "argument --kv-cache-dtype: expected one argument"),
        ("m --kv-cache-dtype-skip-layers -tp 8", "0.33.0", "expected at least one argument"),
        ("m --enable-prefix-caching=true", "0.33.0", "ignored explicit argument 'true'"),
        (
            "m --max-num 5",
            "0.33.0",
            "ambiguous option: --max-num could match --max-num-batched-tokens, --max-num-",
        ),
        ("m n", "0.33.0", "unrecognized arguments: n"),
        ("m --no-such 1", "0.33.0", "unrecognized arguments: --no-such 1"),
        (
            "m --kv-cache-dtype-skip-layers 0 1",
            "0.18.1",
            "unrecognized arguments: --kv-cache-dtype-skip-layers 0 1",
        ),
        ("m --hf-overrides.x", "0.33.0", "list index out of range"),
        ("--model", "0.33.0", "list index out of range"),
        ("m --config", "0.33.0", "No config file specified! Please check your command-line arguments."),
        ("m --config a.yaml --config b.yaml", "0.33.0", "More than one config file specified!"),
        ("m --config options.txt", "0.33.0", "Config file must be of a yaml/yml type. txt supplied"),
        ("--served-model-name x", "0.33.0", "`model` should be provided as the first positional argument"),
        ("m --attention-config.backed FLASH_ATTN", "0.33.0", "AttentionConfig\nbacked\n  Unexpected keyword argument"),
        (
            "m --attention-config 3",
            "0.33.0",
            "-ac: 1 validation error for AttentionConfig\n  Input should be an object",
        ),
        ("m --lora-modules nonsense", "0.33.0", "Invalid JSON format for --lora-modules: nonsense"),
    ],
)
def test_refusals(line: str, release: str, message: str) -> None:
    assert message in refusal(line, release)


def test_reading_goes_on_after_a_refusal() -> None:
    parsed = read("m -tp x --kv-cache-dtype fp8 --no-such --block-size 32")
    assert [entry.option for entry in parsed.refusals] == ["--tensor-parallel-size", "--no-such"]
    assert parsed.settings["kv_cache_dtype"].value == "fp8"
    assert parsed.settings["block_size"].value == 32


def test_crashes_keep_their_exception() -> None:
    assert read("m --hf-overrides.x").refusals[0].exception == "IndexError"
    assert read("m --max-model-len " + "9" * 400 + "k").refusals[0].exception == "OverflowError"
    assert read("--served-model-name x").refusals[0].exception == "ValueError"
    assert read("--served-model-name x", "0.16.0").refusals == ()


def test_a_list_swallows_the_model() -> None:
    parsed = read("--kv-cache-dtype-skip-layers 0 1 org/model")
    assert parsed.model_tag is None
    assert parsed.settings["kv_cache_dtype_skip_layers"].value == ["0", "1", "org/model"]


def test_last_repetition_wins_as_a_whole() -> None:
    parsed = read("m --kv-cache-dtype-skip-layers 0 --kv-cache-dtype-skip-layers 1 2")
    assert parsed.settings["kv_cache_dtype_skip_layers"].value == ["1", "2"]
    assert [(remark.kind, remark.option) for remark in parsed.remarks] == [
        ("repeated_option", "--kv-cache-dtype-skip-layers")
    ]


def test_appending_options_add_up() -> None:
    assert values("m --middleware a --middleware b")["middleware"] == ["a", "b"]


def test_abbreviations_are_remarked() -> None:
    parsed = read("m --kv-cache-dtype-s 0")
    assert parsed.settings["kv_cache_dtype_skip_layers"].value == ["0"]
    assert [(remark.kind, remark.option) for remark in parsed.remarks] == [
        ("abbreviated_option", "--kv-cache-dtype-skip-layers")
    ]
    assert read("m -qfp8").remarks == ()


@pytest.mark.parametrize(
    ("line", "release", "kind", "detail"),
    [
        ("m --swap-space 4", "0.33.0", "removed_option", "vLLM has it up to 0.17.1"),
        ("m --kv-cache-dtype-skip-layers 0", "0.16.0", "not_yet_option", "vLLM has it from 0.19.1"),
        ("m --never-was", "0.33.0", "unknown_option", "no vLLM release that kvplan knows has this option"),
    ],
)
def test_options_of_other_releases(line: str, release: str, kind: str, detail: str) -> None:
    remarks = read(line, release).remarks
    assert [(remark.kind, remark.detail) for remark in remarks] == [(kind, detail)]


def test_model_option_moves_to_the_front() -> None:
    parsed = read("-tp 2 --model org/model")
    assert parsed.model_tag is not None
    assert parsed.model_tag.text == "org/model"
    assert refusal("a/b --model org/model") == "unrecognized arguments: a/b"
    module = read("--model org/model", entry=EntryPoint.MODULE)
    assert module.model_tag is None
    assert module.settings["model"].value == "org/model"


def test_help_starts_nothing() -> None:
    with pytest.raises(InputError, match="prints vLLM's help"):
        read("m --help")


WORDS = st.one_of(
    st.sampled_from(sorted(table_of(resolve("0.33.0")).by_flag)),
    st.sampled_from(["0", "-1", "m/x", "fp8", "128k", "{}", '{"a": 1}', "--", "-", "-O", "--x.y", "--config=a", ""]),
    st.text(max_size=12),
    st.text(max_size=6).map(lambda text: f"--hf-overrides.{text}"),
    st.text(max_size=6).map(lambda text: f"--{text}"),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, max_size=8), st.sampled_from(KNOWN), st.sampled_from(list(EntryPoint)))
def test_any_words_are_parsed_or_an_input_error(words: list[str], release: str, entry: EntryPoint) -> None:
    try:
        parsed = parse(tokens_of(words), resolve(release), entry)
    except InputError as caught:
        message = str(caught)
    else:
        message = "parsed" if isinstance(parsed, Parsed) else ""
    assert message


PLAIN = [
    option
    for option in table_of(resolve("0.33.0")).by_name.values()
    if option.kind in (Kind.STR, Kind.BOOL, Kind.TRUE) and option.choices is None and not option.optional
]
PLAIN_WORDS = st.one_of(
    st.sampled_from([flag for option in PLAIN for flag in option.flags]),
    st.sampled_from([flag for option in PLAIN for flag in option.flags if flag.startswith("--")]).flatmap(
        lambda flag: st.integers(4, len(flag)).map(lambda end: flag[:end])
    ),
    st.sampled_from(["a", "b c", "-1", "m/x", "--zz", "1"]),
)


class _Flag(argparse.Action):
    """A flag without a value that knows its opposites, as vLLM's have."""

    def __call__(self, parser: Any, namespace: Any, given_values: Any, option_string: str | None = None) -> None:
        assert option_string is not None
        option = table_of(resolve("0.33.0")).by_name[self.dest]
        setattr(namespace, self.dest, not option.negates(option_string))


class _ArgparseError(Exception):
    pass


class _Reference(argparse.ArgumentParser):
    """The standard library's own parser over the same table."""

    def __init__(self) -> None:
        super().__init__(prog="x", add_help=False, argument_default=argparse.SUPPRESS)
        for option in table_of(resolve("0.33.0")).by_name.values():
            if option.positional:
                self.add_argument(option.name, nargs=option.nargs)
            elif option.takes_value:
                extra: dict[str, Any] = {"nargs": option.nargs, "const": option.const}
                if option.nargs is None:
                    extra = {"action": "append"} if option.append else {}
                self.add_argument(*option.flags, *option.hidden, dest=option.name, **extra)
            else:
                self.add_argument(*option.flags, *option.hidden, dest=option.name, nargs=0, action=_Flag)

    def error(self, message: str) -> Any:
        raise _ArgparseError(message)


REFERENCE = _Reference()


@settings(max_examples=300, deadline=None)
@given(st.lists(PLAIN_WORDS, max_size=7))
def test_agrees_with_argparse(words: list[str]) -> None:
    expected: dict[str, Any] | None
    try:
        expected = vars(REFERENCE.parse_args(words))
    except _ArgparseError:
        expected = None
    parsed = parse(tokens_of(words), resolve("0.33.0"), EntryPoint.MODULE)
    if expected is None:
        assert parsed.refusals
        return
    assume(set(expected) <= {option.name for option in PLAIN} | {"model_tag"})
    found = {name: setting.value for name, setting in parsed.settings.items()}
    if parsed.model_tag is not None:
        found["model_tag"] = parsed.model_tag.text
    assert parsed.refusals == ()
    assert found == expected
