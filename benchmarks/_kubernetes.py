"""A fake cluster in a process of its own, for the benchmarks of kubernetes: as ``python -m benchmarks._kubernetes``.

It takes one JSON object on each line of its standard input and answers with one on its standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from asyncsched.specs import AppDef, CfgVal, Role

NAMESPACE = "default"
CFG: dict[str, CfgVal] = {"namespace": NAMESPACE, "kind": "job"}
PERIOD = 1.0
"""Seconds between two lines of a container, while it writes."""

LOOKS_FOR_ENDS = 10.0
"""Seconds between two looks of an open log whether its pod has ended: with a thousand logs these are all its work."""


class Fake:
    """The process with the cluster in it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.told = self._answer()
        self.pid = process.pid

    @property
    def kubeconfig(self) -> str:
        return str(self.told["kubeconfig"])

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        """Have it do something."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **more}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def calls(self) -> dict[str, int]:
        """Return how often each verb was used on each kind since the last look."""
        return dict(self.ask("calls")["calls"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the fake cluster has ended")
        told: dict[str, Any] = json.loads(line)
        return told


@contextmanager
def fake(*, runs_pods: bool = True) -> Iterator[Fake]:
    """Run a fake cluster; without pods that run, it only keeps what it is given."""
    command = [sys.executable, "-m", "benchmarks._kubernetes", *([] if runs_pods else ["--still"])]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Fake(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()


def sleeping(replicas: int) -> AppDef:
    """Return an app whose pods do nothing by themselves."""
    role = Role("main", "none:1", entrypoint="sleep", args=["100000"], num_replicas=replicas)
    return AppDef("bench", [role])


class _Served:
    """What the process does."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self._writing: asyncio.Task[None] | None = None

    def obey(self, asked: dict[str, Any]) -> dict[str, Any]:
        do = asked.pop("do")
        told: dict[str, Any] | None = getattr(self, f"do_{do}")(**asked)
        return told or {}

    def do_calls(self) -> dict[str, Any]:
        calls = dict(self._cluster.traffic.calls)
        self._cluster.traffic.calls.clear()
        self._cluster.traffic.requests.clear()
        return {"calls": calls}

    def do_write(self) -> None:
        """Have every container write a line in each period, at times of its own, until told otherwise."""
        self._writing = asyncio.ensure_future(self._write())

    def do_silence(self) -> None:
        if self._writing is not None:
            self._writing.cancel()

    def do_burst(self, lines: int) -> None:
        """Have every container write that many lines at once."""
        for run in self._runs():
            now = time.time_ns()
            for number in range(lines):
                run.add(now + number, b"%d %s\n" % (number, b"x" * 60))

    def do_running(self) -> dict[str, Any]:
        return {"running": len(self._runs())}

    def _runs(self) -> list[Any]:
        pods = self._cluster.kubelet.pods.values()
        return [container.run for pod in pods for container in pod.main if container.run and not container.over]

    async def _write(self) -> None:
        runs = self._runs()
        while True:
            for each in range(0, len(runs), 10):
                for run in runs[each : each + 10]:
                    now = time.time_ns()
                    run.write("stdout", now, b"tick %d\n" % now)
                await asyncio.sleep(PERIOD * 10 / len(runs))

    def do_keep(self, kind: str, objects: int, template: dict[str, Any], start: int = 0) -> None:
        """Keep so many objects that differ in their numbers."""
        text = json.dumps(template)
        for number in range(start, start + objects):
            self._cluster.store.create(kind, json.loads(text.replace("NUMBER", f"{number:06d}")))

    def do_drop(self, kind: str) -> None:
        """Forget all objects of a kind."""
        for obj in self._cluster.store.list(kind):
            self._cluster.store.remove(kind, obj)

    def do_change(self, kind: str, to: dict[str, Any], times: list[list[Any]]) -> None:
        """Give objects another status at certain times: pairs of a name and a time."""
        loop = asyncio.get_running_loop()
        for name, when in times:
            obj = self._cluster.store.get(kind, NAMESPACE, name)
            loop.call_later(when - time.time(), self._cluster.change, kind, obj, lambda found: found.update(to))


def _serve(arguments: list[str]) -> None:
    from tests.kubernetes_fake.cluster import FakeCluster

    still = "--still" in arguments
    with tempfile.TemporaryDirectory() as folder, FakeCluster(tls=True) as cluster:
        served = _Served(cluster)
        cluster.pace.eof = LOOKS_FOR_ENDS
        if still:
            cluster.run(cluster.store.listeners.clear)
        kubeconfig = cluster.kubeconfig(Path(folder) / "kubeconfig", "admin", namespace=NAMESPACE)
        _tell({"kubeconfig": str(kubeconfig), "pid": os.getpid(), "url": cluster.url})
        for line in sys.stdin:
            asked = json.loads(line)
            _tell(cluster.run(partial(served.obey, asked)))
        cluster.run(served.do_silence)


def _tell(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1:])
