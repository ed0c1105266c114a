"""torchvision's wheel expects operators that a CPU torch lacks: their names are declared, so that it imports."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys

import torch

from tests.oracle.inside.stubs.noted import STUBBED

_MISSING = re.compile(r"operator torchvision::(\w+) does not exist")
_TRIES = 40
_library: list[object] = []
"""Keeps the declared operators alive."""


def install() -> None:
    """Import torchvision, where there is one."""
    if importlib.util.find_spec("torchvision") is None:
        return
    for _ in range(_TRIES):
        try:
            importlib.import_module("torchvision")
        except Exception as error:
            missing = _MISSING.search(str(error))
            for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
                del sys.modules[name]
            if missing is None and _library:
                STUBBED["torchvision"] = f"import failed {error!r}"
                return
            _declare(missing)
        else:
            return


def _declare(missing: re.Match[str] | None) -> None:
    if not _library:
        _library.append(torch.library.Library("torchvision", "FRAGMENT"))
    if missing is not None:
        _library[0].define(f"{missing[1]}(Tensor a) -> Tensor")  # type: ignore[attr-defined]
        STUBBED["torchvision.ops"] = "op names declared so that it imports, no kernels"
