"""The small part of shell that the fake scheduler runs, so that the same app runs on a real one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from asyncsched._typing import NamedTuple
from asyncsched.specs.masking import hidden
from asyncsched.specs.stream import Stream

__all__ = ["Exit", "Result", "Sleep", "Step", "Unknown", "Write", "parse_script"]

KNOWN = "it supports echo, printf %s, sleep SECONDS and exit CODE, one per line"


class Write(NamedTuple):
    """Write text to a stream."""

    text: str
    stream: Stream


class Sleep(NamedTuple):
    """Sleep for some seconds."""

    seconds: float


class Exit(NamedTuple):
    """End with an exit code."""

    code: int


class Result(NamedTuple):
    """Write text to a file, which can only be the result file."""

    text: str


class Unknown(NamedTuple):
    """A line that the fake scheduler cannot run, with the reason."""

    reason: str


Step: TypeAlias = Write | Sleep | Exit | Result | Unknown


def parse_script(script: str, env: Mapping[str, str]) -> Iterator[Step]:
    """Read ``echo``, ``printf %s``, ``sleep`` and ``exit``, one per line, with ``>&2``, ``> FILE`` and ``$NAME``."""
    for line in script.split("\n"):
        if result := re.fullmatch(r"echo '([^']*)' > \S+", line):  # may be long, and `shlex` is slow
            yield Result(result[1] + "\n")
            continue
        try:
            yield from _parse_line(line, env)
        except ValueError:
            yield Unknown(f"the fake scheduler cannot run {hidden(line)!r}: {KNOWN}")


def _parse_line(line: str, env: Mapping[str, str]) -> Iterator[Step]:
    words = [_expand(word, env) for word in shlex.split(line)]
    stream = Stream.STDOUT
    if words and words[-1] == ">&2":
        words.pop()
        stream = Stream.STDERR
    match words:
        case []:
            return
        case ["echo", *rest]:
            yield Write(" ".join(rest) + "\n", stream)
        case ["printf", "%s", text]:
            yield Write(text, stream)
        case ["sleep", seconds]:
            yield Sleep(float(seconds))
        case ["exit", code]:
            yield Exit(int(code))
        case _:
            raise ValueError(line)


def _expand(word: str, env: Mapping[str, str]) -> str:
    return re.sub(r"\$\{?(\w+)\}?", lambda match: env.get(match[1], ""), word)
