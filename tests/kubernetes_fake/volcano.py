"""Volcano's job controller: phases, policies, restarts, and the wiping of the status at the end."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from typing_extensions import override

from tests.kubernetes_fake.controller import Controller, exit_codes, is_over, phase_of
from tests.kubernetes_fake.errors import Json
from tests.kubernetes_fake.placing import free, requests
from tests.kubernetes_fake.store import Change, stamp
from tests.kubernetes_fake.volcano_plugins import add_environment, make_service, remove_service

if TYPE_CHECKING:
    from tests.kubernetes_fake.cluster import FakeCluster

ENDS = ("Completed", "Failed", "Aborted", "Terminated")
MOST_TRIES = 16
"""So often the controller tries to do something, with longer and longer pauses; then it terminates the job."""
LEAVING = {"Aborting": "Aborted", "Terminating": "Terminated", "Completing": "Completed"}
ACTIONS = {"AbortJob": "Aborting", "TerminateJob": "Terminating", "CompleteJob": "Completing"}


@dataclass
class Known:
    """What the controller remembers of a job."""

    handled: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    deleted: set[str] = field(default_factory=set[str])  # pods that the controller itself has deleted
    attempts: dict[str, int] = field(default_factory=dict[str, int])  # of each task, by RestartTask
    warned: bool = False
    tries: int = 0  # how often it could not make its pods
    wiping: bool = False


class VolcanoController(Controller):
    """Volcano's controllers and its scheduler's part in a gang."""

    kind = "vcjobs"

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(cluster)
        self.known: dict[str, Known] = {}
        self.loses = 0  # so many commands are removed, and nothing comes of them; -1 for all
        self.held: list[Json] | None = None  # a list: commands wait in it until a test has them read
        self.store.listeners.append(self._on_command)

    @override
    def forget(self, uid: str) -> None:
        self.known.pop(uid, None)

    @override
    def pod_gone(self, uid: str, pod: Json) -> None:
        known = self.known.get(uid)
        if known is not None and pod["metadata"]["uid"] not in known.deleted and not is_over(pod):
            job = next((each for each in self.store.list("vcjobs") if each["metadata"]["uid"] == uid), None)
            if job is not None and _phase(job) not in ENDS:
                self._policy(job, known, pod, "PodEvicted")

    @override
    def sync(self, job: Json) -> None:
        known = self.known.setdefault(job["metadata"]["uid"], Known())
        phase = _phase(job)
        if not phase:
            self._begin(job)
        elif phase in ENDS:
            self._wipe_later(job, known)
        elif phase in LEAVING:
            self._leave(job, known, LEAVING[phase])
        elif phase == "Restarting":
            self._restart(job, known)
        else:
            self._go_on(job, known)

    # The life of a job

    def _begin(self, job: Json) -> None:
        meta = job["metadata"]
        self.store.create(
            "podgroups",
            {
                "metadata": {
                    "name": _group(job),
                    "namespace": meta["namespace"],
                    "labels": meta.get("labels") or {},
                    "ownerReferences": self.owner_of(job),
                },
                "spec": {"minMember": job["spec"]["minAvailable"], "queue": job["spec"]["queue"]},
                "status": {"phase": "Pending"},
            },
        )
        make_service(self.cluster, job, self.owner_of(job))
        self._set(job, "Pending", minAvailable=job["spec"]["minAvailable"])

    def _go_on(self, job: Json, known: Known) -> None:
        if not self.pods(job) and not self._fits(job, known):
            self.cluster.later(self.cluster.pace.retry, lambda: self.poke(job["metadata"]["uid"]))
            return
        if not self._make_pods(job, known):
            self._try_again(job, known)
            return
        for pod in self.pods(job):
            for event in _events(pod):
                if (pod["metadata"]["uid"], event) not in known.handled:
                    known.handled.add((pod["metadata"]["uid"], event))
                    if self._policy(job, known, pod, event):
                        return
        if self._completed_task(job, known):
            return
        self._count(job)

    def _fits(self, job: Json, known: Known) -> bool:
        """Tell whether the gang's resources are there; without them Volcano makes no pods at all."""
        wanted: dict[str, object] = {}
        group = self.store.find("podgroups", job["metadata"]["namespace"], _group(job))
        for name in ("cpu", "memory"):
            total = sum(
                (task["replicas"] * requests(task["template"]["spec"]).get(name, 0) for task in job["spec"]["tasks"]),
                start=type(free(self.cluster, name))(0),
            )
            if total > free(self.cluster, name):
                wanted[name] = total
        if group is not None and not known.warned:
            known.warned = True  # this one is made for every job, also for a healthy one
            text = (
                f"0/0 tasks in gang unschedulable: pod group is not ready, {job['spec']['minAvailable']} minAvailable"
            )
            self.cluster.event("podgroups", group, "Unschedulable", text, warning=True, origin="volcano")
            if wanted:
                over = f"resource in cluster is overused: overused {', '.join(wanted)}"
                self.cluster.event("podgroups", group, "Unschedulable", over, origin="volcano")
        if wanted:
            return False
        if group is not None:
            condition = {"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled",
                         "lastTransitionTime": stamp(), "transitionID": _group(job)}  # fmt: skip
            self.cluster.change(
                "podgroups", group, lambda each: each.update(status={"phase": "Inqueue", "conditions": [condition]})
            )
        return True

    def _try_again(self, job: Json, known: Known) -> None:
        known.tries += 1
        if known.tries < MOST_TRIES:
            self.cluster.later(self.cluster.pace.retry, lambda: self.poke(job["metadata"]["uid"]))
            return
        text = "Job failed on action SyncJob for retry limit reached"
        self.cluster.event("vcjobs", job, "ExecuteAction", text, origin="vc-controller")
        self._set(job, "Terminating")

    def _make_pods(self, job: Json, known: Known) -> bool:
        """Make the pods that are missing; returns whether none was refused."""
        before = self.refused[job["metadata"]["uid"]]
        names = {pod["metadata"]["name"] for pod in self.pods(job)}
        status = job["status"]
        for task in job["spec"]["tasks"]:
            for index in range(task["replicas"]):
                name = f"{job['metadata']['name']}-{task['name']}-{index}"
                if name not in names:
                    template = _template(job, task, index)
                    attempt = known.attempts.get(task["name"], 0)
                    version = status.get("version", 0)
                    pod = self.create_pod(job, name, template, _labels(job, task, index), {
                        "scheduling.k8s.io/group-name": _group(job),
                        "volcano.sh/job-name": job["metadata"]["name"],
                        "volcano.sh/job-version": str(version),
                        "volcano.sh/job-retry-count": str(max(version, attempt)),
                        "volcano.sh/queue-name": job["spec"]["queue"],
                        "volcano.sh/task-index": str(index),
                        "volcano.sh/task-spec": task["name"],
                        "volcano.sh/template-uid": f"{job['metadata']['name']}-{task['name']}",
                    })  # fmt: skip
                    if pod is not None:
                        self._time_pending(job, known, task, pod)
        return self.refused[job["metadata"]["uid"]] == before

    def _time_pending(self, job: Json, known: Known, task: Json, pod: Json) -> None:
        for policy in (*(task.get("policies") or ()), *(job["spec"].get("policies") or ())):
            if "PodPending" in (policy.get("event"), *(policy.get("events") or ())):
                seconds = float(str(policy.get("timeout", "0s")).removesuffix("s").replace("m0", "") or 0)

                def check(policy: Json = policy) -> None:
                    now = self.store.find("vcjobs", job["metadata"]["namespace"], job["metadata"]["name"])
                    same = self.store.find("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
                    if now is None or same is None or same["metadata"]["uid"] != pod["metadata"]["uid"]:
                        return
                    if phase_of(same) == "Pending" and _phase(now) not in ENDS:
                        self._act(now, known, same, policy["action"])

                self.cluster.later(seconds * self.cluster.pace.second_of_deadline, check)

    # Policies

    def _policy(self, job: Json, known: Known, pod: Json, event: str) -> bool:
        """Do what the job's policies say of an event; returns whether they said anything."""
        task = next(each for each in job["spec"]["tasks"] if each["name"] == _task(pod))
        codes = set(exit_codes(pod).values())
        for policy in (*(task.get("policies") or ()), *(job["spec"].get("policies") or ())):
            events = (policy.get("event"), *(policy.get("events") or ()))
            by_code = policy.get("exitCode") and policy["exitCode"] in codes and event == "PodFailed"
            if by_code or event in events or "*" in events:
                return self._act(job, known, pod, policy["action"])
        return False

    def _completed_task(self, job: Json, known: Known) -> bool:
        for task in job["spec"]["tasks"]:
            pods = [pod for pod in self.pods(job) if _task(pod) == task["name"]]
            done = len(pods) == task["replicas"] and all(phase_of(pod) == "Succeeded" for pod in pods)
            if done and (task["name"], "TaskCompleted") not in known.handled:
                known.handled.add((task["name"], "TaskCompleted"))
                if self._policy(job, known, pods[0], "TaskCompleted"):
                    return True
        return False

    def _act(self, job: Json, known: Known, pod: Json, action: str) -> bool:
        self.cluster.event("vcjobs", job, "ExecuteAction", f"Start to execute action {action}", origin="vc-controller")
        if action in ACTIONS:
            self._set(job, ACTIONS[action])
            return True
        if not action.startswith("Restart"):
            return False
        retries = job["status"].get("retryCount", 0) + 1
        if retries >= job["spec"]["maxRetry"]:
            self._end_running(job, known)
            self._set(job, "Failed", retryCount=retries)
            return True
        if action == "RestartJob":
            doomed = self.pods(job)
        elif action == "RestartTask":
            known.attempts[_task(pod)] = known.attempts.get(_task(pod), 0) + 1
            doomed = [each for each in self.pods(job) if _task(each) == _task(pod)]
        else:
            doomed = [pod]
        version = job["status"].get("version", 0) + (action == "RestartJob")
        known.deleted.update(each["metadata"]["uid"] for each in doomed)
        self._set(job, "Restarting", retryCount=retries, version=version)
        for each in doomed:
            self.delete_pod(each)
        return True

    def _restart(self, job: Json, known: Known) -> None:
        if not any(pod["metadata"]["uid"] in known.deleted for pod in self.pods(job)):
            self._set(job, "Pending")

    def _leave(self, job: Json, known: Known, end: str) -> None:
        self._end_running(job, known)
        if all(is_over(pod) for pod in self.pods(job)):
            self._set(job, end)

    def _end_running(self, job: Json, known: Known) -> None:
        for pod in self.pods(job):
            if not is_over(pod):
                known.deleted.add(pod["metadata"]["uid"])
                self.delete_pod(pod)

    # The status

    def _count(self, job: Json) -> None:
        tasks: Json = {}
        counts = dict.fromkeys(("pending", "running", "succeeded", "failed", "terminating"), 0)
        for pod in self.pods(job):
            terminating = "deletionTimestamp" in pod["metadata"]
            phase = "Unknown" if terminating else phase_of(pod)
            told = tasks.setdefault(_task(pod), {"phase": {}})["phase"]
            told[phase] = told.get(phase, 0) + 1
            counts["terminating" if terminating else phase.lower()] += 1
        total = sum(task["replicas"] for task in job["spec"]["tasks"])
        least = job["spec"]["minAvailable"]
        phase = _phase(job)
        if counts["running"] + counts["succeeded"] + counts["failed"] >= least:
            phase = "Running"
        if counts["succeeded"] + counts["failed"] >= total and _phase(job) == "Running":
            phase = "Completed" if counts["succeeded"] >= least and _each_has_enough(job, tasks) else "Failed"
        self._set(job, phase, taskStatusCount=tasks, **{key: value or None for key, value in counts.items()})

    def _set(self, job: Json, phase: str, **more: object) -> None:
        def change(obj: Json) -> None:
            status = obj.setdefault("status", {})
            before = status.get("state", {}).get("phase")
            if before != phase:
                status["state"] = {"phase": phase, "lastTransitionTime": stamp()}
                status.setdefault("conditions", []).append({"status": phase, "lastTransitionTime": stamp()})
            for key, value in more.items():
                if value is None:
                    status.pop(key, None)
                else:
                    status[key] = value
            if phase in ENDS:
                status["runningDuration"] = "1.0s"
                status["version"] = status.get("version", 0) + (before not in ENDS)

        self.cluster.change("vcjobs", job, change)

    def _wipe_later(self, job: Json, known: Known) -> None:
        """Take away what a finished job has told of its pods: 0.1 s after its end Volcano does so."""
        if known.wiping:
            return
        known.wiping = True

        def wipe() -> None:
            def change(obj: Json) -> None:
                for key in ("taskStatusCount", "succeeded", "failed", "running", "pending", "terminating"):
                    obj["status"].pop(key, None)

            self.cluster.change("vcjobs", job, change)
            group = self.store.find("podgroups", job["metadata"]["namespace"], _group(job))
            if group is not None:
                self.store.remove("podgroups", group)
            remove_service(self.cluster, job)

        self.cluster.later(self.cluster.pace.wipe, wipe)
        if (seconds := job["spec"].get("ttlSecondsAfterFinished")) is not None:
            self.cluster.later(
                seconds * self.cluster.pace.second_of_deadline, lambda: self.cluster.owners.delete("vcjobs", job)
            )

    # Commands

    def _on_command(self, change: Change) -> None:
        if change.kind == "commands" and change.before is None:
            if self.held is not None:
                self.held.append(change.obj)
            else:
                self.cluster.later(self.cluster.pace.reconcile, lambda: self.read_command(change.obj))

    def read_command(self, command: Json) -> None:
        self.store.remove("commands", command)
        target = command.get("target") or command["metadata"].get("ownerReferences", [{}])[0]
        job = self.store.find("vcjobs", command["metadata"]["namespace"], target.get("name", ""))
        if job is None or job["metadata"]["uid"] != target.get("uid"):
            return
        action = command.get("action", "")
        if self.loses:
            self.loses -= self.loses > 0
            return
        self.cluster.event("vcjobs", job, "CommandIssued", f"Start to execute command {action}, and clean it up to "
                           "make sure executed not more than once.", origin="vc-controller")  # fmt: skip
        if action in ACTIONS and _phase(job) not in (*ENDS, *LEAVING, "Restarting"):
            self._set(job, ACTIONS[action])


def _phase(job: Json) -> str:
    return str(job.get("status", {}).get("state", {}).get("phase", ""))


def _each_has_enough(job: Json, told: Json) -> bool:
    """Tell whether of each task as many pods have succeeded as it needs; a job that needs fewer does not look."""
    needed = {task["name"]: task["minAvailable"] for task in job["spec"]["tasks"]}
    if job["spec"]["minAvailable"] < sum(needed.values()):
        return True
    return all(told[name]["phase"].get("Succeeded", 0) >= least for name, least in needed.items() if name in told)


def _group(job: Json) -> str:
    return f"{job['metadata']['name']}-{job['metadata']['uid']}"


def _task(pod: Json) -> str:
    return str(pod["metadata"]["labels"]["volcano.sh/task-spec"])


def _events(pod: Json) -> list[str]:
    if phase_of(pod) == "Failed":
        return ["PodFailed"]
    return ["PodRunning"] if phase_of(pod) == "Running" else []


def _labels(job: Json, task: Json, index: int) -> Json:
    return {
        "volcano.sh/job-name": job["metadata"]["name"],
        "volcano.sh/job-namespace": job["metadata"]["namespace"],
        "volcano.sh/queue-name": job["spec"]["queue"],
        "volcano.sh/task-index": str(index),
        "volcano.sh/task-spec": task["name"],
    }


def _template(job: Json, task: Json, index: int) -> Json:
    template: Json = copy.deepcopy(task["template"])
    spec = template["spec"]
    spec["schedulerName"] = job["spec"]["schedulerName"]
    if job["spec"].get("priorityClassName"):
        spec.setdefault("priorityClassName", job["spec"]["priorityClassName"])
    plugins = job["spec"].get("plugins") or {}
    if "svc" in plugins:
        spec["hostname"] = f"{job['metadata']['name']}-{task['name']}-{index}"
        spec["subdomain"] = job["metadata"]["name"]
    add_environment(job, spec, index, plugins)
    return template
