"""Check objects as the API server does with ``fieldValidation=Strict``: types, required and unknown fields, patterns.

What the server checks in Go, and rules in CEL, are not in the schemas.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from tests.kubernetes_schemas.make import FILES

__all__ = ["columns_of", "faults", "faults_of", "names"]

Schema = Mapping[str, Any]

_QUANTITY = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?\d+))?")
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_GO_TYPES = {
    "batch/v1": "io.k8s.api.batch.v1",
    "v1": "io.k8s.api.core.v1",
}
_OF_META = frozenset({"APIGroup", "APIGroupList", "APIResourceList", "DeleteOptions", "Status", "WatchEvent"})
_INTEGERS = {"int32": 2**31, "int64": 2**63}


@functools.cache
def _schemas() -> Mapping[str, Schema]:
    found: dict[str, Schema] = {}
    for file in FILES.values():
        found |= {name: schema for name, schema in json.loads(file.read_text()).items() if name}
    return found


def names() -> list[str]:
    """Return the names of all schemas that there are."""
    return list(_schemas())


def faults(body: object) -> list[str]:
    """Return what is wrong with an object, by its apiVersion and kind; empty if nothing is."""
    if not isinstance(body, Mapping):
        return ["is not an object"]
    of_it = cast("Mapping[str, object]", body)
    version, kind = str(of_it.get("apiVersion", "")), str(of_it.get("kind", ""))
    name = _name_of(version, kind)
    if name not in _schemas():
        return [f"no kind {kind!r} of {version!r} is known here"]
    return faults_of(name, body)


def _name_of(version: str, kind: str) -> str:
    if kind in _OF_META:
        return f"{_META}.{kind}"
    return f"{_GO_TYPES[version]}.{kind}" if version in _GO_TYPES else f"{version}/{kind}"


def faults_of(name: str, body: object) -> list[str]:
    """Return what is wrong with an object of the kind with this schema."""
    return list(_faults("", body, _schemas()[name]))


def columns_of(name: str) -> Sequence[Mapping[str, Any]]:
    """Return the further columns that a custom resource has in a Table."""
    return cast("Sequence[Mapping[str, Any]]", _schemas()[name].get("x-columns", ()))


def _faults(path: str, value: object, schema: Schema) -> Iterator[str]:
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        yield from _well_known(path, value, name) if name in _WELL_KNOWN else _faults(path, value, _schemas()[name])
        return
    if "allOf" in schema and "type" not in schema:
        for each in cast("list[Schema]", schema["allOf"]):
            yield from _faults(path, value, each)
        return
    if value is None:
        return  # the server drops it
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            yield f"{path}: must be an integer or a string, is {value!r}"
        elif "pattern" in schema and isinstance(value, str):
            yield from _matching(path, value, schema)
        return
    yield from _CHECKS.get(str(schema.get("type", "")), _anything)(path, value, schema)
    if "enum" in schema and value not in cast("list[object]", schema["enum"]):
        yield f"{path}: must be one of {schema['enum']}, is {value!r}"


def _anything(path: str, value: object, schema: Schema) -> Iterator[str]:
    yield from ()


def _object(path: str, value: object, schema: Schema) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{path}: must be an object, is {value!r}"
        return
    fields = cast("Mapping[str, object]", value)
    known = cast("Mapping[str, Schema]", schema.get("properties", {}))
    for field in cast("list[str]", schema.get("required", [])):
        # A key that is null counts as missing; an empty default is that of a Go type, which the server refuses.
        if fields.get(field) is None and not known.get(field, {}).get("default"):
            yield f"{path}.{field}: is required".lstrip(".")
    more = schema.get("additionalProperties")
    # A custom resource's metadata is only called an object: the server checks it like any other.
    free = schema.get("x-kubernetes-preserve-unknown-fields") or (not known and more is None)
    for field, item in fields.items():
        where = f"{path}.{field}".lstrip(".")
        if field in known:
            yield from _faults(where, item, _metadata() if where == "metadata" else known[field])
        elif isinstance(more, Mapping):
            yield from _faults(where, item, cast("Schema", more))
        elif not free and more is not True:
            yield f'unknown field "{where}"'


def _metadata() -> Schema:
    return {"$ref": f"#/{_META}.ObjectMeta"}


def _array(path: str, value: object, schema: Schema) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: must be an array, is {value!r}"
        return
    items = cast("list[object]", value)
    if len(items) < schema.get("minItems", 0):
        yield f"{path}: should have at least {schema['minItems']} items"
    keys = cast("list[str]", schema.get("x-kubernetes-list-map-keys", []))
    seen: set[object] = set()
    for index, item in enumerate(items):
        yield from _faults(f"{path}[{index}]", item, cast("Schema", schema.get("items", {})))
        if keys and isinstance(item, Mapping):
            identity = tuple(str(cast("Mapping[str, object]", item).get(key)) for key in keys)
            if identity in seen:
                yield f"{path}[{index}]: duplicate of {dict(zip(keys, identity, strict=True))}"
            seen.add(identity)


def _string(path: str, value: object, schema: Schema) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{path}: must be a string, is {value!r}"
        return
    if schema.get("format") == "date-time" and not _is_time(value):
        yield f"{path}: must be a time, is {value!r}"
    if len(value) > schema.get("maxLength", len(value)) or len(value) < schema.get("minLength", 0):
        yield f"{path}: has {len(value)} characters"
    yield from _matching(path, value, schema)


def _matching(path: str, value: str, schema: Schema) -> Iterator[str]:
    # Go's \pattern is searched for, not matched as a whole.
    if "pattern" in schema and not re.search(str(schema["pattern"]), value):
        yield f"{path}: should match '{schema['pattern']}', is {value!r}"


def _integer(path: str, value: object, schema: Schema) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, int):
        yield f"{path}: must be an integer, is {value!r}"
        return
    limit = _INTEGERS.get(str(schema.get("format", "int64")), 2**63)
    if not -limit <= value < limit:
        yield f"{path}: is out of range: {value}"
    yield from _in_range(path, value, schema)


def _number(path: str, value: object, schema: Schema) -> Iterator[str]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        yield f"{path}: must be a number, is {value!r}"
    else:
        yield from _in_range(path, value, schema)


def _in_range(path: str, value: float, schema: Schema) -> Iterator[str]:
    if value < schema.get("minimum", value):
        yield f"{path}: should be greater than or equal to {schema['minimum']}, is {value}"
    if value > schema.get("maximum", value):
        yield f"{path}: should be less than or equal to {schema['maximum']}, is {value}"


def _boolean(path: str, value: object, schema: Schema) -> Iterator[str]:
    if not isinstance(value, bool):
        yield f"{path}: must be a boolean, is {value!r}"


_CHECKS = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
}


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _is_quantity(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number or (isinstance(value, str) and _QUANTITY.fullmatch(value) is not None)


_WELL_KNOWN = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": ("a quantity", _is_quantity),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": (
        "an integer or a string",
        lambda value: isinstance(value, (int, str)) and not isinstance(value, bool),
    ),
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": ("an object", lambda value: isinstance(value, Mapping)),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": ("an object", lambda value: isinstance(value, Mapping)),
}
"""Types that write themselves: their schemas say less than what is taken."""


def _well_known(path: str, value: object, name: str) -> Iterator[str]:
    what, is_one = _WELL_KNOWN[name]
    if value is not None and not is_one(value):
        yield f"{path}: must be {what}, is {value!r}"
