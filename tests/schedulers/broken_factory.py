"""Factories of schedulers that make none."""

from __future__ import annotations

from typing import NoReturn

from asyncsched.errors import MissingExtraError


def raises(session_name: str) -> NoReturn:
    raise KeyError("HOME_OF_IT")


def leaves(session_name: str) -> NoReturn:
    raise SystemExit(3)


def misses(session_name: str) -> NoReturn:
    raise MissingExtraError("it is not there", fix="pip install it")
