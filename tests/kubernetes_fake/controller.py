"""What both controllers do alike: look again after a change, count pods, make and delete them."""

from __future__ import annotations

import copy
import traceback
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.kubernetes_fake.admission import fill_pod
from tests.kubernetes_fake.errors import Json, StatusError
from tests.kubernetes_fake.store import Change

if TYPE_CHECKING:
    from tests.kubernetes_fake.cluster import FakeCluster

Refusal = Callable[[Json], StatusError | None]


class Controller:
    """Looks at each job of a kind a moment after it, or one of its pods, has changed."""

    kind = ""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster, self.store = cluster, cluster.store
        self._due: set[str] = set()
        self.refused: Counter[str] = Counter()  # how many pods of a job were, by its uid
        self._pods: dict[str, dict[str, Json]] = {}  # by the owner's uid and by their own
        self.store.listeners.append(self._on_change)

    def sync(self, job: Json) -> None:
        """Make of a job what is to be made of it."""
        raise NotImplementedError

    def forget(self, uid: str) -> None:
        """Drop what is known of a job that is gone."""

    def pod_gone(self, uid: str, pod: Json) -> None:
        """Take note of a pod of a job that has disappeared."""

    def pods(self, job: Json) -> list[Json]:
        return sorted(self._pods.get(job["metadata"]["uid"], {}).values(), key=lambda pod: pod["metadata"]["name"])

    def poke(self, uid: str) -> None:
        if uid not in self._due:
            self._due.add(uid)
            self.cluster.later(self.cluster.pace.reconcile, lambda: self._look(uid))

    def _look(self, uid: str) -> None:
        self._due.discard(uid)
        job = next((obj for obj in self.store.list(self.kind) if obj["metadata"]["uid"] == uid), None)
        if job is None:
            self._pods.pop(uid, None)
            self.forget(uid)
            return
        try:
            self.sync(job)
        except Exception:
            self.cluster.traffic.problems.append(traceback.format_exc())

    def _on_change(self, change: Change) -> None:
        if change.kind == self.kind:
            self.poke(change.obj["metadata"]["uid"])
        elif change.kind == "pods":
            owner = next((each["uid"] for each in change.obj["metadata"].get("ownerReferences", ())), "")
            known = self._pods.get(owner)
            if known is None:
                if change.after is None or not self._owns(change.obj):
                    return
                known = self._pods.setdefault(owner, {})
            if change.after is None:
                known.pop(change.obj["metadata"]["uid"], None)
                self.pod_gone(owner, change.obj)
            else:
                known[change.obj["metadata"]["uid"]] = change.after
            self.poke(owner)

    def _owns(self, pod: Json) -> bool:
        owner = pod["metadata"]["ownerReferences"][0] if pod["metadata"].get("ownerReferences") else {}
        found = self.store.find(self.kind, pod["metadata"]["namespace"], owner.get("name", ""))
        return found is not None and found["metadata"]["uid"] == owner.get("uid")

    def owner_of(self, job: Json) -> list[Json]:
        return [{
            "apiVersion": job["apiVersion"], "kind": job["kind"], "name": job["metadata"]["name"],
            "uid": job["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True,
        }]  # fmt: skip

    def create_pod(self, job: Json, name: str, template: Json, labels: Json, annotations: Json) -> Json | None:
        """Make a pod of a template; None, and an event, where it is refused."""
        meta = template.get("metadata") or {}
        pod = {
            "metadata": {
                "name": name,
                "namespace": job["metadata"]["namespace"],
                "labels": {**(meta.get("labels") or {}), **labels},
                "annotations": {**(meta.get("annotations") or {}), **annotations},
                "ownerReferences": self.owner_of(job),
            },
            "spec": copy.deepcopy(template["spec"]),
        }
        fill_pod(pod["spec"])
        if (refusal := self.cluster.pod_refusal(pod)) is not None:
            self.cluster.event(
                self.kind,
                job,
                "FailedCreate",
                f"Error creating: {refusal.message}",
                warning=True,
                origin="job-controller",
            )
            self.refused[job["metadata"]["uid"]] += 1
            return None
        try:
            return self.store.create("pods", pod)
        except StatusError:
            return None  # one of the name is still there

    def delete_pod(self, pod: Json) -> None:
        self.cluster.owners.delete("pods", pod)


def phase_of(pod: Json) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def is_over(pod: Json) -> bool:
    return phase_of(pod) in ("Succeeded", "Failed")


def exit_codes(pod: Json) -> dict[str, int]:
    """Return the exit codes of a pod's containers that have ended."""
    found: dict[str, int] = {}
    for each in pod.get("status", {}).get("containerStatuses", ()):
        if "terminated" in each["state"]:
            found[each["name"]] = each["state"]["terminated"]["exitCode"]
    return found
