"""App ids, object names, labels and annotations.

The id of an app is ``<namespace>:<name>``, fixed at the dry-run. The name is that of its job. If an app has one Job per
role, it is the name of the first one, and the others are named ``<name>-<task>``. A task name is a role's name made
valid for Kubernetes. Text that a label cannot hold is kept in an annotation of the same key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256

from asyncsched.errors import MalformedHandleError
from asyncsched.specs.names import derive_id, make_unique

__all__ = [
    "APP",
    "APP_NAME",
    "CANCELLED",
    "CONTAINER",
    "KIND",
    "KUEUE_QUEUE",
    "LONGEST_LABEL",
    "OF_MANAGER",
    "REPLICA",
    "REQUEST",
    "ROLE",
    "ROLES",
    "ROLE_INDEX",
    "SELECTOR",
    "SESSION",
    "UNSCHEDULED",
    "VERSION",
    "app_id",
    "derived_name",
    "is_dns_label",
    "is_label_key",
    "is_label_value",
    "is_ours",
    "is_subdomain",
    "job_names",
    "label_value",
    "pod_group_name",
    "said",
    "split_app_id",
    "task_names",
    "unique_name",
]

APP = "asyncsched/app"
"""Label of every object of an app: the app's name."""
KIND = "asyncsched/kind"
"""Label of a job: ``volcano`` or ``job``."""
ROLE = "asyncsched/role"
"""Label: the role's task name; annotation: the role's name, if it differs."""
ROLE_INDEX = "asyncsched/role-index"
"""Label: the role's index among the app's roles."""
REPLICA = "asyncsched/replica"
"""Label of a pod whose replica is a task by itself: the replica's id."""
SESSION = "asyncsched/session"
"""Label, or annotation if a label cannot hold it: the session that submitted the app."""
APP_NAME = "asyncsched/name"
"""Annotation of a job: the name in the AppDef."""
ROLES = "asyncsched/roles"
"""Annotation of a job: the note of its roles, as JSON without secrets."""
REQUEST = "asyncsched/request"
"""Annotation of a job: a digest of the request."""
CANCELLED = "asyncsched/cancelled"
"""Annotation of a job: the time of its cancel."""
UNSCHEDULED = "asyncsched/unscheduled"
"""Annotation of a job: when it was ended for not starting within its pending_timeout."""
VERSION = "asyncsched/version"
"""Annotation of a job: the version of asyncsched that created it."""

OF_MANAGER = frozenset({"app.kubernetes.io/instance", "app.kubernetes.io/managed-by"})
"""Labels that tell other tools which app an object belongs to and what manages it."""

SELECTOR = APP
"""The label selector of all asyncsched objects: the label exists."""

CONTAINER = "main"
"""The name of the container that decides the state of its pod."""

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
"""Label by which Kueue manages a Job."""

LONGEST_LABEL = 63
_LONGEST_SUBDOMAIN = 253
_LONGEST_JOB = 40
"""The rest of a pod's name is for its task and index."""
_SUFFIX = 15
_SHORTEST_TASK = 8
_DIGEST = 6

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?", re.ASCII)
_KEY_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_OURS = ("asyncsched/",)
_FORM = "<namespace>:<name>, such as default:train-x4c7wq0bnd1k2z"


def app_id(namespace: str, name: str) -> str:
    """Return the id of the app with this name in this namespace."""
    return f"{namespace}:{name}"


def split_app_id(app_id: str) -> tuple[str, str]:
    """Return an app's namespace and name.

    Raises:
        MalformedHandleError: The id is not ``<namespace>:<name>``. This is a ``ValueError``.
    """
    namespace, colon, name = app_id.partition(":")
    if not colon or not is_dns_label(namespace) or not is_subdomain(name):
        raise MalformedHandleError(f"{app_id!r} is not an app id of kubernetes", fix=f"write it as {_FORM}")
    return namespace, name


# What Kubernetes accepts


