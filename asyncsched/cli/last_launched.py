"""The app that was last launched from here, which ``@last``, or no APP at all, stands for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from asyncsched._home import find_home
from asyncsched.specs.handle import AppHandle

__all__ = ["LAST", "last_launched", "note_launch"]

LAST = "@last"

MOST = 16
"""For how many schedulers the last app is remembered."""

_LONGEST = 65536


def note_launch(handle: str) -> None:
    """Remember an app as the last one; ignored if nothing can be written."""
    scheduler = handle.partition("://")[0]
    others = [each for each in _remembered() if each.partition("://")[0] != scheduler]
    text = "".join(f"{each}\n" for each in [handle, *others][:MOST])
    for file in _files():
        try:
            file.parent.mkdir(0o700, parents=True, exist_ok=True)
            beside = file.with_name(f"{file.name}.{os.getpid()}")
            beside.write_text(text, "utf-8")
            beside.replace(file)  # a reader sees the old file or the new one
        except OSError:
            continue
        return


def last_launched(scheduler: str = "") -> AppHandle | None:
    """Return the app that was last launched, on any scheduler or this one; None if there is none."""
    for text in _remembered():
        if not scheduler or text.partition("://")[0] == scheduler:
            with suppress(ValueError):  # the file contains something else
                return AppHandle(text)
    return None


def _remembered() -> list[str]:
    for file in _files():
        with suppress(OSError, UnicodeError), file.open(encoding="utf-8") as opened:
            return opened.read(_LONGEST).splitlines()
    return []


def _files() -> Iterator[Path]:
    for home in find_home(os.environ):
        yield home / "cli" / "launched"
