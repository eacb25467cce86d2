"""A record is a frozen dataclass in all that its users see."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_models.records import record


@record
class Point:
    """By name."""

    x: int
    y: int = 2
    marks: list[str] = dataclasses.field(default_factory=list, compare=False)
    seen: list[int] = dataclasses.field(init=False, compare=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x")

    @property
    def total(self) -> int:
        return self.x + self.y


@record(kw_only=False)
class Pair:
    first: int
    second: int = 2


@record(eq=False)
class Held:
    values: list[int]


@record
class Named(Point):
    """With a field more."""

    name: str = "n"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlainPair:
    first: int
    second: int = 2


def test_fields_are_filled_by_name_by_place_and_by_default() -> None:
    assert (Point(x=1).x, Point(x=1).y, Point(x=1, y=5).total) == (1, 2, 6)
    assert (Pair(1).second, Pair(1, 3).second, Pair(second=4, first=1).second) == (2, 3, 4)
    assert Point(x=1).marks is not Point(x=1).marks
    assert Point(x=1).seen == [] and Point(x=1).seen is not Point(x=1).seen
    assert (Named(x=1).y, Named(x=1, name="a").name) == (2, "a")


@pytest.mark.parametrize(
    ("make", "given", "named"),
    [
        (Point, (), {}),
        (Point, (1,), {}),
        (Point, (), {"x": 1, "z": 2}),
        (Point, (), {"z": 2}),
        (Pair, (1, 2, 3), {}),
        (Pair, (1,), {"first": 1}),
        (Pair, (), {"second": 1}),
    ],
)
def test_wrong_arguments_are_refused(make: Any, given: tuple[int, ...], named: dict[str, int]) -> None:
    with pytest.raises(TypeError, match=f"{make.__name__}.. takes "):
        make(*given, **named)


def test_a_value_is_checked_where_it_is_built() -> None:
    with pytest.raises(ValueError, match="x"):
        Point(x=-1)
    with pytest.raises(ValueError, match="x"):
        dataclasses.replace(Point(x=1), x=-1)


def test_nothing_is_changed_after_that() -> None:
    point = Point(x=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x  # type: ignore[misc]


@given(st.integers(), st.integers(), st.integers(), st.integers())
def test_equality_and_hash_are_those_of_the_fields(a: int, b: int, c: int, d: int) -> None:
    one, other = Pair(a, b), Pair(c, d)
    plain, plain_other = PlainPair(first=a, second=b), PlainPair(first=c, second=d)
    assert (one == other) == (plain == plain_other)
    assert hash(one) == hash(plain)
    assert one != plain
    assert repr(one) == repr(plain).replace("PlainPair", "Pair")


def test_equality_leaves_out_what_does_not_compare_and_arrays_compare_by_identity() -> None:
    assert Point(x=1, marks=["a"]) == Point(x=1)
    assert Named(x=1) != Point(x=1)
    assert Held(values=[1]) != Held(values=[1])
    assert len({Held(values=[1]), Held(values=[1])}) == 2


def test_the_tools_of_dataclasses_and_copies_take_it() -> None:
    point = Named(x=1, marks=["a"])
    assert dataclasses.replace(point, x=3) == Named(x=3)
    assert dataclasses.asdict(point) == {"x": 1, "y": 2, "marks": ["a"], "seen": [], "name": "n"}
    assert [field.name for field in dataclasses.fields(Named)] == ["x", "y", "marks", "seen", "name"]
    for same in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert same == point and same.marks == ["a"] and type(same) is Named
