"""``record``: a frozen dataclass that is cheap to define.

``dataclasses.dataclass`` writes and compiles six methods for every class: half a millisecond each, a third of the start of
``autodeploy estimate`` with its hundred records. Here ``dataclass`` reads the fields, and all records share one set of
methods. ``replace``, ``fields``, ``asdict`` and type checkers see a frozen dataclass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def record(cls: type[T]) -> type[T]: ...
@overload
def record(*, kw_only: bool = True, eq: bool = True) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
def record(cls: Any = None, *, kw_only: bool = True, eq: bool = True) -> Any:
    """``kw_only`` False: fields may also be given by place. ``eq`` False: compared by identity, as arrays must be."""
    if cls is None:
        return partial(record, kw_only=kw_only, eq=eq)
    cls.__doc__ = cls.__doc__ or cls.__name__  # without one, dataclass would work out a signature
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    cls.__init__ = _init(cls, kw_only)
    cls.__setattr__ = cls.__delattr__ = _refuse
    cls.__repr__ = vars(cls).get("__repr__", _repr)
    if eq:
        _compare(cls)
    return cls


def _init(cls: Any, kw_only: bool) -> Callable[..., None]:
    fields = dataclasses.fields(cls)
    names = tuple(each.name for each in fields if each.init)
    known = frozenset(names)
    defaults = {each.name: each.default for each in fields if each.init and each.default is not MISSING}
    factories = {each.name: each.default_factory for each in fields if each.default_factory is not MISSING}
    own = {name: factories.pop(name) for name in factories.keys() - known}  # init=False: each instance begins its own
    finish = getattr(cls, "__post_init__", None)

    def __init__(self: Any, *given: Any, **named: Any) -> None:
        if given:
            if kw_only or len(given) > len(names) or not named.keys().isdisjoint(names[: len(given)]):
                raise TypeError(f"{cls.__name__}() takes {', '.join(names)}{' by name' if kw_only else ', each once'}")
            named.update(zip(names, given, strict=False))
        values = self.__dict__
        values.update(defaults)
        values.update(named)
        for name, make in factories.items():
            if name not in values:
                values[name] = make()
        if values.keys() != known:
            wrong = sorted(values.keys() ^ known)
            raise TypeError(f"{cls.__name__}() takes {', '.join(names)}: missing or unknown: {', '.join(wrong)}")
        for name, make in own.items():
            values[name] = make()
        if finish is not None:
            finish(self)

    return __init__


def _refuse(self: Any, name: str, *value: Any) -> None:
    raise FrozenInstanceError(f"cannot change field {name!r}")


def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _compare(cls: Any) -> None:
    values = attrgetter(*(each.name for each in dataclasses.fields(cls) if each.compare))

    def __eq__(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    cls.__eq__, cls.__hash__ = __eq__, __hash__
