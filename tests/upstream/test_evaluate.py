"""Evaluating vLLM's sources without running them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.upstream import classes
from tests.upstream.evaluate import ClassRef, Evaluator, FunctionRef, LiteralType, Undecided, Unread
from tests.upstream.sources import Sources, open_release
from tests.upstream.written import written


def constants(tmp_path: Path, code: str, lent: dict[str, Any] | None = None, **files: str) -> tuple[Evaluator, Any]:
    """An evaluator for one written module, and a function that reads a name of it."""
    paths = {name.replace("__", "/") + ".py": text for name, text in files.items()}
    sources = written(tmp_path, {"it.py": code, **paths})
    evaluator = Evaluator(sources, lent or {})
    return evaluator, lambda name: evaluator.constant(sources.first("it.py"), name)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("[1, *(2, 3)]", [1, 2, 3]),
        ("{**{'a': 1}, 'b': -2}", {"a": 1, "b": -2}),
        ("'a' if not [] else 'b'", "a"),
        ("0 < 3 <= 3 and 'x' in ('x',)", True),
        ("[one.upper() for one in ('a', 'b') if one != 'b']", ["A"]),
        ("{key: 2 ** 10 for key in 'ab'}", {"a": 1024, "b": 1024}),
        ("sorted({'b', 'a'})[0:1]", ["a"]),
        ("f'v{1 + 1}'", "v2"),
        ("frozenset({'a'}) | {'b'}", {"a", "b"}),
        ("torch.uint8", Unread("torch.uint8")),
        ("unknown() + 1", Unread("unknown() + 1")),
        ("Literal['a', Literal['b']]", LiteralType(("a", "b"))),
    ],
)
def test_expressions(tmp_path: Path, expression: str, value: object) -> None:
    _, read = constants(tmp_path, f"import torch\nfrom typing import Literal\nx = {expression}\n")
    assert read("x") == value


def test_names_are_followed_through_modules(tmp_path: Path) -> None:
    _, read = constants(
        tmp_path,
        """
        from vllm.a import NAMES as FOUND
        from vllm.b import *
        from vllm import c
        x = [*FOUND, STARRED, c.HERE]
        """,
        a="from .b import NAMES",
        b="NAMES = ('n',)\nSTARRED = 's'",
        c="HERE = 'h'",
    )
    assert read("x") == ["n", "s", "h"]


def test_the_branch_of_cuda_and_of_run_time_counts(tmp_path: Path) -> None:
    _, read = constants(
        tmp_path,
        """
        if TYPE_CHECKING:
            kind = "checked"
        else:
            kind = "run"
        if current_platform.is_rocm():
            platform = "rocm"
        elif current_platform.is_xpu():
            platform = "xpu"
        else:
            platform = "cuda"
        """,
    )
    assert (read("kind"), read("platform")) == ("run", "cuda")


def test_functions_are_followed(tmp_path: Path) -> None:
    evaluator, read = constants(
        tmp_path,
        """
        def order(major, names=None, *, last="Z"):
            found = ["A"]
            if major == 10 and wanted():
                found.insert(0, "B")
            elif major in (8, 9):
                found += ["C"]
            for name in names or ():
                found.append(name)
            del {}["x"]
            return [*found, last]
        """,
        {"wanted": lambda: True},
    )
    order = read("order")
    assert isinstance(order, FunctionRef)
    assert evaluator.run(order, 10) == ["B", "A", "Z"]
    assert evaluator.run(order, 9, names=["N"], last="L") == ["A", "C", "N", "L"]


def test_the_way_on_may_not_depend_on_what_was_not_read(tmp_path: Path) -> None:
    evaluator, read = constants(tmp_path, "def f():\n    if installed():\n        return 1\n    return 2\nx = f()\n")
    with pytest.raises(Undecided, match="installed"):
        evaluator.run(read("f"))
    assert read("x") == Unread("installed()")


def test_classes_have_what_their_bases_have_in_pythons_order(tmp_path: Path) -> None:
    evaluator, read = constants(
        tmp_path,
        """
        class Protocol:
            able = False
            def forward(self): ...
        class Mixin(Protocol):
            mixed = True
        class Base(Protocol):
            able = True
        class Model(Mixin, Base):
            pass
        def as_embedding_model(of): ...
        Converted = as_embedding_model(Model)
        class Pooling(Converted):
            pass
        """,
    )
    model, pooling = read("Model"), read("Pooling")
    assert isinstance(model, ClassRef)
    assert [one.name for one in classes.lineage(evaluator, model)] == ["Model", "Mixin", "Base", "Protocol"]
    assert classes.attribute(evaluator, model, "able") is True
    assert classes.attribute(evaluator, pooling, "mixed") is True
    assert classes.attribute(evaluator, model, "missing") == classes.MISSING
    assert classes.is_converted(evaluator, pooling)
    assert not classes.is_converted(evaluator, model)


def test_fields_of_dataclasses(tmp_path: Path) -> None:
    evaluator, read = constants(
        tmp_path,
        """
        @config
        class Base:
            a: int = 1
            gone: ClassVar[int] = 2
        @config(config=x)
        class Child(Base):
            b: str = field(init=False)
            c: "int | None" = None
        """,
    )
    assert list(classes.fields(evaluator, read("Child"))) == ["a", "c"]
    assert classes.is_dataclass(read("Child"))


def test_sources_are_found_in_and_around_the_package(tmp_path: Path) -> None:
    written(tmp_path / "vllm-0.33.0" / "vllm", {"engine/arg_utils.py": ""})
    for folder in (tmp_path, tmp_path / "vllm-0.33.0", tmp_path / "vllm-0.33.0" / "vllm"):
        assert isinstance(open_release("0.33.0", folder), Sources)
    with pytest.raises(FileNotFoundError, match="no unpacked vLLM 0\\.32\\.0"):
        open_release("0.32.0", tmp_path)
