"""Check names, labels, numbers and sizes that Kubernetes would refuse, before anything is sent."""

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
from asyncsched.schedulers.request_checks import check_seconds
from asyncsched.schedulers.shape import check_image
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
"""Most bytes of a job. etcd stores at most 1.5 MB, and defaults and the status add to the job's size."""

MAX_ANNOTATIONS = 256 * 1024
MAX_REPLICAS = 100_000
"""Most pods of an Indexed Job; for jobs of Volcano too, because clusters have few more pods."""
_LARGEST = 2**31 - 1

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATION = re.compile(r"(?P<key>[^=:]+)(=(?P<value>[^:]*))?(:(?P<effect>\w+))?")


def check_app(app: AppDef, kind: Kind) -> None:
    """Check an app and its roles.

    Raises:
        ConfigError: Kubernetes cannot run the app.
    """
    least = sum(len(text) for role in app.roles for text in (*role.args, *role.env.values()))
    if least > MAX_BYTES:  # checked first, because converting megabytes takes time
        raise _too_large(f"app {app.name!r}", f"its arguments and variables have {least:,} characters")
    for role in app.roles:
        check_image(role)
        if role.num_replicas > MAX_REPLICAS:
            raise ConfigError(
                f"num_replicas of role {role.name!r} must be at most {MAX_REPLICAS:,}, got {role.num_replicas:,}",
                why="an Indexed Job cannot have more pods" if kind == "job" else "no cluster runs many more pods",
                fix="use fewer replicas",
            )
        if role.min_replicas is not None and not 1 <= role.min_replicas <= role.num_replicas:
            raise ConfigError(
                f"min_replicas of role {role.name!r} must be 1 to {role.num_replicas}, its replicas, "
                f"got {role.min_replicas}",
                fix="correct it, or omit it",
            )
        _check_variables(role)


def _check_variables(role: Role) -> None:
    for name in role.env:
        if not (name.isascii() and name.isprintable()):
            raise ConfigError(
                f"role {role.name!r} sets an environment variable with the invalid name {name!r}",
                why="Kubernetes accepts printable ASCII characters only",
                fix="choose another name",
            )


def check_options(options: KubernetesOpts, kind: Kind, replicas: int) -> None:
    """Check options for values out of range and invalid names.

    Args:
        options: The options.
        kind: What runs the pods.
        replicas: How many replicas the app has.

    Raises:
        RunOptionError: The message names the option and says what to write instead.
    """
    if not names.is_dns_label(options.namespace):
        raise _unfit("namespace", options.namespace, "a name has a-z, 0-9 and -, and up to 63 characters")
    if kind == "volcano" and not options.queue:
        raise missing_queue()
    for key in ("queue", "service_account", "priority_class", "image_secret"):
        value = cast("str | None", getattr(options, key))
        if value is not None and not names.is_subdomain(value):
            raise _unfit(key, value, "a name has a-z, 0-9, - and dots")
    if options.queue is not None and kind == "job" and not names.is_label_value(options.queue):
        raise _unfit("queue", options.queue, "Kueue's label holds up to 63 characters")
    _check_numbers(options, replicas)
    for key in ("labels", "node_selector"):
        for name, text in (cast("dict[str, str] | None", getattr(options, key)) or {}).items():
            _check_label(key, name, text)
    for name in options.annotations or {}:
        _check_key("annotations", name)
    for text in options.tolerations or ():
        read_toleration(text)


def missing_queue(queues: Sequence[str] | None = None) -> RunOptionError:
    """Return the error for a missing queue.

    Args:
        queues: The existing queues; None if the user may not list them.
    """
    if queues:
        fix = f"set queue to one of {', '.join(sorted(queues))}"
    elif queues is not None:
        fix = "create a queue of Volcano first; there is none"
    else:
        fix = "set queue=NAME; `kubectl get queues.scheduling.volcano.sh` lists the queues"
    return RunOptionError("the run option queue is missing", key="queue", why="Volcano requires one", fix=fix)


def _check_numbers(options: KubernetesOpts, replicas: int) -> None:
    check_seconds("timeout", options.timeout)
    check_seconds("pending_timeout", options.pending_timeout)
    check_seconds("grace_period", options.grace_period, least=0)
    check_seconds("ttl", options.ttl, least=0)
    for key, amount in (("reserved_millicpu", options.reserved_millicpu), ("reserved_memmb", options.reserved_memmb)):
        if not 0 <= amount <= _LARGEST:
            raise RunOptionError(f"{key} must be 0 to {_LARGEST}, got {amount:.10g}", key=key, fix="correct it")
    least = options.min_available
    if least is not None and not 1 <= least <= replicas:
        raise RunOptionError(
            f"min_available must be 1 to {replicas}, the app's replicas, got {least}",
            key="min_available",
            fix="omit it for all of them",
        )


