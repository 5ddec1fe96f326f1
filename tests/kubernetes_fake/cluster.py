"""A whole cluster: the server's store, a node, the controllers, and the thread that all of it lives in."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tests.kubernetes_fake.errors import Json, StatusError
from tests.kubernetes_fake.faults import Fault, Traffic
from tests.kubernetes_fake.jobs import JobController
from tests.kubernetes_fake.judging import faults_of_all
from tests.kubernetes_fake.kubelet import NODE, Kubelet
from tests.kubernetes_fake.owners import Owners
from tests.kubernetes_fake.resources import RESOURCES, VOLCANO_GROUPS, Resource
from tests.kubernetes_fake.rights import Rights
from tests.kubernetes_fake.server import Server
from tests.kubernetes_fake.store import Store, stamp
from tests.kubernetes_fake.volcano import VolcanoController

if TYPE_CHECKING:
    from tests.kubernetes_fake.watches import Watch

T = TypeVar("T")


@dataclass
class Pace:
    """How long things take, in seconds. A real cluster takes longer for most of them, in the same order.

    Attributes:
        schedule: From a pod's creation to its place on the node.
        create: From there to its first process.
        eof: From a process's last line to the end of the streams that follow it (1 s).
        status: From there to the status that says so (0.05 s).
        gone: From the end of a pod that is deleted to its disappearance.
        retry: Between two looks whether something is possible by now.
        reconcile: Between a change and what a controller makes of it.
        wipe: From the end of a Volcano job to the wiping of its status (0.1 s).
        crash_backoff: Between two runs of a container (10 s).
        job_backoff: Between two pods of one index of a Job (10 s).
        bookmark: Between two bookmarks of a watch (60 s).
        longest_grace: What a pod's grace period is cut to.
        second_of_deadline: How long a second of an activeDeadlineSeconds, a ttl or a policy's timeout takes.
        expired_as_status: Whether a watch from too long ago is refused by HTTP status, and not in the stream.
    """

    schedule: float = 0.01
    create: float = 0.02
    eof: float = 0.05
    status: float = 0.02
    gone: float = 0.02
    retry: float = 0.05
    reconcile: float = 0.01
    wipe: float = 0.1
    crash_backoff: float = 0.1
    job_backoff: float = 0.1
    bookmark: float = 60.0
    longest_grace: float = 5.0
    second_of_deadline: float = 1.0
    expired_as_status: bool = False


class FakeCluster:
    """A cluster on a port of 127.0.0.1. Its thread owns everything inside; `run` reaches in.

    Args:
        volcano: Whether Volcano is installed.
        tls: Whether the server speaks HTTPS, with a certificate authority of its own.
        version: The server's version.
    """

    def __init__(self, *, volcano: bool = True, tls: bool = False, version: tuple[int, int] = (1, 34)) -> None:
        self.volcano, self.tls, self.version = volcano, tls, version
        self.pace = Pace()
        self.traffic = Traffic()
        self.rights = Rights()
        self.stream_gate = "off"
        self.versions: dict[str, str] = {}  # of kinds that are served under another version than ours
        self.starting = 0  # so many requests are refused as by a server that knows neither users nor roles yet
        self.node_labels: dict[str, str] = {"kubernetes.io/hostname": NODE}
        self.capacity: dict[str, Decimal] = {"cpu": Decimal(1000), "memory": Decimal(1 << 40)}
        self.refusals: dict[str, Callable[[Json], StatusError | None]] = {}
        self.pod_refusal: Callable[[Json], StatusError | None] = lambda _: None
        self.watches: set[Watch] = set()
        self.port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.store: Store
        self.kubelet: Kubelet
        self.server: Server

    # From a test's thread

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        ready = Future[None]()
        self._thread = threading.Thread(target=self._serve, args=(ready,), name="kubernetes-fake", daemon=True)
        self._thread.start()
        ready.result()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def run(self, action: Callable[[], T]) -> T:
        """Do something in the cluster's thread, and wait for it."""

        async def do() -> T:
            return action()

        return self.run_async(do())

    def run_async(self, action: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(action, self._loop).result()

    def fail(self, what: str, fault: Fault | StatusError) -> None:
        """Let requests of a kind (``"list pods"``, a pattern) fail; see `Fault`."""
        self.run(lambda: self.traffic.fail(what, fault))

    def cut(self, what: str = ".*") -> int:
        """Abort the connections of open streams (``"watch pods"``, a pattern); returns how many."""
        return self.run(lambda: self.server.cut(what))

    def create(self, kind: str, name: str, namespace: str = "default", **more: Any) -> Json:
        """Put an object there as somebody else would."""
        obj = {"metadata": {"name": name, "namespace": namespace, **more.pop("metadata", {})}, **more}
        return self.run(lambda: self.store.create(kind, obj))

    def faults(self) -> list[str]:
        """Return what is wrong with the fake's own doings: mistakes, and objects that the schemas do not allow."""
        objects = self.run(lambda: list(self.store.objects.values()))  # judged here, and not in a step of its loop
        return [*self.traffic.problems, *faults_of_all(objects)]

    def kubeconfig(self, path: Path, user: str = "alice", *, namespace: str = "") -> Path:
        """Write a configuration for one of the users."""
        token = next(token for token, name in self.rights.users.items() if name == user)
        cluster: Json = {"server": self.url}
        if self.tls:
            cluster["certificate-authority-data"] = self.server.authority_data
        context = {"cluster": "fake", "user": user, **({"namespace": namespace} if namespace else {})}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "fake", "context": context}],
        }
        path.write_text(json.dumps(config))
        return path

    # Inside

    @property
    def _over(self) -> asyncio.Event:
        return self.__dict__["_over_event"]

    def _serve(self, ready: Future[None]) -> None:
        try:
            asyncio.run(self._main(ready))
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    async def _main(self, ready: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self.__dict__["_over_event"] = asyncio.Event()
        self.store = Store()
        self.kubelet = Kubelet(self)
        self.owners = Owners(self)
        self.jobs = JobController(self)
        if self.volcano:
            self.volcano_jobs = VolcanoController(self)
            for queue in ("default", "root", "test"):
                self.store.create("queues", {"metadata": {"name": queue}, "status": {"state": "Open"}})
        for name in ("default", "kube-system"):
            self.store.create("namespaces", {"metadata": {"name": name}, "status": {"phase": "Active"}})
        self.store.create("nodes", {"metadata": {"name": NODE, "labels": self.node_labels}})
        self.server = Server(self)
        await self.server.start()
        ready.set_result(None)
        await self._over.wait()
        await self.server.stop()
        self.server.close()
        self.store.listeners.clear()  # what ends now is not started again
        while self._tasks:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.kubelet.close()

    def resources(self) -> list[Resource]:
        """Return the kinds that are installed, in the version that is served."""
        installed = [each for each in RESOURCES.values() if self.volcano or each.group not in VOLCANO_GROUPS]
        return [replace(each, version=self.versions.get(each.short, each.version)) for each in installed]

    def change(self, kind: str, obj: Json, change: Callable[[Json], Any]) -> Json | None:
        """Change an object if it is still there."""
        try:
            return self.store.update(kind, obj, change)
        except StatusError:
            return None

    def spawn(self, action: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(action)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def later(self, seconds: float, action: Callable[[], Any]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, action)

    def event(
        self, kind: str, about: Json, reason: str, message: str, *, warning: bool = False, origin: str = ""
    ) -> Json:
        """Record an event about an object."""
        resource = RESOURCES[kind]
        meta = about["metadata"]
        number = self.store.version
        return self.store.create(
            "events",
            {
                "metadata": {"name": f"{meta['name']}.{number:x}{os.urandom(3).hex()}", "namespace": meta["namespace"]},
                "involvedObject": {
                    "kind": resource.kind,
                    "apiVersion": resource.api_version,
                    "namespace": meta["namespace"],
                    "name": meta["name"],
                    "uid": meta["uid"],
                },
                "reason": reason,
                "message": message,
                "type": "Warning" if warning else "Normal",
                "count": 1,
                "firstTimestamp": stamp(),
                "lastTimestamp": stamp(),
                "source": {"component": origin or "fake"},
                "reportingComponent": origin or "fake",
            },
        )
