"""Handles: the address of an app, ``scheduler://session/app_id``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from asyncsched._typing import NamedTuple
from asyncsched.errors import MalformedHandleError
from asyncsched.specs.rich_display import RichDisplay

__all__ = ["AppHandle", "ParsedAppHandle", "make_app_handle", "parse_app_handle", "schedulers_of"]


@cache
def _form() -> re.Pattern[str]:
    return re.compile(r"([^:/]+)://([^/]*)/([^/]+)")  # compiled on first use


class ParsedAppHandle(NamedTuple):
    """The parts of a handle."""

    scheduler_backend: str
    session_name: str
    app_id: str


class AppHandle(RichDisplay, str):
    """A handle: a string with properties for its parts.

    The session may be empty. No part contains ``/``, and the scheduler's name contains no ``:``.

    Raises:
        MalformedHandleError: The string is not a handle.
    """

    __slots__ = ()

    def __new__(cls, handle: str) -> AppHandle:  # noqa: D102 - the class says it
        parse_app_handle(handle)
        return super().__new__(cls, handle)

    @property
    def scheduler(self) -> str:
        """The scheduler's name."""
        return parse_app_handle(self).scheduler_backend

    @property
    def session(self) -> str:
        """The session's name."""
        return parse_app_handle(self).session_name

    @property
    def app_id(self) -> str:
        """The app's id, which the scheduler gave it."""
        return parse_app_handle(self).app_id

    def _repr_html_(self) -> str:
        from asyncsched.views.cards import handle_card  # imported late: only notebooks need it

        return handle_card(self)


def make_app_handle(scheduler_backend: str, session_name: str, app_id: str) -> AppHandle:
    """Join the parts of a handle.

    Raises:
        MalformedHandleError: A part is empty, or contains a separator.
    """
    # A separator in a part gives a malformed handle, or one with too many parts; AppHandle refuses both.
    return AppHandle(f"{scheduler_backend}://{session_name}/{app_id}")


def parse_app_handle(app_handle: str) -> ParsedAppHandle:
    """Split a handle into its parts.

    Raises:
        MalformedHandleError: It is not of the form ``scheduler://session/app_id``.
    """
    return ParsedAppHandle(*_match(app_handle).groups())


def schedulers_of(app_handles: Iterable[str]) -> set[str]:
    """Return the schedulers' names; fast, for callers that take ten thousand handles at once.

    Raises:
        MalformedHandleError: One is not of the form ``scheduler://session/app_id``.
    """
    match = _form().fullmatch
    handles = list(app_handles)
    try:
        return {
            # An `AppHandle` was checked when it was made.
            handle.partition(":")[0] if type(handle) is AppHandle else (match(handle) or _match(handle))[1]
            for handle in handles
        }
    except TypeError:  # one is not a string: `_match` reports which
        return {_match(handle)[1] for handle in handles}


def _match(app_handle: str) -> re.Match[str]:
    try:
        match = _form().fullmatch(app_handle)
    except TypeError:
        from asyncsched.specs.given import not_a_handle  # imported late: only a wrong call needs it

        raise not_a_handle(app_handle) from None
    if match is None:
        raise MalformedHandleError(
            f"{str(app_handle)!r} is not a handle",
            fix="write it as scheduler://session/app_id, where the session may be empty",
        )
    return match
