"""Placeholders that take any use: where vLLM needs something to exist and never looks at what it does."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Self


class Stub:
    """Can be called, asked for attributes and items, calculated with, subclassed, and used as a decorator."""

    def __init__(self, name: str = "stub") -> None:
        object.__setattr__(self, "_stub_name", name)

    def __getattr__(self, name: str) -> Stub:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        part = Stub(f"{self._stub_name}.{name}")
        object.__setattr__(self, name, part)
        return part

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if len(args) == 1 and not keywords and isinstance(args[0], types.FunctionType | type):
            return args[0]
        return Stub(f"{self._stub_name}()")

    def __mro_entries__(self, bases: tuple[type, ...]) -> tuple[type, ...]:
        return (object,) if len(bases) == 1 else ()

    def __getitem__(self, key: object) -> Stub:
        return Stub(f"{self._stub_name}[]")

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def _self(self, other: object) -> Self:
        return self

    __or__ = __ror__ = __and__ = __rand__ = __xor__ = _self
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __matmul__ = _self
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = _self
    __pow__ = __rpow__ = __lshift__ = __rshift__ = __rlshift__ = _self

    def __neg__(self) -> Self:
        return self

    def _false(self, other: object) -> bool:
        return False

    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __instancecheck__ = __subclasscheck__ = _false

    def __int__(self) -> int:
        return 0

    __index__ = __len__ = __int__

    def __float__(self) -> float:
        return 0.0

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<Stub {self._stub_name}>"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return Stub, (str(self._stub_name),)


class StubModule(types.ModuleType):
    """A module that has every attribute."""

    def __getattr__(self, name: str) -> Stub:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        part = Stub(f"{self.__name__}.{name}")
        setattr(self, name, part)
        return part