def _unfit(key: str, value: str, rule: str) -> RunOptionError:
    return RunOptionError(f"{key} must be a valid name, got {value!r}", key=key, why=rule, fix="use an existing name")


def _check_label(option: str, key: str, value: str) -> None:
    _check_key(option, key)
    if option == "labels" and key in names.OF_MANAGER:
        why = "it tells other tools which asyncsched app a pod belongs to"
        raise RunOptionError(f"{option} cannot contain {key}", key=option, why=why, fix="choose another key")
    if not names.is_label_value(value):
        raise RunOptionError(
            f"{option} cannot contain {key}={value!r}",
            key=option,
            why="a label value has up to 63 letters, digits, -, _ and dots, with a letter or digit at both ends",
            fix="use another value, or annotations",
        )


def _check_key(option: str, key: str) -> None:
    if option != "node_selector" and (names.is_ours(key) or key in CONTROLLED):
        why = "asyncsched and the job's controller identify their pods by it"
        raise RunOptionError(f"{option} cannot contain {key}", key=option, why=why, fix="choose another key")
    if not names.is_label_key(key):
        raise RunOptionError(
            f"{option} cannot contain {key!r}",
            key=option,
            why="a key is an optional domain and slash, and a name of up to 63 letters, digits, -, _ and dots",
            fix="write it as example.com/team",
        )


def read_toleration(text: str) -> dict[str, str]:
    """Return the toleration of a text: ``key``, ``key:effect``, ``key=value:effect``, or ``*`` for all taints.

    Raises:
        RunOptionError: The text is not a toleration.
    """
    if text == "*":
        return {"operator": "Exists"}
    found = _TOLERATION.fullmatch(text)
    if found is None or not names.is_label_key(found["key"]) or (found["effect"] or _EFFECTS[0]) not in _EFFECTS:
        raise RunOptionError(
            f"tolerations cannot contain {text!r}",
            key="tolerations",
            why=f"an effect is one of {', '.join(_EFFECTS)}",
            fix="write it as nvidia.com/gpu:NoSchedule, or as team=red:NoExecute",
        )
    has_value = found["value"] is not None
    toleration = {"key": found["key"], "operator": "Equal" if has_value else "Exists"}
    more = {"value": found["value"], "effect": found["effect"]}
    return toleration | {key: value for key, value in more.items() if value is not None}


# Names and sizes of generated objects


def check_pod_names(job: str, tasks: Sequence[tuple[str, int]]) -> None:
    """Check the names of pods; Volcano's webhook also considers a task's index in the job.

    Args:
        job: The job's name.
        tasks: Task names (empty for an Indexed Job) and numbers of replicas.

    Raises:
        ConfigError: A name would be longer than 63 characters.
    """
    for place, (task, replicas) in enumerate(tasks):
        pod = "-".join(part for part in (job, task, str(max(place if task else 0, replicas - 1))) if part)
        if len(pod) > names.LONGEST_LABEL:
            raise ConfigError(
                f"the pod name {pod} is too long",
                why=f"it must have at most {names.LONGEST_LABEL} characters, got {len(pod)}",
                fix="choose shorter names for the app and its roles",
            )


def check_size(what: str, body: Mapping[str, object]) -> int:
    """Check the size of an object, with its secrets as sent, and return it in bytes.

    Raises:
        ConfigError: It is larger than the server accepts.
    """
    size = len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass"))
    if size > MAX_BYTES:
        raise _too_large(what, f"it has {size:,} bytes")
    annotations = cast("dict[str, str]", cast("dict[str, Any]", body["metadata"]).get("annotations") or {})
    length = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if length > MAX_ANNOTATIONS:
        why = f"they must have at most {MAX_ANNOTATIONS:,} bytes, got {length:,}"
        raise ConfigError(f"the annotations of the {what} are too large", why=why, fix="shorten annotations")
    return size


def _too_large(what: str, size: str) -> ConfigError:
    return ConfigError(
        f"the {what} is too large",
        why=f"{size}, and Kubernetes stores objects of up to {MAX_BYTES:,} bytes",
        fix="use fewer roles and shorter arguments; variables with ${replica_id} need one copy per replica",
    )


def whole_seconds(seconds: float) -> int:
    """Return whole seconds for Kubernetes: rounded up, at least one."""
    return max(1, math.ceil(seconds))
