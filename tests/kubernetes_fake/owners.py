"""Deleting: grace periods of pods, and what goes with its owner."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tests.kubernetes_fake.errors import Json, StatusError
from tests.kubernetes_fake.store import stamp

if TYPE_CHECKING:
    from tests.kubernetes_fake.cluster import FakeCluster


class Owners:
    """Removes objects as the server and its garbage collector do."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster

    def delete(self, kind: str, obj: Json, *, policy: str = "Background", grace: int | None = None) -> Json:
        """Delete an object; returns it as it is then."""
        if kind == "pods":
            return self._delete_pod(obj, grace)
        last = self.cluster.store.remove(kind, obj) or obj
        uid = obj["metadata"]["uid"]
        if policy == "Orphan":
            for owned_kind, owned in self.cluster.store.owned(uid):
                self.cluster.change(owned_kind, owned, lambda each: _disown(each, uid))
        else:
            self.cluster.later(self.cluster.pace.reconcile, lambda: self._collect(uid))
        return last

    def _collect(self, uid: str) -> None:
        for kind, obj in self.cluster.store.owned(uid):
            self.delete(kind, obj)

    def _delete_pod(self, pod: Json, grace: int | None) -> Json:
        if "deletionTimestamp" in pod["metadata"]:
            return pod
        seconds = pod["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace
        ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if ended or not pod["spec"].get("nodeName") or seconds == 0:
            return self.cluster.store.remove("pods", pod) or pod
        at = datetime.now(UTC) + timedelta(seconds=seconds)

        def change(obj: Json) -> None:
            obj["metadata"].update(deletionTimestamp=stamp(at.timestamp()), deletionGracePeriodSeconds=seconds)

        return self.cluster.change("pods", pod, change) or pod


def _disown(obj: Json, uid: str) -> None:
    left = [owner for owner in obj["metadata"]["ownerReferences"] if owner["uid"] != uid]
    if left:
        obj["metadata"]["ownerReferences"] = left
    else:
        del obj["metadata"]["ownerReferences"]


def check_preconditions(obj: Json, options: Json, qualified: str) -> None:
    """Raise 409 if an object is not the one that was meant."""
    wanted = options.get("preconditions") or {}
    for key in ("uid", "resourceVersion"):
        if wanted.get(key) not in (None, obj["metadata"][key]):
            raise StatusError(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {qualified} "{obj["metadata"]["name"]}": the {key.upper()} in the '
                f"precondition ({wanted[key]}) does not match the {key.upper()} in record ({obj['metadata'][key]})",
            )
