"""Merge the user's overlay into the pods, by the rules of Kubernetes where it has some.

Objects are merged, ``null`` deletes. Lists of containers, variables and volumes are merged by name, mounts by path,
tolerations by key and effect; other lists are replaced. Fields that asyncsched relies on cannot be changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NoReturn, cast

from asyncsched.errors import RunOptionError
from asyncsched.schedulers.kubernetes import names, request_values
from asyncsched.specs.copies import copied
from asyncsched.specs.masking import masked
from asyncsched.specs.result import RESULT_FILE

__all__ = ["CONTROLLED", "differences", "overlaid", "read_overlay"]

Json = dict[str, Any]

CONTROLLED = frozenset(
    {
        "controller-uid",
        "job-name",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/job-name",
        "scheduling.k8s.io/group-name",
        "volcano.sh/job-name",
        "volcano.sh/job-namespace",
        "volcano.sh/job-retry-count",
        "volcano.sh/job-version",
        "volcano.sh/queue-name",
        "volcano.sh/task-index",
        "volcano.sh/task-spec",
        "volcano.sh/template-uid",
    }
)
"""Labels and annotations by which a controller identifies its pods."""

_ALL = "*"
_OF_A_POD = frozenset({"apiVersion", "kind", "metadata", "spec"})
_OF_A_MANIFEST: Mapping[str, str] = {"apiVersion": "v1", "kind": "Pod"}
_OF_METADATA = frozenset({"labels", "annotations"})
_OURS_IN_SPEC: Mapping[str, str] = {
    "restartPolicy": "the role's retry_policy decides about restarts",
    "hostname": "pods find each other by it",
    "subdomain": "pods find each other by it",
    "setHostnameAsFQDN": "pods find each other by their host names",
}
_OURS_WITH_VOLCANO = {"schedulerName": "Volcano schedules the pods of its jobs, all or none"}
_EXAMPLE = '{"spec": {"nodeSelector": {"disk": "ssd"}}}'

_KEYS: Mapping[str, Callable[[Json], object]] = {
    "containers": lambda item: item.get("name"),
    "initContainers": lambda item: item.get("name"),
    "env": lambda item: item.get("name"),
    "volumes": lambda item: item.get("name"),
    "volumeMounts": lambda item: item.get("mountPath"),
    "tolerations": lambda item: (item.get("key"), item.get("effect")),
}
"""The keys by which items of lists are merged."""


def read_overlay(text: str | None, roles: Collection[str], *, with_volcano: bool = False) -> dict[str, list[Json]]:
    """Return the patches of each role, in merge order.

    Args:
        text: The value of the option.
        roles: The names of the app's roles.
        with_volcano: Whether Volcano runs the pods.

    Raises:
        RunOptionError: It is not valid JSON of the right form, or changes a protected field.
    """
    if text is None:
        return {role: [] for role in roles}
    patches = _by_role(_parsed(text), roles)
    ours = {**_OURS_IN_SPEC, **(_OURS_WITH_VOLCANO if with_volcano else {})}
    for where, patch in patches.items():
        _check_patch(where, patch, ours)
    return {role: [patches[key] for key in (_ALL, role) if key in patches] for role in roles}


def _parsed(text: str) -> Json:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RunOptionError(
            "overlay must be JSON", key="overlay", why=str(error), fix=f"write it as {_EXAMPLE}"
        ) from None
    if not isinstance(value, dict):
        _refuse("overlay must be a JSON object", f"write it as {_EXAMPLE}")
    return cast("Json", value)


def _by_role(overlay: Json, roles: Collection[str]) -> dict[str, Json]:
    """Return the patches by role; a patch of a pod applies to all roles."""
    if overlay.keys() <= _OF_A_POD:
        return {_ALL: overlay}
    for name, patch in overlay.items():
        if name != _ALL and name not in roles:
            _refuse(
                f"the overlay has {name!r}, which is neither a role nor a field of a pod",
                f"use {', '.join((_ALL, *roles))} as keys, or for all roles {_EXAMPLE}",
            )
        if not isinstance(patch, dict):
            _refuse(f"the overlay of {name!r} must be an object", f"write it as {_EXAMPLE}")
    return cast("dict[str, Json]", overlay)


def _check_patch(where: str, patch: Json, ours: Mapping[str, str]) -> None:
    for field in patch.keys() - _OF_A_POD:
        _refuse(f"the overlay of {where!r} has {field!r}, which is not a field of a pod", "remove it")
    for field, value in _OF_A_MANIFEST.items():
        if patch.get(field, value) != value:
            _refuse(f"the overlay of {where!r} sets {field}", f"remove it: it is {value}")
    for field in ("metadata", "spec"):
        if patch.get(field, {}) is None:
            _refuse(f"the overlay of {where!r} deletes {field}", "a pod needs it")
    metadata = _object(patch, "metadata")
    for field in metadata.keys() - _OF_METADATA:
        _refuse(f"the overlay of {where!r} sets metadata.{field}", "change labels and annotations only")
    for field in _OF_METADATA & metadata.keys():
        if metadata[field] is None:
            _refuse(f"the overlay of {where!r} deletes metadata.{field}", "asyncsched identifies its pods by them")
        for key in _object(metadata, field):
            if names.is_ours(key) or key in CONTROLLED or (field == "labels" and key in names.OF_MANAGER):
                _refuse(f"the overlay of {where!r} sets metadata.{field}.{key}", "use another key")
    _check_spec(where, _object(patch, "spec"), ours)


def _check_spec(where: str, spec: Json, ours: Mapping[str, str]) -> None:
    for field in ours.keys() & spec.keys():
        _refuse(f"the overlay of {where!r} sets spec.{field}", f"remove it: {ours[field]}")
    for field, key in _KEYS.items():
        _check_list(f"the overlay of {where!r} has in spec.{field}", spec, field, key)
    for container in (*_list(spec, "containers"), *_list(spec, "initContainers")):
        for field in ("env", "volumeMounts"):
            of_it = f"the overlay of {where!r} has in {field} of container {container.get('name')!r}"
            _check_list(of_it, container, field, _KEYS[field])
    for container in _list(spec, "containers"):
        if container.get("name") == names.CONTAINER:
            _check_main(where, container)
    if spec.get("containers", []) is None:
        _refuse(f"the overlay of {where!r} deletes spec.containers", f"the app runs in the container {names.CONTAINER}")
    for container in _list(spec, "initContainers"):
        if container.get("name") == names.CONTAINER:
            _refuse(f"the overlay of {where!r} names an init container {names.CONTAINER}", "choose another name")


def _check_main(where: str, container: Json) -> None:
    """Check a patch of the container that runs the program."""
    main = f"of container {names.CONTAINER!r}"
    if "restartPolicy" in container:
        why = _OURS_IN_SPEC["restartPolicy"]
        _refuse(f"the overlay of {where!r} sets restartPolicy {main}", f"remove it: {why}")
    if "terminationMessagePath" in container:
        fix = f"remove it: {RESULT_FILE} names that file, and results are read from it"
        _refuse(f"the overlay of {where!r} sets terminationMessagePath {main}", fix)
    if container.get("env", []) is None:
        fix = f"change single variables by name: replicas need {request_values.RANK0} to find each other"
        _refuse(f"the overlay of {where!r} deletes env {main}", fix)
    for variable in _list(container, "env"):
        if variable.get("name") in request_values.OURS:
            _refuse(
                f"the overlay of {where!r} sets the variable {variable['name']} {main}",
                "remove it: asyncsched sets it",
            )


def _check_list(what: str, owner: Json, field: str, key: Callable[[Json], object]) -> None:
    for item in cast("list[object]", owner.get(field) or []) if isinstance(owner.get(field), list) else ():
        if not isinstance(item, dict) or key(cast("Json", item)) in (None, ""):
            _refuse(f"{what} an item without its name", "add it: items are merged by it")


def _refuse(what: str, fix: str) -> NoReturn:
    raise RunOptionError(what, key="overlay", fix=fix)


def _object(owner: Json, field: str) -> Json:
    value = owner.get(field)
    if value is not None and not isinstance(value, dict):
        _refuse(f"the overlay's {field} must be an object", f"write it as {_EXAMPLE}")
    return cast("Json", value or {})


def _list(owner: Json, field: str) -> list[Json]:
    value = owner.get(field)
    if value is not None and not isinstance(value, list):
        _refuse(f"the overlay's {field} must be a list", "write a list of objects")
    return cast("list[Json]", value or [])


# Merging


def overlaid(template: Json, patches: Sequence[Json]) -> Json:
    """Return a pod template with patches merged in; the arguments are not changed."""
    result = copied(template)
    for patch in patches:
        parts: Json = {field: patch[field] for field in ("metadata", "spec") if field in patch}
        result = _merged(result, parts)
    for container in result["spec"].get("initContainers", ()):
        # The message shows why it failed; its log is deleted with its pod.
        container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    return result


def _merged(base: Json, patch: Json) -> Json:
    result = dict(base)
    for field, value in patch.items():
        if value is None:
            result.pop(field, None)
        elif isinstance(value, dict):
            before = cast("Json", result[field]) if isinstance(result.get(field), dict) else {}
            result[field] = _merged(before, cast("Json", value))
        elif field in _KEYS and isinstance(value, list):
            result[field] = _merged_list(result.get(field) or [], cast("list[Json]", value), _KEYS[field])
        else:
            result[field] = copied(value)
    return result


def _merged_list(base: list[Json], patch: list[Json], key: Callable[[Json], object]) -> list[Json]:
    result = list(base)
    places = {key(item): place for place, item in enumerate(result)}
    for item in patch:
        place = places.get(key(item))
        if place is None:
            places[key(item)] = len(result)
            result.append(_merged({}, item))
        else:
            result[place] = _merged(result[place], item)
    return result


# Changes, for display


def differences(before: Json, after: Json) -> list[str]:
    """Return the changes of an overlay, one line per field: ``+`` added, ``-`` removed, ``~`` changed."""
    if before == after:  # as without an overlay: to look for secrets in both takes a sixth of a submit
        return []
    return list(_differences("", masked(before), masked(after)))


def _differences(path: str, before: object, after: object) -> Iterator[str]:
    kinds = type(before), type(after)
    if kinds == (dict, dict):
        old, new = cast("Json", before), cast("Json", after)
        for field in dict.fromkeys((*old, *new)):
            yield from _difference(f"{path}.{field}".lstrip("."), old, new, field)
    elif kinds == (list, list):
        yield from _in_lists(path, cast("list[object]", before), cast("list[object]", after))
    elif before != after:
        yield f"~ {path}: {_shown(before)} -> {_shown(after)}"


def _difference(path: str, old: Json, new: Json, field: str) -> Iterator[str]:
    if field not in new:
        yield f"- {path}: {_shown(old[field])}"
    elif field not in old:
        yield f"+ {path}: {_shown(new[field])}"
    else:
        yield from _differences(path, old[field], new[field])


def _in_lists(path: str, before: list[object], after: list[object]) -> Iterator[str]:
    key = _KEYS.get(path.rpartition(".")[2])
    if key is None:
        if before != after:
            yield f"~ {path}: {_shown(before)} -> {_shown(after)}"
        return
    old = {_name(key(item)): item for item in cast("list[Json]", before)}
    new = {_name(key(item)): item for item in cast("list[Json]", after)}
    for name in dict.fromkeys((*old, *new)):
        yield from _difference(f"{path}[{name}]", {name: old[name]} if name in old else {}, new, name)


def _name(key: object) -> str:
    parts = cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)
    return ":".join(str(part) for part in parts if part is not None)


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
