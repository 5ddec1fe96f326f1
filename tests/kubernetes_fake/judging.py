"""The published schemas as a judge: of what clients send, and of what the fake itself answers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tests.kubernetes_fake.errors import Json, StatusError, bad_request, invalid
from tests.kubernetes_fake.resources import Resource
from tests.kubernetes_schemas.check import faults, names

names()  # read from disk here, where nobody measures

_UNKNOWN = re.compile(r'unknown field "(.*)"')
_NO_SCHEMA = re.compile(r"no kind .* is known here")
_TYPE = re.compile(r"(\S*): (must be an? (?:integer|string|object|array|boolean|number|time)|is out of range).*")


def judged(resource: Resource, obj: Json, *, strict: bool) -> list[str]:
    """Refuse what the server would refuse, and drop the fields that it does not know; returns its warnings of these."""
    found = [text for text in faults(obj) if not _NO_SCHEMA.fullmatch(text)]
    unknown = [match[1] for text in found if (match := _UNKNOWN.fullmatch(text))]
    others = [text for text in found if not _UNKNOWN.fullmatch(text)]
    if others:
        raise _refusal(resource, obj, others)
    if unknown and strict:
        told = ", ".join(f'unknown field "{each}"' for each in unknown)
        raise bad_request(f"strict decoding error: {told}")
    for path in unknown:
        _drop(obj, path)
    return [f'299 - "unknown field \\"{each}\\""' for each in unknown]


def _drop(obj: Any, path: str) -> None:
    *steps, last = re.findall(r"[^.\[\]]+", path)
    for step in steps:
        obj = obj[int(step)] if isinstance(obj, list) else obj[step]
    del obj[last]


def _refusal(resource: Resource, obj: Json, texts: list[str]) -> StatusError:
    custom = resource.group.endswith("volcano.sh")
    if not custom and any(_TYPE.fullmatch(text) for text in texts):  # it cannot even be read
        return bad_request(f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
                           f"json: {texts[0]}")  # fmt: skip
    causes = [("FieldValueInvalid", field, f"Invalid value: {said}") for field, _, said in
              (text.partition(": ") for text in texts)]  # fmt: skip
    name = obj.get("metadata", {}).get("name", "")
    return invalid(resource.kind, name, resource.group, causes)


def faults_of_all(objects: Iterable[Json]) -> list[str]:
    """Return what is wrong with objects that the fake has made up itself."""
    return [
        f"{obj['kind']} {obj['metadata']['name']}: {text}"
        for obj in objects
        for text in faults(obj)
        if not _NO_SCHEMA.fullmatch(text)
    ]