def is_dns_label(text: str) -> bool:
    """Return whether a text is a valid name of a namespace, a service or a task."""
    return len(text) <= LONGEST_LABEL and _DNS_LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Return whether a text is a valid name of most objects: DNS labels separated by dots."""
    return len(text) <= _LONGEST_SUBDOMAIN and all(_DNS_LABEL.fullmatch(part) for part in text.split("."))


def is_label_value(text: str) -> bool:
    """Return whether a label can hold a text."""
    return len(text) <= LONGEST_LABEL and _VALUE.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Return whether a text is a valid key of a label or an annotation."""
    prefix, slash, name = text.rpartition("/")
    fits = len(name) <= LONGEST_LABEL and _KEY_NAME.fullmatch(name) is not None
    return fits and (not slash or is_subdomain(prefix))


def is_ours(key: str) -> bool:
    """Return whether a label or an annotation is reserved for asyncsched."""
    return key.startswith(_OURS)


# Generated names


def unique_name(app_name: str) -> str:
    """Return a unique name that starts with the app's name."""
    return make_unique(_stem(app_name))


def derived_name(key: str, session: str) -> str:
    """Return the name for a key: always the same for the same key and session."""
    return derive_id(_stem(key), session, key)


def _stem(text: str) -> str:
    cleaned = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    stem = cleaned[: _LONGEST_JOB - _SUFFIX].strip("-") or "app"
    # A Service's name must start with a letter.
    return stem if stem[0].isalpha() else f"a{stem}"[: _LONGEST_JOB - _SUFFIX].rstrip("-")


def task_names(job: str, roles: Sequence[tuple[str, int]]) -> list[str]:
    """Return a task name for each role: the role's name, cleaned, shortened and made unique if needed.

    Args:
        job: The job's name, the prefix of pod names.
        roles: The name and the number of replicas of each role.
    """
    taken: set[str] = set()
    found: list[str] = []
    for index, (role, replicas) in enumerate(roles):
        room = LONGEST_LABEL - len(job) - len(str(max(replicas - 1, 0))) - 2
        task = _task_name(role, max(room, _SHORTEST_TASK))
        if task in taken:
            task = _with_digest(task, f"{role}/{index}", max(room, _SHORTEST_TASK))
        taken.add(task)
        found.append(task)
    return found


def numbers_of_tasks(tasks: Iterable[str]) -> dict[str, list[int]]:
    """Return the numbers of the tasks that have one replica of a role each, by the name of the role's task."""
    found: dict[str, list[int]] = {}
    for task in tasks:
        of_role, dash, number = task.rpartition("-")
        if dash and re.fullmatch("0|[1-9][0-9]{0,8}", number):
            found.setdefault(of_role, []).append(int(number))
    return found


def _task_name(role: str, room: int) -> str:
    if len(role) <= room and is_dns_label(role):
        return role
    cleaned = re.sub(r"[^a-z0-9]+", "-", role.lower()).strip("-") or "role"
    if len(cleaned) <= room and cleaned == role.lower().replace("_", "-").replace(".", "-"):
        return cleaned
    return _with_digest(cleaned, role, room)


def _with_digest(cleaned: str, whole: str, room: int) -> str:
    digest = sha256(whole.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    return f"{cleaned[: room - _DIGEST - 1].rstrip('-')}-{digest}".lstrip("-")


def job_names(name: str, tasks: Sequence[str]) -> list[str]:
    """Return the names of an app's Jobs, one per role."""
    return [name, *(f"{name}-{task}" for task in tasks[1:])]


def pod_group_name(job: str, uid: str) -> str:
    """Return the name that Volcano gives the PodGroup of a job."""
    return f"{job}-{uid}"


# Any text in labels and annotations


def label_value(text: str) -> str:
    """Return a label value for any text: the text itself, or its valid part."""
    if is_label_value(text):
        return text
    cleaned = re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:LONGEST_LABEL]
    return cleaned.strip("-_.")


def said(key: str, text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return a label for a text, and an annotation of the same key if the label cannot hold all of it.

    Args:
        key: The key of both.
        text: The text; an empty one gets neither.
    """
    if not text:
        return {}, {}
    value = label_value(text)
    labels = {key: value} if value else {}
    annotations: Mapping[str, str] = {} if value == text else {key: text}
    return labels, dict(annotations)
