"""The text report: verdict first, runs folded, nothing wider than the page, colour only where it is due."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from kvplan.engine.failures import NotEmulated
from kvplan.engine.models.geometry import Role
from kvplan.engine.values import LayerPlan, Plan, SharedLayer, Stage, StartupError
from kvplan.errors import InputError
from kvplan.releases import KNOWN
from kvplan.report.canvas import NARROWEST, PIPED_WIDTH, STYLES, Canvas
from kvplan.report.runs import fold
from kvplan.report.text import render
from kvplan.report.trace import check_question
from kvplan.report.values import Detail, Verdict, make
from kvplan.report.words import layer_list, lifetime, size
from kvplan.rules.values import Finding, Severity
from kvplan.words import ranges

MakeFinding = Callable[..., Finding]


def lines(text: str) -> list[str]:
    return text.splitlines()


def row(text: str, start: str) -> list[str]:
    (found,) = [line for line in lines(text) if line.strip().startswith(start)]
    return found.split()


def test_the_verdict_comes_first_in_one_line(good: Plan, make_finding: MakeFinding) -> None:
    told = render(make(good, [make_finding(), make_finding(Severity.NOTE, "KV902")]), Canvas(80))
    assert lines(told)[0] == ("warning: zai-org/GLM-5.2-FP8 starts on vLLM 0.33.0, with 1 warning and 1 note")


def test_findings_come_worst_first_with_the_fix(good: Plan, make_finding: MakeFinding) -> None:
    findings = [make_finding(Severity.NOTE, "KV101"), make_finding(Severity.ERROR, "KV601", fix="pass --x 1")]
    told = render(make(good, findings), Canvas(200))
    assert told.index("error KV601:") < told.index("note KV101:")
    assert row(told, "fix:     pass") == ["fix:", "pass", "--x", "1"]


def test_layers_fold_into_runs(good: Plan) -> None:
    told = render(make(good, []), Canvas(200))
    assert row(told, "0-1 ")[:4] == ["0-1", "bfloat16", "NONE", "FLASH_ATTN_MLA_SPARSE"]
    assert row(told, "2-77")[1:4] == ["fp8_ds_mla", "FP8_PER_TENSOR", "FLASHMLA_SPARSE"]
    assert row(told, "21 × indexer")[-2:] == ["16,896", "132"]
    assert row(told, "0-1 ")[-1] == "skipped"


def test_a_narrow_page_lists_the_backends_under_the_table(good: Plan) -> None:
    told = render(make(good, []), Canvas(80))
    assert "backends  FLASH_ATTN_MLA_SPARSE (0-1), FLASHMLA_SPARSE (2-77)" in told


def test_vllms_error_and_the_capacity_are_quoted(failing: Plan) -> None:
    told = render(make(failing, []), Canvas(200))
    assert lines(told)[0] == "error: zai-org/GLM-5.2-FP8 does not start on vLLM 0.25.1 (kv_cache_view)"
    assert "RuntimeError: shape '[18662, 64, 576]' is invalid for input of size 783505408" in told
    assert "60.00 GiB (64,424,509,440 B)" in told
    assert "GPU KV cache size: 1,172,736 tokens" in told


def test_the_plan_shows_settings_steps_and_rejections(good: Plan) -> None:
    told = render(make(good, [], detail=Detail.PLAN), Canvas(100))
    for heading in ("Settings", "Block size", "Attention backends", "Layers", "Groups", "Capacity"):
        assert heading in told
    assert "not FLASHINFER_MLA_SPARSE  compute capability 9.0 is not supported" in told


def test_why_shows_cause_option_and_history(good: Plan) -> None:
    told = render(make(good, [], detail=Detail.WHY, layer=0, value="cache_dtype"), Canvas(100))
    assert "layer.cache_dtype = auto (layers 0-1)" in told
    assert "option --kv-cache-dtype-skip-layers" in told
    assert "vLLM since 0.26.0: MLA layers look at the skip list (vllm#1)" in told
    assert "FLASHMLA_SPARSE" not in told


@pytest.mark.parametrize(
    ("layer", "value", "says"), [(78, None, "0 to 77"), (None, "colour", "cache.dtype, layer.backend")]
)
def test_why_refuses_what_is_not_there(good: Plan, layer: int | None, value: str | None, says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        check_question(good, layer, value)


def test_an_unknown_memory_says_what_to_pass(good: Plan) -> None:
    told = render(make(replace(good, capacity=None), []), Canvas(80))
    assert "not computed: pass --available-kv-memory" in told


def test_a_refused_launch_has_no_capacity_to_speak_of(refused: Plan) -> None:
    told = render(make(refused, []), Canvas(80))
    assert "Capacity" not in told
    assert lines(told)[0] == "error: zai-org/GLM-5.2-FP8 does not start on vLLM 0.33.0 (options)"


def test_what_kvplan_cannot_say_is_not_laid_at_vllms_door(refused: Plan) -> None:
    error = StartupError(Stage.LAYERS, "NotEmulated", "it has state layers", NotEmulated(why="it has state layers"))
    told = render(make(replace(refused, error=error), []), Canvas(80))
    assert lines(told)[0] == "error: kvplan cannot say what zai-org/GLM-5.2-FP8 does on vLLM 0.33.0"
    assert lines(told)[1] == "  not emulated: it has state layers"


def test_pipeline_stages_show_their_layers(good: Plan, make_layer: Callable[..., LayerPlan]) -> None:
    plan = replace(good, layers=tuple(make_layer(index, rank=index // 40) for index in range(78)))
    assert "pipeline stages  0-39; 40-77" in render(make(plan, []), Canvas(100))


@pytest.mark.parametrize("detail", list(Detail))
@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("name", ["good", "failing", "refused"])
def test_nothing_is_wider_than_the_page(
    name: str, width: int, detail: Detail, request: pytest.FixtureRequest, make_finding: MakeFinding
) -> None:
    plan: Plan = request.getfixturevalue(name)
    told = render(make(plan, [make_finding()], detail=detail), Canvas(width))
    assert max(map(len, lines(told))) <= width
    assert all(line == line.rstrip() for line in lines(told))
    assert told.endswith("\n")
    assert "\x1b" not in told


def test_markup_in_messages_is_text(good: Plan, make_finding: MakeFinding) -> None:
    told = render(make(good, [make_finding(message="shape [bold]x[/bold] :smile:")]), Canvas(80))
    assert "[bold]x[/bold] :smile:" in told


def test_colour_only_adds_codes(good: Plan, make_finding: MakeFinding) -> None:
    report = make(good, [make_finding()])
    coloured = render(report, Canvas(100, colour=True))
    assert "\x1b[1;38;5;130mwarning:" in coloured
    plain = "\n".join(line.rstrip() for line in lines(re.sub(r"\x1b\[[0-9;]*m", "", coloured)))
    assert plain == render(report, Canvas(100)).rstrip("\n")


def test_layers_without_a_cache_of_their_own_are_named(good: Plan) -> None:
    plan = replace(good, shared=(SharedLayer("model.layers.9.self_attn.attn", 9, "model.layers.8.self_attn.attn"),))
    assert "layer 9: they use that of another layer" in render(make(plan, []), Canvas(100))


def test_alternating_layers_fold_by_kind(make_layer: Callable[..., LayerPlan]) -> None:
    layers = [make_layer(index, sliding_window=128 if index % 2 == 0 else None) for index in range(36)]
    runs = fold(layers)
    assert [(run.label, run.count) for run in runs] == [("0-34 step 2", 18), ("1-35 step 2", 18)]
    assert runs[0].notes == ("window 128",)


def test_padding_and_roles_show(make_layer: Callable[..., LayerPlan]) -> None:
    (main, beside) = fold(
        [
            make_layer(0, role=Role.CROSS_ATTENTION),
            make_layer(0, page_bytes=200, unpadded_page_bytes=160),
        ]
    )
    assert (main.label, main.notes) == ("0", ("padded 25%",))
    assert beside.label == "1 × cross attention"


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([0, 1], "0-1"),
        ([5], "5"),
        ([0, 2, 4, 6, 8, 10], "0-10 step 2"),
        ([0, 1, 3, 5, 6, 8, 10], "0-1, 3, …, 10"),
        ([], ""),
    ],
)
def test_layer_lists(numbers: list[int], said: str) -> None:
    assert layer_list(numbers) == said


@given(st.sets(st.integers(min_value=0, max_value=200)))
def test_ranges_name_exactly_the_numbers(numbers: set[int]) -> None:
    named: set[int] = set()
    for part in ranges(numbers):
        first, _, last = part.partition("-")
        named |= set(range(int(first), int(last or first) + 1))
    assert named == numbers


@pytest.mark.parametrize(
    ("releases", "said"),
    [
        (KNOWN, "all"),
        (KNOWN[7:], "since 0.23.0"),
        (KNOWN[:7], "until 0.22.1"),
        (KNOWN[1:3], "0.17.1 to 0.18.1"),
        (KNOWN[4:5], "0.20.2 only"),
    ],
)
def test_lifetimes(releases: tuple[str, ...], said: str) -> None:
    assert lifetime(releases) == said


def test_sizes() -> None:
    assert size(64_424_509_440) == "60.00 GiB (64,424,509,440 B)"
    assert size(656) == "656 B"
    assert size(1024**6) == "1,024.00 PiB (1,152,921,504,606,846,976 B)"


@pytest.mark.parametrize(
    ("severities", "verdict"),
    [
        ([], Verdict.OK),
        ([Severity.NOTE], Verdict.NOTE),
        ([Severity.NOTE, Severity.WARNING], Verdict.WARNING),
        ([Severity.WARNING, Severity.ERROR], Verdict.ERROR),
    ],
)
def test_the_verdict_is_the_worst_finding(
    severities: list[Severity], verdict: Verdict, good: Plan, make_finding: MakeFinding
) -> None:
    assert make(good, [make_finding(severity) for severity in severities]).verdict is verdict


def test_a_failing_start_up_is_an_error_unless_dismissed(failing: Plan) -> None:
    assert make(failing, []).verdict is Verdict.ERROR
    assert make(failing, [], failure_dismissed=True).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("verdict", "threshold", "reached"),
    [
        (Verdict.OK, Severity.NOTE, False),
        (Verdict.NOTE, Severity.NOTE, True),
        (Verdict.NOTE, Severity.WARNING, False),
        (Verdict.WARNING, Severity.ERROR, False),
        (Verdict.ERROR, Severity.ERROR, True),
        (Verdict.ERROR, Severity.NOTE, True),
    ],
)
def test_thresholds(verdict: Verdict, threshold: Severity, reached: bool) -> None:
    assert verdict.reaches(threshold) is reached


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "colour"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
        (io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (None, {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_is_for_terminals(
    stream: io.StringIO | None,
    environment: dict[str, str],
    colour: bool,
    monkeypatch: pytest.MonkeyPatch,
    good: Plan,
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", **environment}.items():
        monkeypatch.setenv(name, value)
    assert ("\x1b" in render(make(good, []), Canvas(stream=stream))) is colour


@pytest.mark.parametrize("style", STYLES)
def test_colours_can_be_read_on_black_and_on_white(style: str) -> None:
    colour = Style.parse(STYLES[style]).color
    assert colour is not None
    linear = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
        for part in (channel / 255 for channel in colour.get_truecolor())
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    assert (luminance + 0.05) / 0.05 >= 3.9
    assert 1.05 / (luminance + 0.05) >= 3.9


def test_a_pipe_has_a_stable_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "37")
    assert Canvas(stream=io.StringIO()).console().width == PIPED_WIDTH
    assert Canvas(stream=Terminal()).console().width == NARROWEST
