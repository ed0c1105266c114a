"""What commas, spans and alternatives mean in a sweep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.errors import InputError
from kvplan.releases import KNOWN
from kvplan.runs.combining import combinations, every_release, split_values, varied
from kvplan.runs.launching import LaunchRequest


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("auto,fp8", ("auto", "fp8")),
        ("auto, auto", ("auto",)),
        (r"a\,b", ("a,b",)),
        (r"a\,b,c", ("a,b", "c")),
        ('{"a": 1, "b": 2}', ('{"a": 1, "b": 2}',)),
        ("[1, 2]", ("[1, 2]",)),
        ("", ("",)),
    ],
)
def test_commas_divide_values(text: str, values: tuple[str, ...]) -> None:
    assert split_values("--x", text) == values


def test_releases_take_all_lists_and_spans() -> None:
    assert every_release("all") == ",".join(KNOWN)
    assert every_release("0.25..0.27,0.26") == "0.25.1,0.26.0,0.27.1,0.26"
    assert every_release("0.32..") == "0.32.0,0.33.0"
    assert every_release("..0.17") == "0.16.0,0.17.1"


@given(st.text(max_size=40))
def test_any_text_is_divided_or_refused(text: str) -> None:
    parts = [part.strip() for part in text.replace("\\,", "").split(",")]
    if len(parts) > 1 and not all(parts) and not text.lstrip().startswith(("{", "[")) and "\\" not in text:
        with pytest.raises(InputError, match="empty value"):
            split_values("--x", text)
    elif "\\" not in text:
        values = split_values("--x", text)
        assert len(values) == len(set(values)) >= 1


def test_a_literal_command_is_varied_at_its_end() -> None:
    request = LaunchRequest(literal=("vllm", "serve", "m", "-tp", "2"), gpu="l4")
    words = {"-tp": {"4": ("-tp", "4"), "": ()}}
    wanted = varied(request, {"--vllm-version": ("0.25.1", "0.26.0"), "--gpu": ("h100", "h200")}, words)
    assert [axis.name for axis in wanted.axes] == ["--gpu", "-tp", "--vllm-version"]
    asked = [(one.gpu, one.literal, one.vllm_version) for _, one in wanted.all()]
    assert asked[0] == ("h100", ("vllm", "serve", "m", "-tp", "2", "-tp", "4"), "0.25.1")
    assert asked[-1] == ("h200", ("vllm", "serve", "m", "-tp", "2"), "0.26.0")
    assert len(asked) == 8


def test_options_are_varied_where_they_stand() -> None:
    request = LaunchRequest(options=("m", "--kv-cache-dtype=auto,fp8", "-q", "a"), available_kv_memory="1GiB,2GiB")
    wanted = combinations(request, ["--enforce-eager | "])
    assert [axis.name for axis in wanted.axes] == ["--available-kv-memory", "--kv-cache-dtype", "--vary"]
    asked = [(one.available_kv_memory, one.options) for _, one in wanted.all()]
    assert asked[0] == ("1GiB", ("m", "--kv-cache-dtype=auto", "-q", "a", "--enforce-eager"))
    assert asked[-1] == ("2GiB", ("m", "--kv-cache-dtype=fp8", "-q", "a"))


@pytest.mark.parametrize(
    ("request_", "vary", "says"),
    [
        (LaunchRequest(literal=("vllm", "serve", "m")), "a | b", "before --"),
        (LaunchRequest(options=("m",)), "a", "give alternatives"),
        (LaunchRequest(options=("m",)), "'a | b", "No closing quotation"),
        (LaunchRequest(options=("m",)), " | ".join(map(str, range(1001))), "more than 1,000"),
    ],
)
def test_what_cannot_be_combined(request_: LaunchRequest, vary: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        combinations(request_, [vary])
