"""The controller of batch/v1 Jobs: indexes, back-off, policies, suspension and the conditions at the end."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from typing_extensions import override

from tests.kubernetes_fake.admission import random_end
from tests.kubernetes_fake.controller import Controller, exit_codes, is_over, phase_of
from tests.kubernetes_fake.errors import Json
from tests.kubernetes_fake.store import stamp

if TYPE_CHECKING:
    from tests.kubernetes_fake.cluster import FakeCluster

INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass
class Known:
    """What the controller remembers of a job."""

    failures: dict[int, int] = field(default_factory=dict[int, int])  # of each index, those that count
    failed: int = 0
    lost: int = 0  # failed pods that are gone by now
    counted: set[str] = field(default_factory=set[str])
    done: set[int] = field(default_factory=set[int])
    failed_indexes: set[int] = field(default_factory=set[int])
    not_before: dict[int, float] = field(default_factory=dict[int, float])
    deadline: float | None = None
    started: float = 0.0
    finished: bool = False


class JobController(Controller):
    """What kube-controller-manager does with Jobs."""

    kind = "jobs"

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(cluster)
        self.known: dict[str, Known] = {}

    @override
    def forget(self, uid: str) -> None:
        self.known.pop(uid, None)

    @override
    def pod_gone(self, uid: str, pod: Json) -> None:
        known = self.known.get(uid)
        if known is not None and pod["metadata"]["uid"] not in known.counted:
            known.counted.add(pod["metadata"]["uid"])
            known.failed += 1  # what was ended from outside has failed, too
            known.lost += 1

    @override
    def sync(self, job: Json) -> None:
        known = self.known.setdefault(job["metadata"]["uid"], Known())
        if _is(job, "Complete") or _is(job, "Failed"):
            self._finished(job, known)
        elif _is(job, "FailureTarget") or _is(job, "SuccessCriteriaMet"):
            self._end(job, known)
        elif job["spec"].get("suspend"):
            self._suspend(job, known)
        else:
            self._run(job, known)

    # While it runs

    def _run(self, job: Json, known: Known) -> None:
        if _is(job, "Suspended"):
            known.started = time.time()
            self._condition(job, "Suspended", "JobResumed", "Job resumed", value="False", startTime=stamp())
            self.cluster.event("jobs", job, "Resumed", "Job resumed", origin="job-controller")
            return
        if "startTime" not in job.get("status", {}):
            known.started = time.time()
            self._set(job, startTime=stamp())
        if self._too_long(job, known):
            self._condition(job, "FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
            return
        for pod in self.pods(job):
            if is_over(pod) and pod["metadata"]["uid"] not in known.counted:
                known.counted.add(pod["metadata"]["uid"])
                if self._take(job, known, pod):
                    return
        if self._verdict(job, known):
            return
        self._make_pods(job, known)
        self._count(job, known)

    def _too_long(self, job: Json, known: Known) -> bool:
        seconds = job["spec"].get("activeDeadlineSeconds")
        if seconds is None:
            return False
        left = known.started + seconds * self.cluster.pace.second_of_deadline - time.time()
        if left > 0:
            self.cluster.later(left, lambda: self.poke(job["metadata"]["uid"]))
        return left <= 0

    def _take(self, job: Json, known: Known, pod: Json) -> bool:
        """Take note of the end of a pod; returns whether the job ends with it."""
        index = _index(pod)
        if phase_of(pod) == "Succeeded":
            known.done.add(index)
            return False
        action, message = _failure_action(job, pod)
        if action == "Ignore":
            return False
        known.failed += 1
        known.failures[index] = known.failures.get(index, 0) + 1
        known.not_before[index] = time.time() + self.cluster.pace.job_backoff
        if action == "FailJob":
            self._condition(job, "FailureTarget", "PodFailurePolicy", message)
            return True
        if action == "FailIndex":
            known.failed_indexes.add(index)
        return False

    def _verdict(self, job: Json, known: Known) -> bool:
        spec = job["spec"]
        total = spec.get("completions") or spec["parallelism"]
        per_index = spec.get("backoffLimitPerIndex")
        if per_index is not None:
            known.failed_indexes |= {index for index, count in known.failures.items() if count > per_index}
        elif sum(known.failures.values()) > spec["backoffLimit"]:
            self._condition(job, "FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
            return True
        most = spec.get("maxFailedIndexes")
        if most is not None and len(known.failed_indexes) > most:
            text = "Job has exceeded the specified maximal number of failed indexes"
            self._condition(job, "FailureTarget", "MaxFailedIndexesExceeded", text)
            return True
        for rule in (spec.get("successPolicy") or {}).get("rules", ()):
            wanted = _indexes(rule.get("succeededIndexes", "")) or set(range(total))
            if len(wanted & known.done) >= rule.get("succeededCount", len(wanted)):
                self._condition(job, "SuccessCriteriaMet", "SuccessPolicy", "Matched rules at index 0")
                return True
        if len(known.done | known.failed_indexes) < total:
            return False
        if known.failed_indexes - known.done:
            self._condition(job, "FailureTarget", "FailedIndexes", "Job has failed indexes")
        else:
            text = "Reached expected number of succeeded pods"
            self._condition(job, "SuccessCriteriaMet", "CompletionsReached", text)
        return True

    def _make_pods(self, job: Json, known: Known) -> None:
        spec = job["spec"]
        active = {_index(pod) for pod in self.pods(job) if not is_over(pod)}
        wait_for_the_end = spec.get("podReplacementPolicy") == "Failed"
        going = {
            _index(pod) for pod in self.pods(job) if not is_over(pod) and "deletionTimestamp" not in pod["metadata"]
        }
        blocked = active if wait_for_the_end else going
        now = time.time()
        for index in range(spec.get("completions") or spec["parallelism"]):
            if len(going) >= spec["parallelism"]:
                break
            if index in blocked or index in known.done or index in known.failed_indexes:
                continue
            if (later := known.not_before.get(index, 0.0) - now) > 0:
                self.cluster.later(later, lambda: self.poke(job["metadata"]["uid"]))
                continue
            if self._make_pod(job, known, index) is None:
                self.cluster.later(self.cluster.pace.retry, lambda: self.poke(job["metadata"]["uid"]))
                break
            going.add(index)

    def _make_pod(self, job: Json, known: Known, index: int) -> Json | None:
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        indexed = job["spec"]["completionMode"] == "Indexed"
        template = copy.deepcopy(job["spec"]["template"])
        labels = {"batch.kubernetes.io/job-name": name, "job-name": name,
                  "batch.kubernetes.io/controller-uid": uid, "controller-uid": uid}  # fmt: skip
        annotations: Json = {}
        pod_name = f"{name}-{random_end()}"
        if indexed:
            pod_name = f"{name}-{index}-{random_end()}"
            labels[INDEX] = annotations[INDEX] = str(index)
            template["spec"].setdefault("hostname", f"{name}-{index}")
            if job["spec"].get("backoffLimitPerIndex") is not None:
                annotations["batch.kubernetes.io/job-index-failure-count"] = str(known.failures.get(index, 0))
            ref = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
            for container in (*template["spec"]["containers"], *template["spec"].get("initContainers", ())):
                env = container.setdefault("env", [])
                if not any(each["name"] == "JOB_COMPLETION_INDEX" for each in env):
                    env.append({"name": "JOB_COMPLETION_INDEX", "valueFrom": ref})
        return self.create_pod(job, pod_name, template, labels, annotations)

    def _suspend(self, job: Json, known: Known) -> None:
        for pod in self.pods(job):
            if not is_over(pod):
                known.counted.add(pod["metadata"]["uid"])  # it has not failed
                self.delete_pod(pod)
        if not _is(job, "Suspended"):
            self._condition(job, "Suspended", "JobSuspended", "Job suspended")
            self.cluster.event("jobs", job, "Suspended", "Job suspended", origin="job-controller")
        else:
            self._count(job, known)

    # Its end

    def _end(self, job: Json, known: Known) -> None:
        left = [pod for pod in self.pods(job) if not is_over(pod)]
        for pod in left:
            if "deletionTimestamp" not in pod["metadata"]:
                self.delete_pod(pod)
        self._count(job, known)
        if left:
            return
        target = "FailureTarget" if _is(job, "FailureTarget") else "SuccessCriteriaMet"
        why = next(each for each in job["status"]["conditions"] if each["type"] == target)
        if target == "FailureTarget":
            self._condition(job, "Failed", why["reason"], why["message"])
        else:
            self._condition(job, "Complete", why["reason"], why["message"])
            self._set(job, completionTime=stamp())
            self.cluster.event("jobs", job, "Completed", "Job completed", origin="job-controller")

    def _finished(self, job: Json, known: Known) -> None:
        if known.finished:
            return
        known.finished = True
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        if seconds is not None:
            self.cluster.later(
                seconds * self.cluster.pace.second_of_deadline, lambda: self.cluster.owners.delete("jobs", job)
            )

    # The status

    def _count(self, job: Json, known: Known) -> None:
        pods = self.pods(job)
        active = [pod for pod in pods if not is_over(pod) and "deletionTimestamp" not in pod["metadata"]]
        ready = sum(_is(pod, "Ready") for pod in active)
        terminating = sum(not is_over(pod) and "deletionTimestamp" in pod["metadata"] for pod in pods)
        status: Json = {
            "active": len(active),
            "ready": ready,
            "terminating": terminating,
            "succeeded": len(known.done),
            "failed": known.failed,
            "uncountedTerminatedPods": {},
        }
        if job["spec"]["completionMode"] == "Indexed":
            status["completedIndexes"] = _ranges(known.done)
            if job["spec"].get("backoffLimitPerIndex") is not None:
                status["failedIndexes"] = _ranges(known.failed_indexes)
        self._set(job, **status)

    def _set(self, job: Json, **more: object) -> None:
        def change(obj: Json) -> None:
            status = obj.setdefault("status", {})
            for key, value in more.items():
                if value in (0, "") and key not in ("ready", "terminating"):
                    status.pop(key, None)
                else:
                    status[key] = value

        self.cluster.change("jobs", job, change)

    def _condition(
        self, job: Json, kind: str, reason: str, message: str, *, value: str = "True", **status: str
    ) -> None:
        def change(obj: Json) -> None:
            obj.setdefault("status", {}).update(status)
            conditions = obj["status"].setdefault("conditions", [])
            conditions[:] = [each for each in conditions if each["type"] != kind]
            conditions.append(
                {
                    "type": kind,
                    "status": value,
                    "reason": reason,
                    "message": message,
                    "lastProbeTime": stamp(),
                    "lastTransitionTime": stamp(),
                }
            )

        self.cluster.change("jobs", job, change)


def _is(job: Json, kind: str) -> bool:
    conditions = job.get("status", {}).get("conditions", ())
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def _index(pod: Json) -> int:
    return int(pod["metadata"].get("annotations", {}).get(INDEX, -1))


def _failure_action(job: Json, pod: Json) -> tuple[str, str]:
    policy = job["spec"].get("podFailurePolicy") or {}
    for number, rule in enumerate(policy.get("rules", ())):
        codes = rule.get("onExitCodes")
        if codes is not None:
            for name, code in exit_codes(pod).items():
                named = codes.get("containerName") in (None, name)
                if named and code and (code in codes["values"]) == (codes["operator"] == "In"):
                    where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
                    text = f"Container {name} for pod {where} failed with exit code {code} matching {rule['action']} rule at index {number}"  # fmt: skip  # noqa: E501
                    return rule["action"], text
        for wanted in rule.get("onPodConditions") or ():
            for each in pod.get("status", {}).get("conditions", ()):
                if (each["type"], each["status"]) == (wanted["type"], wanted.get("status", "True")):
                    return rule["action"], f"Pod {pod['metadata']['name']} has condition {each['type']} matching {rule['action']} rule at index {number}"  # fmt: skip  # noqa: E501
    return "Count", ""


def _indexes(text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _ranges(indexes: set[int]) -> str:
    parts: list[list[int]] = []
    for index in sorted(indexes):
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(str(a) if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in parts)
