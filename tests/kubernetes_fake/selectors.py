"""Label and field selectors, as the server reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.kubernetes_fake.errors import Json, bad_request
from tests.kubernetes_fake.resources import Resource

Test = Callable[[Json], bool]

_KEY = r"[A-Za-z0-9][A-Za-z0-9._/-]*"
_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_TERM = re.compile(
    rf"\s*(?:(?P<not>!)\s*(?P<absent>{_KEY})"
    rf"|(?P<key>{_KEY})\s*(?:(?P<op>==|=|!=)\s*(?P<value>[^,\s]*)|\s(?P<set>in|notin)\s*\((?P<values>[^)]*)\))?)\s*(?:,|$)"
)


def by_labels(selector: str) -> Test:
    """Return the test of a label selector; 400 where the server could not read it."""
    tests: list[Callable[[Mapping[str, str]], bool]] = []
    at = 0
    while at < len(selector):
        found = _TERM.match(selector, at)
        if found is None:
            raise bad_request(f"unable to parse requirement: found '{selector[at:]}', expected: identifier")
        tests.append(_label_test(found))
        at = found.end()
    return lambda obj: all(test(obj["metadata"].get("labels") or {}) for test in tests)


def _label_test(found: re.Match[str]) -> Callable[[Mapping[str, str]], bool]:
    if found["absent"]:
        return lambda labels: found["absent"] not in labels
    key = found["key"]
    if found["op"] in ("=", "=="):
        value = _checked(key, found["value"])
        return lambda labels: labels.get(key) == value
    if found["op"] == "!=":
        value = _checked(key, found["value"])
        return lambda labels: labels.get(key) != value
    if found["set"]:
        values = {_checked(key, value.strip()) for value in found["values"].split(",")}
        if found["set"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    return lambda labels: key in labels


def _checked(key: str, value: str) -> str:
    if not _VALUE.fullmatch(value):
        raise bad_request(
            f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": a valid label must be an empty '
            "string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character"
        )
    return value


def by_fields(selector: str, resource: Resource) -> Test:
    """Return the test of a field selector; 400 for a field that the server does not select by."""
    tests: list[Test] = []
    for term in filter(None, selector.split(",")):
        found = re.fullmatch(r"([A-Za-z.]+)(==|=|!=)(.*)", term)
        if found is None:
            raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
        path, op, value = found.groups()
        if path not in ("metadata.name", "metadata.namespace", *resource.fields):
            raise bad_request(f"field label not supported: {path}")
        tests.append(_field_test(path, value, equal=op != "!="))
    return lambda obj: all(test(obj) for test in tests)


def _field_test(path: str, value: str, *, equal: bool) -> Test:
    def test(obj: Json) -> bool:
        found: Any = obj
        for part in path.split("."):
            found = found.get(part, "") if isinstance(found, dict) else ""
        return (str(found) == value) is equal

    return test
