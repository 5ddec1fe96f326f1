"""Small apps for a real cluster, and what came of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from asyncsched.logs.line import LogLine
from asyncsched.schedulers.kubernetes import KubernetesScheduler
from asyncsched.schedulers.responses import DescribeAppResponse
from asyncsched.specs import AppDef, CfgVal, Role
from tests.services.kubernetes.images import BUSYBOX

KINDS = ("volcano", "job")

OBEYS = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
"""As process 1 a program without a handler ignores TERM."""


def options(kind: str, namespace: str, **more: CfgVal) -> dict[str, CfgVal]:
    """Return the run options of a kind; pods that are ended get little time."""
    queue: Mapping[str, CfgVal] = {"queue": "default"} if kind == "volcano" else {}
    return {"kind": kind, "namespace": namespace, "grace_period": 1.0, **queue, **more}


def app(script: str, *, replicas: int = 1, name: str = "main", image: str = BUSYBOX, **more: Any) -> AppDef:
    """Return an app of one role that runs a shell script."""
    return AppDef("job", [Role(name, image, entrypoint="sh", args=["-c", script], num_replicas=replicas, **more)])


async def ended(scheduler: KubernetesScheduler, app_id: str) -> DescribeAppResponse:
    """Watch an app until it has ended."""
    last: DescribeAppResponse | None = None
    async with scheduler.watch([app_id]) as watch:
        async for event in watch:
            last = event.current or last
    assert last is not None
    assert last.state.is_terminal()
    return last


def counting(lines: int, at_a_time: int = 20, pause: float = 0.5, padding: int = 0) -> str:
    """Return a script that writes numbered lines, some at a time."""
    return (
        f"pad=$(printf '%0{padding}d' 0); i=0\n"
        f"while [ $i -lt {lines} ]; do\n"
        f"  j=0; while [ $j -lt {at_a_time} ]; do echo $i $pad; i=$((i + 1)); j=$((j + 1)); done\n"
        f"  sleep {pause}\n"
        "done"
    )


def numbers(lines: Iterable[LogLine]) -> dict[int, list[int]]:
    """Return the numbers that each replica wrote, as they came."""
    found: dict[int, list[int]] = defaultdict(list)
    for line in lines:
        found[line.source.replica].append(int(line.split()[0]))
    return dict(found)
