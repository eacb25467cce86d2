"""``record``: a frozen dataclass that is cheap to define.

``dataclasses.dataclass`` looks at every field and writes and compiles six methods for every class, half a millisecond each:
with the hundred records of one price a third of the start of ``autodeploy estimate``. All records share one set of methods,
and what ``replace``, ``fields`` and ``asdict`` look at is worked out when they first ask.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
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
    stated = dict(getattr(cls, "__record__", {}))
    stated.update((name, vars(cls).get(name, MISSING)) for name in vars(cls).get("__annotations__", {}))
    cls.__record__ = stated  # field -> default, Field or MISSING
    cls.__dataclass_fields__ = _Fields(cls)
    cls.__init__ = _init(cls, stated, kw_only)
    cls.__setattr__ = cls.__delattr__ = _refuse
    cls.__repr__ = vars(cls).get("__repr__", _repr)
    if eq:
        _compare(cls, stated)
    return cls


class _Fields:
    """Stands for the fields until someone asks for them."""

    def __init__(self, cls: Any) -> None:
        self.cls = cls

    def __get__(self, instance: Any, owner: Any) -> Any:
        self.cls.__doc__ = self.cls.__doc__ or self.cls.__name__  # without one, dataclass would work out a signature
        del self.cls.__dataclass_fields__
        dataclasses.dataclass(init=False, repr=False, eq=False)(self.cls)
        return self.cls.__dataclass_fields__


def _init(cls: Any, stated: dict[str, Any], kw_only: bool) -> Callable[..., None]:
    special = {name: default for name, default in stated.items() if isinstance(default, Field)}
    names = tuple(name for name in stated if name not in special or special[name].init)
    known = frozenset(names)
    defaults = {name: stated[name] for name in names if name not in special and stated[name] is not MISSING}
    defaults |= {name: each.default for name, each in special.items() if each.init and each.default is not MISSING}
    factories = {name: each.default_factory for name, each in special.items() if each.default_factory is not MISSING}
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
        if factories:
            values.update((name, make()) for name, make in factories.items() if name not in values)
        if values.keys() != known:
            wrong = sorted(values.keys() ^ known)
            raise TypeError(f"{cls.__name__}() takes {', '.join(names)}: missing or unknown: {', '.join(wrong)}")
        if own:
            values.update((name, make()) for name, make in own.items())
        if finish is not None:
            finish(self)

    return __init__


def _refuse(self: Any, name: str, *value: Any) -> None:
    raise FrozenInstanceError(f"cannot change field {name!r}")


def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _compare(cls: Any, stated: dict[str, Any]) -> None:
    names = [name for name, default in stated.items() if not isinstance(default, Field) or default.compare]
    values = attrgetter(*names)

    def __eq__(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    cls.__eq__, cls.__hash__ = __eq__, __hash__
