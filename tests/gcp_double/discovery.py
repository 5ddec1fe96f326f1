"""A judge of the traffic: Google's discovery documents, as its client library for Python brings them."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

DOCUMENTS = {"/v1/": "batch.v1.json", "/v2/": "logging.v2.json"}
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
}
_WHOLE = re.compile(r"-?\d+")


def problems(method: str, path: str, query: Mapping[str, str], body: object, answer: object) -> Iterator[str]:
    """Yield what the documents have against a call and its answer.

    Args:
        method: The HTTP method.
        path: The path of the URL.
        query: Its parameters.
        body: The JSON that was sent; None without any.
        answer: The JSON that was answered; None for an error.
    """
    document = _document(path[:4])
    found = next((each for each in _methods(path[:4]) if method == each[0] and each[1].fullmatch(path)), None)
    if found is None:
        yield f"{method} {path} does not exist"
        return
    described = found[2]
    parameters = {**document["parameters"], **described.get("parameters", {})}
    yield from (f"{method} {path} has no parameter {name}" for name in query if name not in parameters)
    schemas = document["schemas"]
    if "request" in described:
        yield from _checked(schemas, described["request"], {} if body is None else body, f"{method} {path}", sent=True)
    elif body is not None:
        yield f"{method} {path} takes no body"
    if answer is not None:
        yield from _checked(schemas, described["response"], answer, f"answer to {method} {path}", sent=False)


@functools.cache
def _document(version: str) -> dict[str, Any]:
    place = files("googleapiclient") / "discovery_cache" / "documents" / DOCUMENTS[version]
    document: dict[str, Any] = json.loads(place.read_text())
    return document


@functools.cache
def _methods(version: str) -> list[tuple[str, re.Pattern[str], dict[str, Any]]]:
    return [
        (each["httpMethod"], _pattern(each["flatPath"]), each) for each in _all_methods(_document(version)["resources"])
    ]


def _all_methods(resources: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for resource in resources.values():
        yield from resource.get("methods", {}).values()
        yield from _all_methods(resource.get("resources", {}))


def _pattern(flat_path: str) -> re.Pattern[str]:
    parts = re.split(r"\{\w+\}", flat_path)
    return re.compile("/" + "[^/:]+".join(map(re.escape, parts)))


def _checked(
    schemas: Mapping[str, Any], schema: Mapping[str, Any], value: object, where: str, *, sent: bool
) -> Iterator[str]:
    if "$ref" in schema:
        schema = schemas[schema["$ref"]]
    kind = schema["type"]
    if kind == "any":
        return
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        yield f"{where}: {value!r} is not of the type {kind}"
    elif isinstance(value, dict):
        yield from _checked_object(schemas, schema, value, where, sent=sent)
    elif isinstance(value, list):
        for item in value:
            yield from _checked(schemas, schema["items"], item, f"{where}[]", sent=sent)
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of the enum's"
    elif schema.get("format") in ("int64", "uint64") and not _WHOLE.fullmatch(str(value)):
        yield f"{where}: {value!r} is not a whole number"


def _checked_object(
    schemas: Mapping[str, Any], schema: Mapping[str, Any], value: Mapping[str, Any], where: str, *, sent: bool
) -> Iterator[str]:
    known = schema.get("properties", {})
    for name, item in value.items():
        inner = known.get(name, schema.get("additionalProperties"))
        if inner is None:
            yield f"{where}: there is no field {name}"
        elif sent and inner.get("readOnly"):
            yield f"{where}: the field {name} is told only"
        else:
            yield from _checked(schemas, inner, item, f"{where}.{name}", sent=sent)
