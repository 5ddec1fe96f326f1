"""What Kubernetes would refuse, found before anything is sent: names, labels, numbers, sizes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from asyncsched.errors import ConfigError, RunOptionError
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.options import KubernetesOpts
from asyncsched.schedulers.kubernetes.request_overlay import CONTROLLED
from asyncsched.schedulers.kubernetes.status_jobs import Kind
from asyncsched.schedulers.shape import check_image
from asyncsched.schedulers.validation import check_seconds
from asyncsched.specs.app import AppDef, Role

__all__ = [
    "MAX_BYTES",
    "check_app",
    "check_options",
    "check_pod_names",
    "check_size",
    "missing_queue",
    "read_toleration",
    "whole_seconds",
]

MAX_BYTES = 1_200_000
"""Bytes of a job. etcd takes 1.5 MB of what is stored, which grows by defaults and by the job's status."""

MAX_ANNOTATIONS = 256 * 1024
MAX_REPLICAS = 100_000
"""Pods of an Indexed Job."""
_LARGEST = 2**31 - 1

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATION = re.compile(r"(?P<key>[^=:]+)(=(?P<value>[^:]*))?(:(?P<effect>\w+))?")


def check_app(app: AppDef, kind: Kind) -> None:
    """Check what concerns the app as a whole, and its roles.

    Raises:
        ConfigError: Kubernetes has no place for such an app.
    """
    least = sum(len(text) for role in app.roles for text in (*role.args, *role.env.values()))
    if least > MAX_BYTES:  # before anything is made of it: megabytes take their time
        raise _too_large(f"app {app.name!r}", f"its arguments and variables have {least:,} characters")
    for role in app.roles:
        check_image(role)
        if kind == "job" and role.num_replicas > MAX_REPLICAS:
            why = f"an Indexed Job has at most {MAX_REPLICAS:,} pods"
            raise ConfigError(f"the role {role.name!r} has {role.num_replicas:,} replicas", why=why, fix="use fewer")
        if role.min_replicas is not None and not 1 <= role.min_replicas <= role.num_replicas:
            raise ConfigError(
                f"the role {role.name!r} has min_replicas={role.min_replicas}",
                why=f"it has {role.num_replicas} replicas",
                fix=f"choose 1 to {role.num_replicas}, or leave it out",
            )
        _check_variables(role)


def _check_variables(role: Role) -> None:
    for name in role.env:
        if not (name.isascii() and name.isprintable()):
            raise ConfigError(
                f"the role {role.name!r} sets a variable that is called {name!r}",
                why="Kubernetes takes printable ASCII characters only",
                fix="choose another name",
            )


def check_options(options: KubernetesOpts, kind: Kind, replicas: int) -> None:
    """Check options that are out of range, or that nothing on Kubernetes can be called.

    Args:
        options: The options.
        kind: What runs the pods.
        replicas: How many replicas the app has.

    Raises:
        RunOptionError: The message says which, and what to write instead.
    """
    if not names.is_dns_label(options.namespace):
        raise _unfit("namespace", options.namespace, "a namespace is called by a-z, 0-9 and -, up to 63 characters")
    if kind == "volcano" and not options.queue:
        raise missing_queue()
    for key in ("queue", "service_account", "priority_class", "image_secret"):
        value = cast("str | None", getattr(options, key))
        if value is not None and not names.is_subdomain(value):
            raise _unfit(key, value, "names have a-z, 0-9, - and dots")
    if options.queue is not None and kind == "job" and not names.is_label_value(options.queue):
        raise _unfit("queue", options.queue, "Kueue's label takes up to 63 characters")
    _check_numbers(options, replicas)
    for key in ("labels", "node_selector"):
        for name, text in (cast("dict[str, str] | None", getattr(options, key)) or {}).items():
            _check_label(key, name, text)
    for name in options.annotations or {}:
        _check_key("annotations", name)
    for text in options.tolerations or ():
        read_toleration(text)


def missing_queue(queues: Sequence[str] | None = None) -> RunOptionError:
    """Return the error for a queue that is not given.

    Args:
        queues: The queues that there are; None where the user may not list them.
    """
    if queues:
        fix = f"give queue=NAME; there are {', '.join(sorted(queues))}"
    elif queues is not None:
        fix = "make a queue of Volcano first; there is none"
    else:
        fix = "give queue=NAME; `kubectl get queues.scheduling.volcano.sh` lists them"
    return RunOptionError("the run option queue is missing", key="queue", why="Volcano takes no job without", fix=fix)


