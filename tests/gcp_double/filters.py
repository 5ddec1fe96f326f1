"""The query language of Cloud Logging, as much of it as is used: AND, OR, NOT, brackets, comparisons, lists."""

from __future__ import annotations

import json
import operator as operators
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.gcp_double.wire import Refusal, read_time

Entry = Mapping[str, Any]
Test = Callable[[Entry], bool]
LONGEST = 20_000

_TOKEN = re.compile(r'\s*(?:(>=|<=|!=|=~|!~|[=<>:()])|("(?:\\.|[^"\\])*")|((?:[^\s()"=<>:!]|:(?=//))+))')
_TIMES = {"timestamp": "_written", "receiveTimestamp": "_arrived"}
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operators.eq,
    ">=": operators.ge,
    "<=": operators.le,
    ">": operators.gt,
    "<": operators.lt,
}


def compile_filter(text: str) -> Test:
    """Return the test that a filter makes.

    Raises:
        Refusal: It cannot be parsed.
    """
    if len(text) > LONGEST:
        raise Refusal(400, f"filter is {len(text)} characters long, at most {LONGEST} are allowed")
    return _Parser(text).parse()


@dataclass(frozen=True, slots=True)
class _OfTime:
    """Compares one of an entry's times."""

    compare: Callable[[Any, Any], bool]
    limit: int
    key: str

    def __call__(self, entry: Entry) -> bool:
        return self.compare(entry[self.key], self.limit)


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        self._next = 0
        start = 0
        while text[start:].strip():
            found = _TOKEN.match(text, start)
            if found is None:
                raise Refusal(400, f"Unparseable filter: syntax error at column {start}")
            start = found.end()
            kind = "sign" if found[1] else "text" if found[2] else "word"
            self._tokens.append((kind, found[1] or (json.loads(found[2]) if found[2] else found[3])))

    def parse(self) -> Test:
        if not self._tokens:
            return lambda entry: True
        test = self._all()
        if self._next != len(self._tokens):
            raise Refusal(400, "Unparseable filter: trailing )")
        return test

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._next] if self._next < len(self._tokens) else ("", "")

    def _take(self) -> tuple[str, str]:
        token = self._peek()
        self._next += 1
        return token

    def _all(self) -> Test:
        parts = [self._any()]
        while self._peek() not in (("", ""), ("sign", ")")):
            if self._peek() == ("word", "AND"):
                self._take()
            parts.append(self._any())
        parts.sort(key=lambda part: not isinstance(part, _OfTime))  # most entries of a long log fail those
        return parts[0] if len(parts) == 1 else lambda entry: all(part(entry) for part in parts)

    def _any(self) -> Test:
        parts = [self._term()]
        while self._peek() == ("word", "OR"):
            self._take()
            parts.append(self._term())
        return parts[0] if len(parts) == 1 else lambda entry: any(part(entry) for part in parts)

    def _term(self) -> Test:
        if self._peek() == ("word", "NOT"):
            self._take()
            inner = self._term()
            return lambda entry: not inner(entry)
        if self._peek() == ("sign", "("):
            self._take()
            inner = self._all()
            self._expect(")")
            return inner
        kind, field = self._take()
        operator = self._take()
        if kind != "word" or field in ("AND", "OR") or operator[0] != "sign" or operator[1] in "()":
            raise Refusal(400, f"Unparseable filter near {field!r}")
        tests = [_comparison(field, operator[1], value) for value in self._values()]
        return tests[0] if len(tests) == 1 else lambda entry: any(test(entry) for test in tests)

    def _values(self) -> list[str]:
        if self._peek() != ("sign", "("):
            return [self._value()]
        self._take()
        values = [self._value()]
        while self._peek() == ("word", "OR"):
            self._take()
            values.append(self._value())
        self._expect(")")
        return values

    def _value(self) -> str:
        kind, value = self._take()
        if kind not in ("text", "word") or (kind == "word" and value in ("AND", "OR", "NOT")):
            raise Refusal(400, "Unparseable filter: value expected")
        return value

    def _expect(self, sign: str) -> None:
        if self._take() != ("sign", sign):
            raise Refusal(400, f"Unparseable filter: expected {sign}")


def _comparison(field: str, operator: str, value: str) -> Test:
    if field in _TIMES:
        return _OfTime(_COMPARE[operator], read_time(value), _TIMES[field])
    path = field.split(".")
    pattern = re.compile(value) if "~" in operator else None

    def test(entry: Entry) -> bool:
        found: Any = entry
        for part in path:
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is None:
            return operator in ("!=", "!~")
        text = str(found)
        if pattern is not None:
            return (pattern.search(text) is not None) == (operator == "=~")
        if operator == ":":
            return value.lower() in text.lower()
        if operator == "!=":
            return text.lower() != value.lower()
        return _COMPARE[operator](text.lower(), value.lower())

    return test
