"""The HTML page: one file, well formed, escaped, nothing from outside, and every colour told in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

from kvplan.engine.values import Plan
from kvplan.launch.values import Hardware
from kvplan.report import memory, webpage
from kvplan.report.values import make
from kvplan.rules.values import Finding, Severity
from tests.asking import kvplan

_VOID = {"meta"}


class Checker(HTMLParser):
    """Holds the tags against each other, and collects what would be loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.loaded += [str(value) for name, value in attrs if name in ("src", "srcset", "data")]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    assert checker.loaded == []
    assert not checker.tags & {"script", "link", "img", "iframe"}
    assert "url(" not in page
    return checker


def test_a_page_tells_everything_in_words(good: Plan, make_finding: Callable[..., Finding]) -> None:
    page = webpage.render(make(good, [make_finding()]))
    checked(page)
    assert '<span class="badge warning">warning</span> zai-org/GLM-5.2-FP8 starts on vLLM 0.33.0' in page
    assert page.count("<i class=") > len(good.layers)
    assert 'aria-label="21 caches of uint8, 2 caches of bfloat16, 76 caches of fp8_ds_mla"' in page
    assert "<td>fp8_ds_mla</td>" in page
    assert "KV cache: 60.00 GiB (64,424,509,440 B)" in page


def test_nothing_from_outside_is_markup(failing: Plan, make_finding: Callable[..., Finding]) -> None:
    finding = make_finding(Severity.ERROR, "KV205", message="<script>x</script>\"'&", fix="<img src=x>")
    page = webpage.render(make(failing, [finding]))
    checked(page)
    assert "&lt;script&gt;x&lt;/script&gt;&quot;&#x27;&amp;" in page


def test_the_page_of_a_scan(tmp_path: object) -> None:
    pod = 'name: glm\nimage: vllm/vllm-openai:v0.33.0\nargs: [zai-org/GLM-5.2-FP8, -tp, "8"]\n'
    lost = "name: lost\nimage: vllm/vllm-openai:v0.33.0\ncommand: [bash, /start.sh]\n"
    arguments = ["scan", "--offline", "--format", "html", "-"]
    page = kvplan(*arguments, stdin=f"{pod}---\n{lost}").stdout
    checked(page)
    assert "<h2>Not checked</h2>" in page
    assert re.search(r"<summary><span class=\"badge note\">note</span> <b>&lt;stdin&gt;:3 YAML glm</b>", page)


def test_a_scan_of_several_launches_has_an_overview(tmp_path: object) -> None:
    pod = 'name: {}\nimage: vllm/vllm-openai:v0.33.0\nargs: [zai-org/GLM-5.2-FP8, -tp, "8"]\n'
    arguments = ["scan", "--offline", "--format", "html", "-"]
    page = kvplan(*arguments, stdin=f"{pod.format('one')}---\n{pod.format('two')}").stdout
    checked(page)
    for position, name in enumerate(("one", "two"), 1):
        assert re.search(rf'<a class="wrap" href="#launch-{position}">&lt;stdin&gt;:\d+ YAML {name}</a>', page)
        assert f'<details id="launch-{position}">' in page
    assert "<h2>Launches</h2>" not in kvplan(*arguments, stdin=pod.format("one")).stdout


def test_the_parts_of_a_gpu_make_up_its_memory(good: Plan) -> None:
    parts = memory.gpu_parts(good)
    assert [part.kind for part in parts] == ["cache", "used", "free"]
    assert sum(part.count for part in parts) == good.launch.hardware.memory_bytes


def test_memory_that_cannot_be_is_not_drawn(good: Plan) -> None:
    small = replace(good.launch, hardware=Hardware("x", (9, 0), 1024**3, "x"))
    assert memory.gpu_parts(replace(good, launch=small)) == ()
    assert good.capacity is not None
    assert memory.cache_parts(replace(good.capacity, available_bytes=1)) == ()


def test_requests_by_length_are_drawn_from_the_curve(good: Plan) -> None:
    assert good.capacity is not None
    curved = replace(good.capacity, curve=((1_024, 1_000.0), (2_048, 250.0)))
    page = webpage.render(make(replace(good, capacity=curved), []))
    assert '<dt>1,024 tokens</dt><dd><i class="cache" style="width:60.0%"></i><span>1,000.00x</span></dd>' in page
    assert '<dt>2,048 tokens</dt><dd><i class="cache" style="width:15.0%"></i><span>250.00x</span></dd>' in page
    none = replace(good.capacity, curve=())
    assert "Requests at once" not in webpage.render(make(replace(good, capacity=none), []))
