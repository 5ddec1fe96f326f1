"""The node: it places pods, runs their containers as processes, and tells how they are."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kubernetes_fake.containers import ConfigTrouble, Container, Run, environment, expanded
from tests.kubernetes_fake.errors import Json
from tests.kubernetes_fake.placing import misfit
from tests.kubernetes_fake.processes import Process
from tests.kubernetes_fake.store import Change, stamp

if TYPE_CHECKING:
    from tests.kubernetes_fake.cluster import FakeCluster

NODE = "node-1"


class Kubelet:
    """All pods that there are.

    Attributes:
        down: Whether the node's kubelet is stopped: containers run on, logs cannot be read.
        unknown: Names of pods that it says it does not know yet, although they are placed.
        watchers: How many followers it can serve at a time; None: as many as come.
        creates: Set: containers are made; else they wait to be made, until a test lets them.
    """

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.pods: dict[str, Pod] = {}
        self.down = False
        self.unknown: set[str] = set()
        self.watchers: int | None = None
        self.following = 0
        self.creates = asyncio.Event()
        self.creates.set()
        self.processes: set[Process] = set()  # that have not ended
        self.stopped = asyncio.Event()  # set and replaced when kubelet stops: followers end cleanly
        self.directory = Path(tempfile.mkdtemp(prefix="kubernetes-fake-"))
        self._last_ip = 1
        cluster.store.listeners.append(self._on_change)

    def stop(self) -> None:
        """Stop kubelet; what runs goes on."""
        self.down = True
        self.stopped.set()
        self.stopped = asyncio.Event()

    def start(self) -> None:
        self.down = False

    def next_ip(self) -> str:
        self._last_ip += 1
        return f"10.244.{self._last_ip // 250}.{self._last_ip % 250 + 2}"

    def of(self, namespace: str, name: str) -> Pod:
        """Return a pod by its name."""
        return self.pods[self.cluster.store.get("pods", namespace, name)["metadata"]["uid"]]

    async def close(self) -> None:
        tasks = [pod.task for pod in self.pods.values()]
        for task in tasks:
            task.cancel()
        for process in self.processes:
            process.kill()
        await asyncio.gather(*tasks, *(each.exited for each in self.processes), return_exceptions=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _on_change(self, change: Change) -> None:
        if change.kind != "pods":
            return
        uid = change.obj["metadata"]["uid"]
        if change.before is None:
            self.pods[uid] = Pod(self, change.obj)
        elif change.after is None:
            pod = self.pods.pop(uid, None)
            if pod is not None:
                pod.kill()
                pod.gone = True
        elif "deletionTimestamp" in change.after["metadata"]:
            self.pods[uid].delete()


class Pod:
    """One pod on the node."""

    def __init__(self, kubelet: Kubelet, obj: Json) -> None:
        self.kubelet, self.obj = kubelet, obj
        self.cluster = kubelet.cluster
        self.uid: str = obj["metadata"]["uid"]
        self.init = [Container(each) for each in obj["spec"].get("initContainers", ())]
        self.main = [Container(each) for each in obj["spec"]["containers"]]
        self.placed = False
        self.gone = False
        self.ended: str | None = None  # the phase it ended in
        self.reason = self.message = ""
        self.disruption: tuple[str, str] | None = None
        self.deleting = asyncio.Event()
        self.started: float | None = None
        self.ip = ""
        self.directory = kubelet.directory / self.uid
        self._deadline: asyncio.TimerHandle | None = None
        self.task = asyncio.get_running_loop().create_task(self._live(), name=f"pod {obj['metadata']['name']}")

    @property
    def policy(self) -> str:
        return str(self.obj["spec"].get("restartPolicy", "Always"))

    def container(self, name: str) -> Container | None:
        return next((each for each in (*self.main, *self.init) if each.name == name), None)

    def delete(self) -> None:
        if not self.deleting.is_set():
            self.deleting.set()
            self.cluster.spawn(self._terminate())

    def kill(self) -> None:
        for each in (*self.init, *self.main):
            if each.process is not None:
                each.process.kill()

    def evict(self, reason: str = "Evicted", message: str = "The node was low on resource: memory.") -> None:
        """Fail the pod as a node under pressure does."""
        self.reason, self.message = reason, message
        self.disruption = ("TerminationByKubelet", message)
        self._finish("Failed")

    def oom(self, name: str | None = None) -> None:
        """End a container as the kernel does when there is no memory left."""
        container = self.main[0] if name is None else self.container(name)
        assert container is not None
        assert container.run is not None
        assert container.process is not None
        container.run.reason = "OOMKilled"
        container.process.kill()

    # How it lives

    async def _live(self) -> None:
        try:
            await self._run_all()
        except Exception:
            self.cluster.traffic.problems.append(traceback.format_exc())
            raise

    async def _run_all(self) -> None:
        pace = self.cluster.pace
        self.tell()
        await asyncio.sleep(pace.schedule)
        while (why := misfit(self.cluster, self.obj)) is not None:
            self.tell(unschedulable=why)
            await asyncio.sleep(pace.retry)
        self.placed = True
        self.cluster.change("pods", self.obj, lambda pod: pod["spec"].update(nodeName=NODE))
        self.ip = self.kubelet.next_ip()
        self.started = time.time()
        self.tell()
        await asyncio.sleep(pace.create)
        await self.kubelet.creates.wait()
        self.directory.mkdir()
        seconds = self.obj["spec"].get("activeDeadlineSeconds")
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(seconds * pace.second_of_deadline, self._too_long)
        if await self._initialised():
            await asyncio.gather(*(self._keep(each) for each in self.main))
            self._finish(self._phase())

    async def _initialised(self) -> bool:
        for each in self.main:
            each.waiting = ("PodInitializing", "") if self.init else each.waiting
        for each in self.init:
            if each.spec.get("restartPolicy") == "Always":  # a sidecar: it is started and not waited for
                self.cluster.spawn(self._keep(each))
                continue
            await self._keep(each)
            if each.run is None or each.run.exit_code:
                await asyncio.sleep(self.cluster.pace.status)
                self._finish("Failed")
                return False
        return True

    async def _keep(self, container: Container) -> None:
        """Run a container, again where its pod's policy says so."""
        policy = container.spec.get("restartPolicy", self.policy)
        backoff = self.cluster.pace.crash_backoff
        while self.ended is None and not self.deleting.is_set() and not self.gone:
            code = await self._run(container)
            if container in self.init and not code:
                return
            if policy == "Never" or (policy == "OnFailure" and not code):
                return
            if self.deleting.is_set() or self.ended is not None:
                return
            container.waiting = (
                "CrashLoopBackOff", f"back-off {backoff:.0f}s restarting failed container={container.name}"
            )  # fmt: skip
            self.tell()
            await asyncio.sleep(backoff)

    async def _run(self, container: Container) -> int:
        await self._can_start(container)
        if self.gone:  # removed before its first process, which nothing would end
            return 0
        run = Run(number=container.runs[-1].number + 1 if container.runs else 0)
        container.runs.append(run)
        container.waiting = None
        del container.runs[:-2]  # the runtime keeps one that has ended
        env = {"PATH": os.environ["PATH"], **environment(container.spec, self.obj, self.cluster.store.find)}
        notes = self._notes(container, env)
        command = [
            expanded(part, env) for part in (*container.spec.get("command", ()), *container.spec.get("args", ()))
        ]
        try:
            process = Process(command or ["true"], env, self.directory, run.write)
        except OSError as error:
            run.reason = "StartError"
            run.message = (
                "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create "
                f"failed: unable to start container process: exec: {command[:1]}: {error.strerror}: unknown"
            )
            code = 128
        else:
            container.process = process
            self.kubelet.processes.add(process)
            process.exited.add_done_callback(lambda _: self.kubelet.processes.discard(process))
            self.tell()
            code = await asyncio.shield(process.exited)
            container.process = None
        run.exit_code, run.finished = code, time.time()
        if notes.exists():
            run.message = notes.read_bytes()[-4096:].decode("utf-8", "replace")
        await asyncio.sleep(self.cluster.pace.eof)
        run.eof = True
        run.tell()
        await asyncio.sleep(self.cluster.pace.status)
        self.tell()
        return code

    def _notes(self, container: Container, env: dict[str, str]) -> Path:
        """Give the process a file of its own in place of the container's termination message."""
        path = container.spec.get("terminationMessagePath", "/dev/termination-log")
        notes = self.directory / f"{container.name}-{len(container.runs)}.termination"
        for name, value in env.items():
            if value == path:
                env[name] = str(notes)
        return notes

    async def _can_start(self, container: Container) -> None:
        """Wait until the image and what the environment is made of are there."""
        first = True
        while (why := self._trouble(container)) is not None:
            if why[0] == "ErrImagePull" and not first:
                image = container.spec.get("image")
                why = ("ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {why[1]}')
            container.waiting = why
            first = False
            self.tell()
            await asyncio.sleep(self.cluster.pace.retry)

    def _trouble(self, container: Container) -> tuple[str, str] | None:
        image = str(container.spec.get("image", ""))
        if "missing" in image:
            return "ErrImagePull", f'failed to pull and unpack image "{image}": failed to resolve reference: not found'
        try:
            environment(container.spec, self.obj, self.cluster.store.find)
        except ConfigTrouble as trouble:
            return "CreateContainerConfigError", str(trouble)
        return None

    def _too_long(self) -> None:
        self.reason = "DeadlineExceeded"
        self.message = "Pod was active on the node longer than the specified deadline"
        self._finish("Failed")

    def _finish(self, phase: str) -> None:
        """End the pod: what still runs is killed."""
        if self.ended is not None or self.gone:
            return
        self.ended = phase
        for each in (*self.init, *self.main):
            if each.process is not None:
                each.process.kill()
                self.cluster.spawn(self._tell_after(each.process))
        if self._deadline is not None:
            self._deadline.cancel()
        self.tell()

    async def _tell_after(self, process: Process) -> None:
        await asyncio.shield(process.exited)
        await asyncio.sleep(0)
        self.tell()

    async def _terminate(self) -> None:
        """End what runs, then remove the pod from the server."""
        seconds = self.obj["metadata"].get("deletionGracePeriodSeconds")
        current = self.cluster.store.find("pods", self.obj["metadata"]["namespace"], self.obj["metadata"]["name"])
        if current is not None:
            seconds = current["metadata"].get("deletionGracePeriodSeconds", 30)
        processes = [each.process for each in (*self.init, *self.main) if each.process is not None]
        for process in processes:
            process.terminate()
        if processes:
            grace = min(float(seconds or 0), self.cluster.pace.longest_grace)
            await asyncio.wait([each.exited for each in processes], timeout=grace)
            for process in processes:
                process.kill()
            await asyncio.wait([each.exited for each in processes])
            await asyncio.sleep(self.cluster.pace.eof + self.cluster.pace.gone)
        elif self.placed:
            await asyncio.sleep(self.cluster.pace.gone)
        if not self.ended:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([self.task])
        self.cluster.store.remove("pods", self.obj)

    # What the server is told

    def tell(self, unschedulable: str | None = None) -> None:
        """Write the pod's status."""
        if self.gone:
            return
        status = self._status(unschedulable)

        def change(pod: Json) -> None:
            conditions = {each["type"]: each for each in pod.get("status", {}).get("conditions", ())}
            for each in status["conditions"]:
                old = conditions.get(each["type"])
                if old is not None and old["status"] == each["status"]:
                    each["lastTransitionTime"] = old["lastTransitionTime"]
            extra = [each for name, each in conditions.items() if name not in {c["type"] for c in status["conditions"]}]
            status["conditions"] += extra
            pod["status"] = status

        self.cluster.change("pods", self.obj, change)

    def _status(self, unschedulable: str | None) -> Json:
        ready = bool(self.main) and all(each.process is not None for each in self.main)
        initialised = all((each.over and each.run is not None and not each.run.exit_code) or
                          each.spec.get("restartPolicy") == "Always" for each in self.init)  # fmt: skip
        conditions = [_condition("PodScheduled", self.placed)]
        if not self.placed and unschedulable is not None:
            conditions[0].update(reason="Unschedulable", message=unschedulable)
        if self.placed:
            conditions += [
                _condition("Initialized", initialised),
                _condition("ContainersReady", ready),
                _condition("Ready", ready),
            ]
        if self.disruption is not None:
            reason, message = self.disruption
            conditions.append({**_condition("DisruptionTarget", True), "reason": reason, "message": message})
        status: Json = {"phase": self._phase(), "conditions": conditions, "qosClass": "Burstable"}
        if self.reason:
            status.update(reason=self.reason, message=self.message)
        if self.placed:
            status.update(hostIP="10.0.0.1", startTime=stamp(self.started))
            if self.ip:
                status.update(podIP=self.ip, podIPs=[{"ip": self.ip}])
            status["containerStatuses"] = [each.status() for each in self.main]
            if self.init:
                status["initContainerStatuses"] = [each.status() for each in self.init]
        return status

    def _phase(self) -> str:
        if self.ended is not None:
            return self.ended
        codes = [each.run.exit_code for each in self.main if each.over and each.run is not None]
        if len(codes) == len(self.main) and (self.policy == "Never" or (self.policy == "OnFailure" and not any(codes))):
            return "Failed" if any(codes) else "Succeeded"
        return "Running" if any(each.runs for each in self.main) else "Pending"


def _condition(kind: str, value: bool) -> dict[str, Any]:
    return {"type": kind, "status": "True" if value else "False", "lastTransitionTime": stamp(), "lastProbeTime": None}


Find = Callable[[str, str, str], Json | None]
