"""Lists: pages, snapshots that are too old, and the forms in which objects are shown."""

from __future__ import annotations

import base64
import binascii
import bisect
import json
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from tests.kubernetes_fake.errors import Json, StatusError, bad_request, expired
from tests.kubernetes_fake.resources import Resource
from tests.kubernetes_fake.selectors import by_fields, by_labels
from tests.kubernetes_fake.store import Store

Query = Mapping[str, str]


def is_set(query: Query, name: str) -> bool:
    """Read a parameter that is true or false as the server does: the Python clients send ``True``."""
    return query.get(name, "0").lower() not in ("0", "false")


OLD_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def selected(resource: Resource, query: Query) -> Callable[[Json], bool]:
    """Return the test of both selectors."""
    labels = by_labels(query.get("labelSelector", ""))
    fields = by_fields(query.get("fieldSelector", ""), resource)
    return lambda obj: labels(obj) and fields(obj)


def list_objects(store: Store, resource: Resource, namespace: str | None, query: Query) -> tuple[list[Json], Json]:
    """Return the objects of one page, and the list's metadata."""
    limit = _number(query, "limit")
    version, start = _continued(store, resource, query)
    if version is None:
        version = _version(store, resource, query)
    there = store.list(resource.short, namespace)
    if start is not None:
        there = there[bisect.bisect_right(there, start, key=_at) :]
    matching = filter(selected(resource, query), there)
    found = list(islice(matching, limit + 1 if limit else None))
    meta: Json = {"resourceVersion": str(version)}
    if limit and len(found) > limit:
        found = found[:limit]
        meta["continue"] = _token(version, _at(found[-1]))
        if not (query.get("labelSelector") or query.get("fieldSelector")):
            meta["remainingItemCount"] = len(there) - limit
    return found, meta


def _version(store: Store, resource: Resource, query: Query) -> int:
    text, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    if match and not text:
        raise StatusError(
            422,
            "Invalid",
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is '
            "forbidden unless resourceVersion is provided",
        )
    if not text:
        return store.version
    if not text.isdecimal():
        raise bad_request(f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax')
    asked = int(text)
    if match == "Exact" and asked < store.oldest.get(resource.short, 0):
        raise expired("The resourceVersion for the provided list is too old.")
    if asked > store.version:
        raise StatusError(
            504,
            "Timeout",
            f"Timeout: Too large resource version: {asked}, current: {store.version}",
            details={
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            },
        )
    return store.version


def _continued(store: Store, resource: Resource, query: Query) -> tuple[int | None, tuple[str, str] | None]:
    token = query.get("continue", "")
    if not token:
        return None, None
    try:
        told = json.loads(base64.urlsafe_b64decode(token))
        version, start = int(told["rv"]), (str(told["start"][0]), str(told["start"][1]))
    except (binascii.Error, ValueError, KeyError, TypeError, IndexError):
        raise bad_request(f"continue key is not valid: invalid continue token: {token}") from None
    if query.get("resourceVersion", "") not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    if version >= 0 and version < store.oldest.get(resource.short, 0):
        raise expired(OLD_CONTINUE, {"continue": _token(-1, start)})
    return (store.version if version < 0 else version), start


def _token(version: int, at: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps({"rv": version, "start": at}).encode()).decode()


def _at(obj: Json) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _number(query: Query, name: str) -> int:
    text = query.get(name, "")
    if not text:
        return 0
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def asked_form(accept: str) -> str:
    """Return ``Table``, ``PartialObjectMetadata`` or an empty text for the objects themselves; 406 if it has none."""
    for choice in accept.split(",") if accept else ["*/*"]:
        kind, *parameters = [part.strip() for part in choice.split(";")]
        told = dict(each.split("=", 1) for each in parameters if "=" in each)
        if kind not in ("application/json", "application/*", "*/*"):
            continue
        form = told.get("as", "")
        if form and (told.get("g"), told.get("v")) != ("meta.k8s.io", "v1"):
            continue
        if form in ("", "Table"):
            return form
        if form.startswith("PartialObjectMetadata"):
            return "PartialObjectMetadata"
    raise StatusError(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf",
    )


def shown_list(form: str, resource: Resource, found: list[Json], meta: Json, query: Query) -> Json:
    """Return a list in the form that was asked for."""
    if form == "Table":
        return table(resource, found, meta, query)
    if form:
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": meta,
            "items": [partial(obj) for obj in found],
        }
    # Only custom resources carry their kind in a list.
    custom = resource.group.endswith("volcano.sh")
    items = found if custom else [{k: v for k, v in obj.items() if k not in ("apiVersion", "kind")} for obj in found]
    return {
        "kind": f"{resource.kind}List",
        "apiVersion": resource.api_version,
        "metadata": {"continue": "", **meta} if custom else meta,
        "items": items,
    }


def shown(form: str, resource: Resource, obj: Json, query: Query) -> Json:
    """Return one object in the form that was asked for."""
    if form == "Table":
        return table(resource, [obj], {"resourceVersion": obj["metadata"]["resourceVersion"]}, query)
    return partial(obj) if form else obj


def partial(obj: Json) -> Json:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


Cell = Callable[[Json], Any]


def _path(*names: str) -> Cell:
    def read(obj: Json) -> Any:
        found: Any = obj
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    return read


def _completions(job: Json) -> str:
    return f"{job.get('status', {}).get('succeeded', 0)}/{job['spec'].get('completions', 1)}"


def _job_status(job: Json) -> str:
    true = [each["type"] for each in job.get("status", {}).get("conditions", ()) if each["status"] == "True"]
    return next((name for name in ("Complete", "Failed", "Suspended", "FailureTarget") if name in true), "Running")


_AGE = ("Age", "string", lambda obj: obj["metadata"]["creationTimestamp"])

COLUMNS: dict[str, list[tuple[str, str, Cell]]] = {
    "vcjobs": [
        ("STATUS", "string", _path("status", "state", "phase")),
        ("minAvailable", "integer", _path("status", "minAvailable")),
        ("RUNNINGS", "integer", _path("status", "running")),
        ("AGE", "date", _path("metadata", "creationTimestamp")),
        ("QUEUE", "string", _path("spec", "queue")),
    ],
    "jobs": [
        ("Status", "string", _job_status),
        ("Completions", "string", _completions),
        ("Duration", "string", lambda _: "1s"),
        _AGE,
    ],
    "pods": [
        ("Ready", "string", lambda _: "1/1"),
        ("Status", "string", _path("status", "phase")),
        ("Restarts", "string", lambda _: "0"),
        _AGE,
        ("Node", "string", _path("spec", "nodeName")),
    ],
}


def table(resource: Resource, found: list[Json], meta: Json, query: Query) -> Json:
    columns = COLUMNS.get(resource.short, [_AGE])
    include = query.get("includeObject", "Metadata")
    if include not in ("None", "Metadata", "Object"):
        raise bad_request(f'unrecognized includeObject value: "{include}"')

    def row(obj: Json) -> Json:
        made: Json = {"cells": [obj["metadata"]["name"], *(cell(obj) for _, _, cell in columns)]}
        if include != "None":
            made["object"] = partial(obj) if include == "Metadata" else obj
        return made

    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [
            {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
            *(
                {"name": name, "type": kind, "format": "", "description": "", "priority": 0}
                for name, kind, _ in columns
            ),
        ],
        "rows": [row(obj) for obj in found],
    }
