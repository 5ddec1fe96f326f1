"""Decide which files of a workspace are left out, exactly as Docker's ``.dockerignore`` does.

- A pattern is anchored at the workspace's root: ``*.log`` matches files there, ``**/*.log`` files everywhere.
- ``*`` and ``?`` stop at a slash, ``**`` does not. A slash at the beginning or the end of a pattern means nothing.
- A pattern that matches a directory applies to everything in it.
- ``!`` takes back what an earlier pattern left out; the last pattern that matches decides.
- An ignored directory is searched only if a ``!`` pattern begins with its path: ``!**/keep.txt`` brings back nothing
  from it.
- ``#`` starts a comment only at the beginning of a line. ``\\`` escapes the next character; before a letter or a digit
  it means what it means in Go: ``\\d``, ``\\pL``, ``\\z``.

Other tools (git, other launchers) read such files differently. These are the rules by which ``docker build`` packs a
context before it uploads it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

from asyncsched._typing import NamedTuple
from asyncsched.errors import WorkspaceError

__all__ = ["Ignore", "IgnoreVerdict"]

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"  # noqa: E501
"""The white space that Docker strips around a pattern; Python would strip more."""

_PIECE = re.compile(r"(?s)\**((?:[^*\\\[]|\\.?|\[(?:[^\]\\]|\\.?)*\]?)*)")
"""A piece of a pattern after its stars, up to the next star that is not in brackets."""

_NOT_UTF8 = dict.fromkeys(range(0xDC80, 0xDD00), "\ufffd")
"""What Go reads for bytes that are not UTF-8, by what Python reads for them."""

_SPECIAL = frozenset(".+()$")
"""Characters that are special in a regular expression but not in a pattern; Docker leaves ``|{}`` special in both."""


class IgnoreVerdict(NamedTuple):
    """What the patterns decide for one path.

    Attributes:
        is_left_out: Whether the path is left out.
        matched: For each pattern, whether it matched, so that the children need not be tested again.
    """

    is_left_out: bool
    matched: tuple[bool, ...] = ()


class _Pattern(NamedTuple):
    text: str
    takes_back: bool
    matches: Callable[[str], bool]


class Ignore:
    """The patterns of one ignore file.

    Args:
        text: The file's content.
        name: The file's name, for messages.

    Raises:
        WorkspaceError: A pattern is malformed; the message names it. Some faults show only when a path is tested, and
            are raised then.
    """

    def __init__(self, text: str = "", name: str = ".dockerignore") -> None:
        self._patterns = [_parse(line, name) for line in _lines(text)]

    def judge(self, path: str, parent: IgnoreVerdict | None = None) -> IgnoreVerdict:
        """Decide whether a path is left out.

        Args:
            path: The path from the workspace's root, with slashes.
            parent: The verdict for its directory; None at the root.
        """
        above = parent.matched if parent is not None else ()
        is_left_out = False
        matched: list[bool] = []
        for number, pattern in enumerate(self._patterns):
            is_match = bool(above) and above[number]
            # A pattern that could change nothing is not tested, and counts as not matched for the children.
            if not is_match and pattern.takes_back == is_left_out:
                is_match = pattern.matches(path)
            matched.append(is_match)
            if is_match:
                is_left_out = not pattern.takes_back
        return IgnoreVerdict(is_left_out, tuple(matched))

    def may_take_back_below(self, directory: str) -> bool:
        """Return whether a pattern may take back something in an ignored directory."""
        return any(each.takes_back and f"{each.text}/".startswith(f"{directory}/") for each in self._patterns)


def _lines(text: str) -> Sequence[str]:
    """Return the cleaned patterns of a file, each with its ``!``."""
    found: list[str] = []
    for line in text.removeprefix("\ufeff").split("\n"):
        stripped = line.strip(_SPACE)
        if line.startswith("#") or not stripped:
            continue
        mark = "!" if stripped.startswith("!") else ""
        pattern = stripped.removeprefix("!").strip(_SPACE)
        if pattern:
            pattern = _cleaned(pattern)
            pattern = pattern[1:] if len(pattern) > 1 and pattern[0] == "/" else pattern
        if whole := (mark + pattern).strip(_SPACE):
            found.append(_cleaned(whole))
    return found


def _cleaned(path: str) -> str:
    """Return a path in its shortest form, as Go's filepath.Clean does."""
    clean = posixpath.normpath(path)
    return clean[1:] if clean.startswith("//") else clean


def _parse(line: str, name: str) -> _Pattern:
    takes_back = line.startswith("!")
    text = line.removeprefix("!")
    if not text:
        raise _malformed(line, name, "there is nothing after the !")
    _check_syntax(text, line, name)
    return _Pattern(text, takes_back, _matcher(text, line, name))


