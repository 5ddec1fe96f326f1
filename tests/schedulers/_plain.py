"""An object with the documents' plain methods, which runs programs; it knows nothing of asyncio or of `Scheduler`."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from asyncsched.schedulers import DescribeAppResponse, ListAppResponse
from asyncsched.specs import AppDef, AppDryRunInfo, AppState, ReplicaStatus, RoleStatus, combine, macros, runopts


@dataclass
class Running:
    """An app that was scheduled."""

    app: AppDef
    processes: list[tuple[str, int, subprocess.Popen[bytes]]]
    lines: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    readers: dict[tuple[str, int], threading.Thread] = field(default_factory=dict)
    cancelled: bool = False


class PlainScheduler:
    """Runs each replica as a process; called from several threads."""

    backend = "plain"

    def __init__(self, session_name: str = "mine") -> None:
        self.session_name = session_name
        self.apps: dict[str, Running] = {}
        self.closed = 0
        self._lock = threading.Lock()
        self._numbers = 0

    def run_opts(self) -> runopts:
        opts = runopts()
        opts.add("queue", str, "Where the app waits.", "default")
        opts.add("labels", dict[str, str], "What to mark it with.", None)
        return opts

    def _submit_dryrun(self, app: AppDef, cfg: dict[str, Any]) -> AppDryRunInfo[AppDef]:
        return AppDryRunInfo(app)

    def schedule(self, info: AppDryRunInfo[AppDef]) -> str:
        with self._lock:
            self._numbers += 1
            app_id = f"{info.request.name}-{self._numbers}"
        processes = []
        for role in info.request.roles:
            for number in range(role.num_replicas):
                filled = macros.Values("", app_id, str(number), "RANK0").apply(role)
                command = [filled.entrypoint, *filled.args]
                process = subprocess.Popen(
                    command,
                    env={"PATH": "/usr/bin:/bin", **filled.env},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                processes.append((role.name, number, process))
        running = Running(info.request, processes)
        for name, number, process in processes:
            lines = running.lines[name, number] = []
            reader = threading.Thread(target=self._read, args=(process, lines), daemon=True)
            running.readers[name, number] = reader
            reader.start()
        self.apps[app_id] = running
        return app_id

    @staticmethod
    def _read(process: subprocess.Popen[bytes], lines: list[str]) -> None:
        assert process.stdout is not None
        with process.stdout as output:
            lines.extend(line.decode() for line in output)
        process.wait()

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        running = self.apps.get(app_id)
        if running is None:
            return None
        statuses = [RoleStatus(role.name, []) for role in running.app.roles]
        for name, number, process in running.processes:
            reader = running.readers[name, number]
            code = None if reader.is_alive() else process.returncode
            state = AppState.RUNNING if code is None else AppState.FAILED if code else AppState.SUCCEEDED
            if code is not None and code < 0 and running.cancelled:
                state = AppState.CANCELLED
            replica = ReplicaStatus(
                number, state, name, "here", exit_code=code if code is not None and code >= 0 else None
            )
            next(each for each in statuses if each.role == name).replicas.append(replica)
        replicas = [replica for status in statuses for replica in status.replicas]
        state = combine(replicas, cancelled=running.cancelled)
        return DescribeAppResponse(app_id, state, roles_statuses=statuses, roles=running.app.roles)

    def _cancel_existing(self, app_id: str) -> None:
        running = self.apps[app_id]
        running.cancelled = True
        for _, _, process in running.processes:
            _kill(process)

    def delete(self, app_id: str) -> None:
        self.apps.pop(app_id)

    def list(self) -> list[ListAppResponse]:
        rows = [(app_id, self.describe(app_id)) for app_id in reversed(self.apps)]
        return [ListAppResponse(app_id, found.state) for app_id, found in rows if found is not None]

    def log_iter(
        self,
        app_id: str,
        role_name: str,
        k: int = 0,
        regex: str | None = None,
        since: object = None,
        until: object = None,
        should_tail: bool = False,
        streams: object = None,
    ) -> Iterator[str]:
        if streams is not None:
            raise ValueError("the streams of a replica are one")
        running, given = self.apps[app_id], 0
        while True:
            over = not running.readers[role_name, k].is_alive()
            new = running.lines[role_name, k][given:]
            yield from new
            given += len(new)
            if over or not should_tail:
                return
            running.readers[role_name, k].join(0.01)

    def close(self) -> None:
        self.closed += 1

    def end(self) -> None:
        """End every process, for the fixture."""
        for running in [*self.apps.values()]:
            for _, _, process in running.processes:
                _kill(process)
            for reader in running.readers.values():
                reader.join(30)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Stuck:
    """An object whose calls wait until they are let go."""

    backend, session_name = "stuck", "mine"

    def __init__(self) -> None:
        self.go = threading.Event()
        self.entered = threading.Semaphore(0)
        self.most = self.now = self.calls = 0
        self.ended: list[str] = []
        self.waits = {"schedule", "log_iter"}
        self._lock = threading.Lock()

    def submit_dryrun(self, app: AppDef, cfg: dict[str, Any]) -> AppDryRunInfo[dict[str, Any]]:
        return AppDryRunInfo({"name": app.name})

    def schedule(self, info: AppDryRunInfo[dict[str, Any]]) -> str:
        self._wait("schedule")
        return "theirs-1"

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        self._wait("describe")
        return DescribeAppResponse(
            app_id, AppState.RUNNING, roles_statuses=[RoleStatus("r", [ReplicaStatus(0, AppState.RUNNING, "r", "")])]
        )

    def cancel(self, app_id: str) -> None:
        self.ended.append(app_id)

    def log_iter(self, app_id: str, role_name: str, k: int = 0, **query: Any) -> Iterator[str]:
        yield "first\n"
        self._wait("log_iter")
        yield "second\n"

    def _wait(self, what: str) -> None:
        with self._lock:
            self.calls += 1
            self.now += 1
            self.most = max(self.most, self.now)
        self.entered.release()
        if what in self.waits:
            self.go.wait(60)
        else:
            time.sleep(0)
        with self._lock:
            self.now -= 1
