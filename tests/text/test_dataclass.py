"""The frozen dataclasses of this project behave as those of the standard library."""

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, field, replace
from typing import Any

import pytest

from runbook.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    name: str
    size: int = 3
    words: list[str] = field(default_factory=list)
    seen: float = field(default=0.0, compare=False, repr=False)
    long: str = field(default="", repr=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    name: str
    size: int = 3
    words: list[str] = field(default_factory=list)
    seen: float = field(default=0.0, compare=False, repr=False)
    long: str = field(default="", repr=False)


@dataclass(frozen=True)
class ByPlace:
    one: str
    two: int = field(default=2, kw_only=True)
    three: tuple[int, ...] = (3,)
    sum: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sum", self.two + len(self.three))
        if self.two < 0:
            raise ValueError("two is negative")


@dataclass(frozen=True, slots=True)
class Empty:
    pass


@dataclasses.dataclass(frozen=True)
class Below(ByPlace):
    four: int = 4


@pytest.mark.parametrize("given", [{"name": "a"}, {"name": "a", "size": 4, "words": ["b"], "seen": 1.0}])
def test_a_class_is_the_dataclass_that_the_standard_library_makes(given: dict[str, Any]) -> None:
    ours, theirs = Ours(**given), Theirs(**given)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert [one.name for one in dataclasses.fields(ours)] == [one.name for one in dataclasses.fields(theirs)]
    assert Ours.__match_args__ == Theirs.__match_args__
    assert Ours.__slots__ == Theirs.__slots__
    assert not hasattr(ours, "__dict__")


def test_two_are_equal_if_class_and_compared_fields_are() -> None:
    assert Ours(name="a", seen=1) == Ours(name="a", seen=2)
    assert Ours(name="a") != Ours(name="b")
    assert Ours(name="a", long="x") != Ours(name="a", long="y")
    assert Ours(name="a") != Theirs(name="a")  # type: ignore[comparison-overlap]
    assert hash(ByPlace("a")) == hash(ByPlace("a", (3,), two=2))
    assert {ByPlace("a"), ByPlace("a"), ByPlace("b")} == {ByPlace("b"), ByPlace("a")}
    assert Empty() == Empty()
    with pytest.raises(TypeError, match="unhashable"):
        hash(Ours(name="a"))


def test_no_field_can_be_assigned_or_deleted() -> None:
    value: Any = Ours(name="a")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        value.name = "b"
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'name'"):
        del value.name


def test_a_default_is_made_for_each_value() -> None:
    assert Ours(name="a").words is not Ours(name="b").words


@pytest.mark.parametrize("wrong", [{}, {"name": "a", "nane": 1}])
def test_wrong_arguments_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError) as ours:
        Ours(**wrong)
    with pytest.raises(TypeError) as theirs:
        Theirs(**wrong)
    assert str(ours.value) == str(theirs.value).replace("Theirs", "Ours")


def test_a_value_is_checked_whenever_it_is_made() -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            ByPlace("a", two=-1)
    assert ByPlace("a", two=5).sum == 6
    with pytest.raises(ValueError, match="negative"):
        replace(ByPlace("a"), two=-1)


@pytest.mark.parametrize(
    "value", [Ours(name="a", words=["b"], seen=2.0), ByPlace("a", two=7), Empty(), Below("a", (1,))], ids=repr
)
def test_copies_are_equal(value: Any) -> None:
    assert copy.deepcopy(value) == value
    assert copy.copy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value
    assert replace(value) == value


def test_the_standard_library_makes_a_subclass() -> None:
    made: Any = Below("a", (1,), two=5)
    assert (made.one, made.two, made.three, made.four) == ("a", 5, (1,), 4)
    assert made != ByPlace("a", (1,), two=5)
    with pytest.raises(FrozenInstanceError):
        made.four = 1
