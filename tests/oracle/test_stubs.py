"""Placeholders: what vLLM may do with something that it only needs to exist."""

from __future__ import annotations

import copy
import pickle

import pytest

from tests.oracle.inside.stubs.anything import Stub, StubModule
from tests.oracle.inside.stubs.flashinfer import fills
from tests.oracle.inside.stubs.modules import CUDA_ONLY, IN_EVERY_IMAGE, ROCM_ONLY


def test_a_stub_takes_any_use() -> None:
    stub = Stub("torch.ops._C")
    assert repr(stub.gemm(1, out=2).shape[0]) == "<Stub torch.ops._C.gemm().shape[]>"
    assert stub + 1 is stub
    assert stub | None is stub
    assert [int(stub), float(stub), len(stub), bool(stub), list(stub), stub < 1] == [0, 0.0, 0, True, [], False]
    with stub as inside:
        assert inside is stub


def test_a_stub_decorates_and_is_subclassed() -> None:
    def function() -> int:
        return 3

    assert Stub()(function) is function
    made = type(pytest)("made")
    made.__dict__["base"] = Stub("base")
    namespace: dict[str, object] = {"base": Stub("base")}
    exec("class Own(base):\n    value = 1", namespace)
    assert vars(namespace["Own"])["value"] == 1


def test_a_stub_is_copied_as_itself_and_pickled_by_name() -> None:
    stub = Stub("a")
    assert copy.deepcopy([stub])[0] is stub
    assert repr(pickle.loads(pickle.dumps(stub))) == "<Stub a>"


def test_a_stub_has_no_protocols() -> None:
    assert not hasattr(Stub(), "__torch_function__")
    assert not hasattr(StubModule("m"), "__wrapped__")
    assert repr(StubModule("m").kernel) == "<Stub m.kernel>"


def test_no_module_is_in_two_lists() -> None:
    names = [*IN_EVERY_IMAGE, *CUDA_ONLY, *ROCM_ONLY]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("release", "present"), [("0.33.0", True), ("0.29.0", True), ("0.26.0", False), ("0.30.0", False)]
)
def test_flashinfers_mla_wrapper_depends_on_the_pinned_version(release: str, present: bool) -> None:
    module = StubModule("flashinfer.mla")
    fills(release)["flashinfer.mla"](module)
    assert ("BatchMLAPagedAttentionWrapper" in vars(module)) is present
