"""The three ways to change an object in part."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from tests.kubernetes_fake.errors import Json, StatusError, bad_request
from tests.kubernetes_fake.resources import Resource

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

KEYS = {"containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath", "conditions": "type"}
"""How the elements of lists are told apart by the strategic form."""


def patched(resource: Resource, before: Json, content_type: str, patch: Any) -> Json:
    """Return an object as a patch leaves it; 415 for a form that the server does not take."""
    custom = resource.group.endswith("volcano.sh")
    taken = [JSON_PATCH, MERGE, *([] if custom else [STRATEGIC]), "application/apply-patch+yaml"]
    if content_type not in taken[:-1]:
        raise StatusError(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: " + ", ".join(taken),
        )
    after = copy.deepcopy(before)
    if content_type == JSON_PATCH:
        if not isinstance(patch, list):
            raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
        _operations(after, patch)
        return after
    if not isinstance(patch, dict):
        raise bad_request("json: cannot unmarshal array into Go value of type map[string]interface {}")
    merged: Json = _merge(after, patch, strategic=content_type == STRATEGIC)
    return merged


def _merge(value: Any, patch: Any, *, strategic: bool, name: str = "") -> Any:
    if isinstance(patch, list) and isinstance(value, list) and strategic and name in KEYS:
        key = KEYS[name]
        places = {each.get(key): at for at, each in enumerate(value)}
        for each in patch:
            at = places.get(each.get(key))
            if at is None:
                value.append(each)
            else:
                value[at] = _merge(value[at], each, strategic=strategic)
        return value
    if not isinstance(patch, dict):
        return patch
    if not isinstance(value, dict):
        value = {}
    for key, each in patch.items():
        if each is None:
            value.pop(key, None)
        else:
            value[key] = _merge(value.get(key), each, strategic=strategic, name=key)
    return value


def _operations(obj: Any, operations: Sequence[Json]) -> None:
    for each in operations:
        *path, last = [part.replace("~1", "/").replace("~0", "~") for part in each["path"].split("/")[1:]]
        at = obj
        try:
            for part in path:
                at = at[int(part)] if isinstance(at, list) else at[part]
            _operation(at, each["op"], last, each.get("value"))
        except (KeyError, IndexError, TypeError, ValueError):
            raise StatusError(
                422, "Invalid", f"the server rejected our request due to an error in our request: {each['path']}"
            ) from None


def _operation(at: Any, op: str, last: str, value: Any) -> None:
    key: Any = last
    if isinstance(at, list):
        key = len(at) if last == "-" else int(last)
    if op == "add" and isinstance(at, list):
        at.insert(key, value)
    elif op == "add":
        at[key] = value
    elif op == "replace":
        at[key]
        at[key] = value
    elif op == "remove":
        del at[key]
    elif op == "test":
        if at[key] != value:
            raise KeyError(key)
    else:
        raise ValueError(op)