def _check_numbers(options: KubernetesOpts, replicas: int) -> None:
    check_seconds("timeout", options.timeout)
    check_seconds("pending_timeout", options.pending_timeout)
    check_seconds("grace_period", options.grace_period, least=0)
    check_seconds("ttl", options.ttl, least=0)
    for key, amount in (("reserved_millicpu", options.reserved_millicpu), ("reserved_memmb", options.reserved_memmb)):
        if not 0 <= amount <= _LARGEST:
            raise RunOptionError(f"{key} must be a number from 0 on, got {amount:g}", key=key, fix="write 0 or more")
    least = options.min_available
    if least is not None and not 1 <= least <= replicas:
        raise RunOptionError(
            f"min_available must be 1 to {replicas}, the app's replicas, got {least}",
            key="min_available",
            fix="leave it out for all of them",
        )


def _unfit(key: str, value: str, rule: str) -> RunOptionError:
    return RunOptionError(f"{key} cannot be {value!r}", key=key, why=rule, fix="write the name of one that exists")


def _check_label(option: str, key: str, value: str) -> None:
    _check_key(option, key)
    if option == "labels" and key in names.OF_MANAGER:
        why = "it says to other tools which app of asyncsched a pod belongs to"
        raise RunOptionError(f"{option} cannot hold {key}", key=option, why=why, fix="choose another key")
    if not names.is_label_value(value):
        raise RunOptionError(
            f"{option} cannot hold {key}={value!r}",
            key=option,
            why="a label's value has up to 63 letters, digits, -, _ and dots, with a letter or digit at both ends",
            fix="write another value, or use annotations",
        )


def _check_key(option: str, key: str) -> None:
    if option != "node_selector" and (names.is_ours(key) or key in CONTROLLED):
        why = "asyncsched and the job's controller find their pods by it"
        raise RunOptionError(f"{option} cannot hold {key}", key=option, why=why, fix="choose another key")
    if not names.is_label_key(key):
        raise RunOptionError(
            f"{option} cannot hold {key!r}",
            key=option,
            why="a key is a name of up to 63 letters, digits, -, _ and dots, after a domain and a slash perhaps",
            fix="write it as example.com/team",
        )


def read_toleration(text: str) -> dict[str, str]:
    """Return the toleration that a text means: ``key``, ``key:effect``, ``key=value:effect``, or ``*`` for all taints.

    Raises:
        RunOptionError: It means none.
    """
    if text == "*":
        return {"operator": "Exists"}
    found = _TOLERATION.fullmatch(text)
    if found is None or not names.is_label_key(found["key"]) or (found["effect"] or _EFFECTS[0]) not in _EFFECTS:
        raise RunOptionError(
            f"tolerations cannot hold {text!r}",
            key="tolerations",
            why=f"an effect is one of {', '.join(_EFFECTS)}",
            fix="write it as nvidia.com/gpu:NoSchedule, or as team=red:NoExecute",
        )
    has_value = found["value"] is not None
    toleration = {"key": found["key"], "operator": "Equal" if has_value else "Exists"}
    more = {"value": found["value"], "effect": found["effect"]}
    return toleration | {key: value for key, value in more.items() if value is not None}


# Names and sizes of what has been made


def check_pod_names(job: str, tasks: Sequence[tuple[str, int]]) -> None:
    """Check that pods can be called so: Volcano's webhook looks at a task's place in the job, too.

    Args:
        job: The job's name.
        tasks: Task names, empty for an Indexed Job, and numbers of replicas.

    Raises:
        ConfigError: A name would be longer than 63 characters.
    """
    for place, (task, replicas) in enumerate(tasks):
        pod = "-".join(part for part in (job, task, str(max(place if task else 0, replicas - 1))) if part)
        if len(pod) > names.LONGEST_LABEL:
            raise ConfigError(
                f"pods cannot be called {pod}",
                why=f"it has {len(pod)} characters, and a host name has at most {names.LONGEST_LABEL}",
                fix="choose shorter names of app and roles",
            )


def check_size(what: str, body: Mapping[str, object]) -> None:
    """Check what is to be stored, its secrets counted as they are sent.

    Raises:
        ConfigError: It is larger than the server takes.
    """
    size = len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        raise _too_large(what, f"it has {size:,} bytes")
    annotations = cast("dict[str, str]", cast("dict[str, Any]", body["metadata"]).get("annotations") or {})
    length = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if length > MAX_ANNOTATIONS:
        why = f"they have {length:,} bytes, and Kubernetes takes {MAX_ANNOTATIONS:,}"
        raise ConfigError(f"the annotations of the {what} are too large", why=why, fix="shorten annotations")


def _too_large(what: str, size: str) -> ConfigError:
    return ConfigError(
        f"the {what} is too large",
        why=f"{size}, and Kubernetes keeps objects of up to {MAX_BYTES:,} bytes",
        fix="use fewer roles and shorter arguments; variables with ${replica_id} make a copy for each replica",
    )


def whole_seconds(seconds: float) -> int:
    """Return seconds as Kubernetes takes them: whole ones, rounded up, at least one."""
    return max(1, math.ceil(seconds))
