"""Values are equal and printed as dataclasses are."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsched.specs import BindMount, Resource, Role, VolumeMount, runopt, runopts
from asyncsched.specs.value import Value


@dataclass
class Plain:
    a: object
    b: object = field(default=0, compare=False)
    c: object = field(default=0, repr=False)


@dataclass(eq=False, repr=False)
class Ours(Value):
    a: object
    b: object = field(default=0, compare=False)
    c: object = field(default=0, repr=False)


class OursBelow(Ours):
    """Of another class, with the same fields."""


@dataclass
class OursWithMore(Ours):
    """A dataclass of its own, as a subclass of `Role` may be."""

    d: int = 0


ANYTHING = st.integers(0, 1) | st.sampled_from([None, float("nan"), "x"]) | st.lists(st.integers(0, 1), max_size=2)


@given(st.tuples(ANYTHING, ANYTHING, ANYTHING), st.tuples(ANYTHING, ANYTHING, ANYTHING))
def test_they_are_as_dataclasses_make_them(one: tuple[object, ...], other: tuple[object, ...]) -> None:
    assert (Plain(*one) == Plain(*other)) == (Ours(*one) == Ours(*other))
    assert (Plain(*one) != Plain(*other)) == (Ours(*one) != Ours(*other))
    assert repr(Plain(*one)).replace("Plain", "Ours") == repr(Ours(*one))


def test_another_class_is_never_equal() -> None:
    assert Ours(1) != OursBelow(1)
    assert OursBelow(1) == OursBelow(1)
    assert OursWithMore(1, d=1) != OursWithMore(1, d=2)
    assert Ours(1) != Plain(1)
    assert BindMount("a", "b") != VolumeMount("a", "b")


def test_one_that_holds_itself_is_printed() -> None:
    one = Ours([])
    one.a = [one]

    assert "Ours(a=[...], b=0)" == repr(one)


def test_they_cannot_be_hashed_and_what_is_frozen_can() -> None:
    for value in (Ours(1), Resource(1, 0, 1), Role("main", "image")):
        with pytest.raises(TypeError, match="unhashable"):
            hash(value)
    options = [runopt(1, int, False, "help", choices=()) for _ in range(2)]

    assert 1 == len({*options})
    with pytest.raises(AttributeError):
        options[0].default = 2  # type: ignore[misc]  # which is what is tested


def test_what_is_public_prints_copies_and_pickles() -> None:
    known = runopts()
    known.add("queue", str, "where")
    resource = Resource(1, 0, 512)

    assert "Resource(cpu=1, gpu=0, memMB=512, capabilities={}, devices={})" == repr(resource)
    assert resource == pickle.loads(pickle.dumps(resource)) == replace(resource)
    assert resource != replace(resource, cpu=2)
    assert "BindMount(src_path='/a', dst_path='/b', read_only=False)" == repr(BindMount("/a", "/b"))
    assert "runopt(default=None, opt_type=<class 'str'>, is_required=False, help='where', choices=())" == repr(
        known.get("queue")
    )