def _check_syntax(text: str, line: str, name: str) -> None:
    """Raise WorkspaceError for a pattern that Docker rejects.

    Docker checks a pattern by matching it against the name ``.`` with Go's filepath.Match, which stops after the first
    piece between two stars that does not match. The rest is checked as an expression when it is first used.
    """
    rest = "."
    for piece in _PIECE.finditer(text):
        try:
            if not _is_match(piece[1], rest):
                return
        except ValueError as error:
            raise _malformed(line, name, str(error)) from None
        rest = ""


def _is_match(piece: str, name: str) -> bool:
    """Return whether a piece without stars matches a name of at most one character; reads the piece to its end."""
    at, letters, is_match = 0, 0, True
    while at < len(piece):
        letter = piece[at]
        at += 1
        if letter == "[":
            at, holds = _class(piece, at, name)
        elif letter == "\\":
            if at == len(piece):
                raise ValueError("it ends with a backslash")
            holds = piece[at] == name
            at += 1
        else:
            holds = letter in (name, "?")
        is_match = is_match and holds
        letters += 1
    return is_match and letters == len(name)


def _class(text: str, at: int, name: str) -> tuple[int, bool]:
    """Return where a class ends, and whether it contains the character."""
    is_negated = text[at : at + 1] == "^"
    at += is_negated
    holds, is_empty = False, True
    while is_empty or text[at : at + 1] != "]":
        low, at = _letter(text, at)
        high = low
        if text[at : at + 1] == "-":
            high, at = _letter(text, at + 1)
        holds, is_empty = holds or low <= name <= high, False
    return at + 1, holds != is_negated


def _letter(text: str, at: int) -> tuple[str, int]:
    """Return one character of a class, and the position after it."""
    if text[at : at + 1] in ("", "-", "]"):
        raise ValueError("its brackets are empty or not closed")
    at += text[at] == "\\"
    if at + 1 >= len(text):
        raise ValueError("its brackets are not closed")
    return text[at], at + 1


def _matcher(text: str, line: str, name: str) -> Callable[[str], bool]:
    """Return a function that tests whether a path matches the pattern."""
    expression, kind = _translated(text)
    if kind == "exact":
        return text.__eq__
    if kind == "prefix":
        prefix = text[:-2]
        return lambda path: path.startswith(prefix)
    if kind == "suffix":
        suffix = text[2:]
        return lambda path: path.endswith(suffix) or (suffix[0] == "/" and path == suffix[1:])
    return _Expression(expression, line, name)


class _Expression:
    """A pattern as a regular expression, compiled at its first use: one that is never used may be malformed."""

    def __init__(self, expression: str, line: str, name: str) -> None:
        self._expression, self._line, self._name = expression, line, name
        self._search: Callable[[str], object] | None = None

    def __call__(self, path: str) -> bool:
        if self._search is None:
            self._search = self._compiled()
        return self._search(path if path.isascii() else path.translate(_NOT_UTF8)) is not None

    def _compiled(self) -> Callable[[str], object]:
        from asyncsched.workspace.go_regex import compiled  # most patterns need none

        try:  # without a group, so that | binds weaker than both anchors
            return compiled(f"^{self._expression.translate(_NOT_UTF8)}$").search
        except ValueError as error:
            raise _malformed(self._line, self._name, str(error)) from None


def _translated(text: str) -> tuple[str, str]:
    """Return a pattern as a regular expression, and how to match it: exact, prefix, suffix or by the expression."""
    expression, kind = "", "exact"
    at, count = len(text) - len(text.removeprefix("\ufeff")), 0  # Go's scanner skips it
    while at < len(text):
        letter = text[at]
        at += 1
        if letter == "*" and text[at : at + 1] == "*":
            at += 1 + (text[at + 1 : at + 2] == "/")
            if at < len(text):
                expression, kind = f"{expression}(.*/)?", "expression"
            elif kind == "exact":
                kind = "prefix"
            else:
                expression, kind = f"{expression}.*", "expression"
            if count == 0:
                kind = "suffix"
        elif letter in "*?":
            expression, kind = f"{expression}[^/]{'*' if letter == '*' else ''}", "expression"
        elif letter == "\\":
            expression, kind = f"{expression}\\{text[at : at + 1]}", "expression"
            at += 1
        elif letter in "[]":
            expression, kind = expression + letter, "expression"
        else:
            expression += f"\\{letter}" if letter in _SPECIAL else letter
        count += 1
    return expression, kind


def _malformed(line: str, name: str, why: str) -> WorkspaceError:
    return WorkspaceError(f"{name} has the malformed pattern {line!r}", why=why, fix=f"correct or remove it in {name}")
