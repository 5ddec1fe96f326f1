"""Requests on objects: get, list, watch, create, patch, replace, delete."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.kubernetes_fake.admission import admit
from tests.kubernetes_fake.errors import Json, StatusError, bad_request, no_such_path
from tests.kubernetes_fake.judging import judged
from tests.kubernetes_fake.lists import asked_form, is_set, list_objects, shown, shown_list
from tests.kubernetes_fake.owners import check_preconditions
from tests.kubernetes_fake.patches import patched
from tests.kubernetes_fake.resources import Resource
from tests.kubernetes_fake.watches import Watch

if TYPE_CHECKING:
    from tests.kubernetes_fake.cluster import FakeCluster

ORPHANED = (
    '299 - "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them '
    'or set propagationPolicy=Orphan to suppress this warning"'
)


@dataclass
class Call:
    """One request, understood."""

    user: str
    verb: str
    resource: Resource
    namespace: str | None
    name: str = ""
    sub: str = ""
    query: dict[str, str] = field(default_factory=dict[str, str])
    accept: str = ""
    content_type: str = ""
    body: bytes = b""

    @property
    def what(self) -> str:
        """The words by which tests name it: ``"list pods"``, ``"get pods/log"``."""
        return f"{self.verb} {self.resource.short}{'/' + self.sub if self.sub else ''}"


@dataclass
class Reply:
    """A whole answer."""

    code: int
    body: Json
    warnings: list[str] = field(default_factory=list[str])


def understood(
    cluster: FakeCluster, method: str, parts: list[str], query: dict[str, str]
) -> tuple[str, Resource, str | None, str, str]:
    """Return the verb, the kind, the namespace, the name and the subresource of a path."""
    if parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    else:
        group, version, rest = parts[1], parts[2], parts[3:]
    namespace: str | None = None
    if len(rest) >= 3 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    known = {(each.group, each.version, each.plural): each for each in cluster.resources()}
    resource = known.get((group, version, rest[0]))
    name, sub = ([*rest[1:], "", ""])[:2]
    if resource is None or len(rest) > 3 or (sub and sub not in resource.subresources):
        raise _Unknown(group, rest[0], namespace, name)
    if resource.namespaced and namespace is None and (name or method == "POST"):
        raise no_such_path() if name else _not_allowed()
    return _verb(method, query, name, sub), resource, namespace, name, sub


class _Unknown(Exception):  # noqa: N818
    """A path that leads to no kind; what is answered depends on the rights of whoever asks."""

    def __init__(self, group: str, plural: str, namespace: str | None, name: str) -> None:
        super().__init__(plural)
        self.group, self.plural, self.namespace, self.name = group, plural, namespace, name


def _verb(method: str, query: dict[str, str], name: str, sub: str) -> str:
    watch = is_set(query, "watch")
    verb = {
        ("GET", True): "get",
        ("GET", False): "watch" if watch else "list",
        ("POST", False): "create",
        ("PUT", True): "update",
        ("PATCH", True): "patch",
        ("DELETE", True): "delete",
        ("DELETE", False): "deletecollection",
    }.get((method, bool(name)))
    if verb is None or (sub == "log" and verb != "get"):
        raise _not_allowed()
    return "watch" if verb == "get" and watch and not sub else verb


def _not_allowed() -> StatusError:
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unknown_path(cluster: FakeCluster, user: str, verb: str, error: _Unknown) -> StatusError:
    """Refuse a path that leads nowhere: 403 to those who have no right to it, 404 to the others."""
    if not cluster.rights.allows(user, verb, error.group, error.plural, error.namespace):
        return cluster.rights.refusal(user, verb, error.group, error.plural, error.namespace, error.name)
    return no_such_path()


UnknownPath = _Unknown


def answer(cluster: FakeCluster, call: Call) -> Reply | Watch:
    """Do what is asked for, or raise StatusError."""
    form = asked_form(call.accept)
    if call.verb == "watch":
        query = dict(call.query)
        if call.name:
            query["fieldSelector"] = f"metadata.name={call.name}"
        return Watch(cluster, call.resource, call.namespace, query, form)
    if call.verb == "list":
        found, meta = list_objects(cluster.store, call.resource, call.namespace, call.query)
        return Reply(200, shown_list(form, call.resource, found, meta, call.query))
    if call.verb == "get":
        obj = cluster.store.get(call.resource.short, call.namespace or "", call.name)
        return Reply(200, shown(form, call.resource, obj, call.query))
    return {
        "create": _create,
        "patch": _patch,
        "update": _update,
        "delete": _delete,
        "deletecollection": _delete_all,
    }[call.verb](cluster, call)


def _read_object(call: Call) -> Json:
    kind = call.content_type.partition(";")[0].strip()
    if kind not in ("application/json", "application/yaml"):
        raise StatusError(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: application/json, "
            "application/yaml, application/vnd.kubernetes.protobuf",
        )
    if len(call.body) > 3 * 1024 * 1024:
        raise StatusError(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")
    try:
        obj = json.loads(call.body)
    except ValueError as error:
        raise bad_request(f"error decoding request: {error}") from None
    if not isinstance(obj, dict):
        raise bad_request("couldn't get version/kind; json parse error")
    wanted = call.resource
    if not obj.get("kind"):
        raise bad_request(f"Object 'Kind' is missing in '{call.body[:60].decode(errors='replace')}'")
    if obj.get("apiVersion") != wanted.api_version or obj["kind"] != wanted.kind:
        raise bad_request(
            f"the API version in the data ({obj.get('apiVersion')}) does not match the expected API version "
            f"({wanted.api_version})"
        )
    return obj


def _create(cluster: FakeCluster, call: Call) -> Reply:
    obj = _read_object(call)
    warnings = judged(call.resource, obj, strict=call.query.get("fieldValidation") == "Strict")
    admitted = admit(cluster, call.resource, call.namespace, copy.deepcopy(obj))
    meta = admitted["metadata"]
    exists = cluster.store.find(call.resource.short, meta.get("namespace", ""), meta["name"]) is not None
    if call.query.get("dryRun") == "All" and not exists:
        return Reply(201, admitted, warnings)
    return Reply(201, cluster.store.create(call.resource.short, admitted), warnings)


def _patch(cluster: FakeCluster, call: Call) -> Reply:
    before = cluster.store.get(call.resource.short, call.namespace or "", call.name)
    try:
        patch: Any = json.loads(call.body)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    after = patched(call.resource, before, call.content_type.partition(";")[0].strip(), patch)
    return _replaced(cluster, call, before, after)


def _update(cluster: FakeCluster, call: Call) -> Reply:
    before = cluster.store.get(call.resource.short, call.namespace or "", call.name)
    return _replaced(cluster, call, before, _read_object(call))


IMMUTABLE = {"jobs": ("selector", "template", "completionMode", "backoffLimitPerIndex")}


def _replaced(cluster: FakeCluster, call: Call, before: Json, after: Json) -> Reply:
    if after["metadata"].get("name") != call.name:
        raise bad_request(
            f"the name of the object ({after['metadata'].get('name')}) does not match the name on the URL"
        )
    for name in IMMUTABLE.get(call.resource.short, ()):
        if after.get("spec", {}).get(name) != before.get("spec", {}).get(name):
            raise StatusError(
                422,
                "Invalid",
                f'{call.resource.kind}.{call.resource.group} "{call.name}" is invalid: spec.{name}: Invalid value: '
                "field is immutable",
            )
    if call.sub == "status":
        after = {**before, "status": after.get("status", {})}
    elif "status" in before:
        after["status"] = before["status"]
    warnings = judged(call.resource, after, strict=call.query.get("fieldValidation") == "Strict")
    if call.query.get("dryRun") == "All":
        return Reply(200, after, warnings)
    return Reply(200, cluster.store.replace(call.resource.short, after), warnings)


def _delete(cluster: FakeCluster, call: Call) -> Reply:
    obj = cluster.store.get(call.resource.short, call.namespace or "", call.name)
    options = _delete_options(call)
    check_preconditions(obj, options, call.resource.qualified)
    policy, warnings = _policy(call, options)
    if call.query.get("dryRun") == "All" or options.get("dryRun"):
        return Reply(200, obj)
    last = cluster.owners.delete(
        call.resource.short, obj, policy=policy, grace=options.get("gracePeriodSeconds")
    )  # fmt: skip
    if call.resource.short == "pods":
        return Reply(200, last)
    details = {
        "name": call.name,
        **({"group": call.resource.group} if call.resource.group else {}),
        "kind": call.resource.plural,
        "uid": obj["metadata"]["uid"],
    }
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return Reply(200, body, warnings)


def _delete_all(cluster: FakeCluster, call: Call) -> Reply:
    found, meta = list_objects(cluster.store, call.resource, call.namespace, call.query)
    policy, warnings = _policy(call, _delete_options(call))
    for obj in found:
        cluster.owners.delete(call.resource.short, obj, policy=policy)
    return Reply(200, shown_list("", call.resource, found, meta, call.query), warnings)


def _delete_options(call: Call) -> Json:
    options: Json = {}
    if call.body:
        try:
            options = json.loads(call.body)
        except ValueError as error:
            raise bad_request(f"error decoding options: {error}") from None
    if "gracePeriodSeconds" in call.query:
        options["gracePeriodSeconds"] = int(call.query["gracePeriodSeconds"])
    if "propagationPolicy" in call.query:
        options["propagationPolicy"] = call.query["propagationPolicy"]
    return options


def _policy(call: Call, options: Json) -> tuple[str, list[str]]:
    policy = options.get("propagationPolicy")
    if policy not in (None, "Background", "Foreground", "Orphan"):
        raise StatusError(
            422,
            "Invalid",
            f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "{policy}": supported '
            'values: "Foreground", "Background", "Orphan", "nil"',
        )
    if policy is None and call.resource.short == "jobs":
        return "Orphan", [ORPHANED]  # the default of batch/v1, and of nothing else
    return policy or "Background", []
