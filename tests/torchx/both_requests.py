"""Run beside TorchX: prints what TorchX's own scheduler and ours would send for each of some components, as JSON.

Arguments: the scheduler's name. A request is told as values by their paths; the app's own id is ``APP`` in both.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from torchx.components import dist, utils
from torchx.runner import Runner
from torchx.schedulers import DEFAULT_SCHEDULER_MODULES
from torchx.specs import AppDef, BindMount, DeviceMount, Resource, RetryPolicy, Role

from asyncsched.torchx.factories import Factory

SIZED = Resource(cpu=2, gpu=0, memMB=1024)


def sized(app: AppDef) -> AppDef:
    for role in app.roles:
        role.resource = SIZED
    return app


def by_hand(**more: Any) -> AppDef:
    role = {"entrypoint": "sh", "args": ["-c", "echo ${app_id} ${replica_id} ${rank0_env} $$HOME"], "resource": SIZED}
    return AppDef("hand", [Role("main", "busybox:1", **{**role, **more})])


COMPONENTS = {
    "echo": lambda: sized(utils.echo("hello", image="busybox:1")),
    "touch": lambda: sized(utils.touch("/tmp/x", image="busybox:1")),
    "sh": lambda: sized(utils.sh("echo", "hello", image="busybox:1", num_replicas=2, env={"A": "b"}, max_retries=2)),
    "python": lambda: sized(utils.python(c="print(1)", image="busybox:1")),
    "ddp": lambda: sized(dist.ddp("--x", script="main.py", image="busybox:1", j="2x1", cpu=2, memMB=1024)),
    "macros": by_hand,
    "gpu": lambda: by_hand(resource=Resource(cpu=2, gpu=1, memMB=1024)),
    "retries": lambda: by_hand(max_retries=3, retry_policy=RetryPolicy.APPLICATION),
    "mounts": lambda: by_hand(mounts=[BindMount("/a", "/b", read_only=True), DeviceMount("/dev/null", "/dev/nil")]),
    "ports": lambda: by_hand(port_map={"http": 80}),
    "id": lambda: by_hand(args=["-c", "ls", "$app_id"], env={"WHERE": "/runs/${app_id}/$${app_id}", "JOB": "$app_id"}),
}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "aws_batch": {"queue": "default", "user": "me", "priority": 3},
    "gcp_batch": {"project": "p"},
    "kubernetes": {"queue": "default"},
}
"""Those of both."""
OURS: Mapping[str, Mapping[str, Any]] = {"aws_batch": {"job_type": "multinode"}}


def plain(value: Any) -> Any:
    """Return data without the classes that a client of a service has for them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if hasattr(value, "attribute_map"):  # a model of Kubernetes
        return plain({name: getattr(value, field) for field, name in value.attribute_map.items()})
    if hasattr(type(value), "to_dict"):  # a message of Google's
        names = {"preserving_proto_field_name": False, "use_integers_for_enums": False}
        return plain(type(value).to_dict(value, always_print_fields_with_no_presence=False, **names))
    if isinstance(value, Mapping):
        rows = {str(name): plain(each) for name, each in value.items()}
        return one_program({name: each for name, each in rows.items() if each not in (None, "", False)})
    if isinstance(value, Sequence) and not isinstance(value, str):
        rows = [plain(each) for each in value]
        if rows and all(isinstance(each, dict) and {*each} in ({"name", "value"}, {"name"}) for each in rows):
            return {each["name"]: each.get("value", "") for each in rows}
        return rows
    return value.value if isinstance(value, Enum) else value


def one_program(row: dict[str, Any]) -> dict[str, Any]:
    """Lay together what Google takes in several places: what runs in a task, its words, and its variables."""
    if "commands" in row and "entrypoint" in row:
        return {**row, "commands": [row["entrypoint"], *row["commands"]], "entrypoint": None}
    if "runnables" in row:
        parts = [row, *row["runnables"]]
        variables = {name: each for part in parts for name, each in plain(part.get("environment", {})).items()}
        return {**{name: each for part in parts for name, each in part.items()}, "runnables": None, **variables}
    return row


def told(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name in sorted(value):
            yield from told(value[name], f"{path}.{name}")
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for number, each in enumerate(value):
            yield from told(each, f"{path}[{number}]")
    elif value not in (None, "", False):
        yield path, value if isinstance(value, str) else str(value)


def request(factory: Any, scheduler: str, app: AppDef, options: Mapping[str, Any]) -> dict[str, Any]:
    runner = Runner("session", {scheduler: factory})
    try:
        info = runner.dryrun(app, scheduler, dict(options))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        runner.close()
    values = dict(told(plain(info.request)))
    inner = getattr(info, "_asyncsched", None)
    names = (
        [inner.app_id]
        if inner is not None
        else [str(values.get(key)) for key in (".app_id", ".name", ".id", ".resource.metadata.name")]
    )
    names = [each.rpartition(":")[2] for each in names]  # a macro that is more than the job's name is to be seen

    def neutral(value: Any) -> Any:
        for name in names:
            if isinstance(value, str) and len(name) > 6:
                value = value.replace(name, "APP")
        return value

    return {neutral(path): neutral(value) for path, value in values.items()}


def main(scheduler: str) -> None:
    theirs = importlib.import_module(DEFAULT_SCHEDULER_MODULES[scheduler]).create_scheduler
    options = OPTIONS.get(scheduler, {})
    with contextlib.redirect_stdout(sys.stderr):  # TorchX's own scheduler for gcp_batch prints which GPUs it takes
        pairs = {
            name: [
                request(theirs, scheduler, make(), options),
                request(Factory(scheduler), scheduler, make(), {**options, **OURS.get(scheduler, {})}),
            ]
            for name, make in COMPONENTS.items()
        }
    print(json.dumps(pairs))


if __name__ == "__main__":
    main(sys.argv[1])
