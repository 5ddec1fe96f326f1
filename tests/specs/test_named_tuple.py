"""Our `NamedTuple` makes what that of `typing` makes."""

from __future__ import annotations

import inspect
import pickle
import typing

from asyncsched._typing import NamedTuple


class Ours(NamedTuple):
    """A place."""

    name: str
    size: int | None = None

    @property
    def is_small(self) -> bool:
        return (self.size or 0) < 10

    def __str__(self) -> str:
        return f"at {self.name}"


class Theirs(typing.NamedTuple):
    """A place."""

    name: str
    size: int | None = None


def test_it_is_a_tuple_with_names_and_defaults() -> None:
    one = Ours("here")

    assert one._replace(size=12) == ("here", 12)
    assert one == ("here", None)
    assert Ours(name="here", size=3).size == 3
    assert repr(one) == "Ours(name='here', size=None)"
    assert (Ours._fields, Ours._field_defaults) == (Theirs._fields, Theirs._field_defaults)


def test_what_its_class_defines_is_kept() -> None:
    assert str(Ours("here")) == "at here"
    assert Ours("here").is_small
    assert (Ours.__doc__, Ours.__module__, Ours.__qualname__) == (Theirs.__doc__, __name__, "Ours")


def test_it_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(Ours("here", 2))) == Ours("here", 2)


def test_its_annotations_can_be_read() -> None:
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs) == {"name": str, "size": int | None}
    assert str(inspect.signature(Ours, eval_str=True)) == "(name: str, size: int | None = None)"


def test_a_class_can_be_derived_from_one() -> None:
    class Named(Ours):
        def shout(self) -> str:
            return self.name.upper()

    assert Named("here").shout() == "HERE"
