"""Find out why a pod or an app has failed or waits, from evidence in a fixed order, with a table for each kind.

The status of the container or the pod comes first, then its disruption, then its PodGroup, then events about this
object. Events are used only while the problem lasts, because events of past problems stay for an hour. `Killing` and
`FailedScheduling` are never used: healthy pods have them too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from asyncsched._typing import NamedTuple
from asyncsched.schedulers._common import exit_codes
from asyncsched.schedulers._common.exit_codes import BY_SIGNAL, SIGKILL, SIGTERM, signal_name
from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.status_jobs import EventRecord, JobRecord, PodGroupRecord
from asyncsched.schedulers.kubernetes.status_pods import ContainerRecord, PodRecord
from asyncsched.specs.state import FailureCause

__all__ = ["NOTHING", "Reason", "ending_of", "signal_of", "why_failed", "why_job_waits", "why_refused", "why_waiting"]

_KILLED = (BY_SIGNAL + SIGTERM, BY_SIGNAL + SIGKILL)


class Reason(NamedTuple):
    """A reason and its cause.

    Attributes:
        text: The reason in words; empty if there is none.
        cause: The kind of cause; None if nothing is wrong.
    """

    text: str = ""
    cause: FailureCause | None = None


NOTHING = Reason()

POD_REASONS: Mapping[str, FailureCause] = {
    "DeadlineExceeded": FailureCause.TIMEOUT,
    "Evicted": FailureCause.NODE,
    "NodeAffinity": FailureCause.NODE,
    "NodeLost": FailureCause.NODE,
    "NodeShutdown": FailureCause.NODE,
    "OutOfcpu": FailureCause.NODE,
    "OutOfephemeral-storage": FailureCause.NODE,
    "OutOfmemory": FailureCause.NODE,
    "OutOfpods": FailureCause.NODE,
    "Preempting": FailureCause.PREEMPTED,
    "Preempted": FailureCause.PREEMPTED,
    "Shutdown": FailureCause.NODE,
    "Terminated": FailureCause.NODE,
    "UnexpectedAdmissionError": FailureCause.NODE,
}
"""Causes by the reason in a failed pod's status."""

DISRUPTIONS: Mapping[str, FailureCause] = {
    "DeletionByPodGC": FailureCause.NODE,
    "DeletionByTaintManager": FailureCause.NODE,
    "EvictionByEvictionAPI": FailureCause.PREEMPTED,
    "PreemptionByScheduler": FailureCause.PREEMPTED,
    "TerminationByKubelet": FailureCause.NODE,
}
"""Causes by the reason of the condition DisruptionTarget."""

NOT_STARTED: Mapping[str, FailureCause] = {
    "ConfigError": FailureCause.CONFIG,
    "ContainerCannotRun": FailureCause.CONFIG,
    "CreateContainerConfigError": FailureCause.CONFIG,
    "CreateContainerError": FailureCause.CONFIG,
    "ErrImageNeverPull": FailureCause.IMAGE,
    "ErrImagePull": FailureCause.IMAGE,
    "ImageInspectError": FailureCause.IMAGE,
    "ImagePullBackOff": FailureCause.IMAGE,
    "InvalidImageName": FailureCause.IMAGE,
    "PostStartHookError": FailureCause.CONFIG,
    "RegistryUnavailable": FailureCause.IMAGE,
    "RunContainerError": FailureCause.CONFIG,
    "SignatureValidationFailed": FailureCause.IMAGE,
    "StartError": FailureCause.CONFIG,
}
"""Causes by the reason of a container that does not start."""

POD_EVENTS: Mapping[str, FailureCause | None] = {
    "FailedAttachVolume": FailureCause.CONFIG,
    "FailedCreatePodSandBox": FailureCause.NODE,
    "FailedMapVolume": FailureCause.CONFIG,
    "FailedMount": FailureCause.CONFIG,
    "NotTriggerScaleUp": FailureCause.UNSCHEDULABLE,
    "TriggeredScaleUp": None,
}
"""Causes by the reason of an event; these events explain what a pod waits for."""

_NO_PROGRAM = ("executable file not found", "no such file or directory", "exec format error")
_GANG_ONLY = re.compile(r"^(\d+/\d+ tasks in gang unschedulable: )?pod group is not ready")
"""Volcano's message for every new job and its pods."""
_STATUS_MESSAGE = re.compile(r'Message:"((?:[^"\\]|\\.)*)"')
_UNHELPFUL = re.compile(r"\. not found$")
"""The scheduler's suffix for a reason that preemption cannot solve: 'claim "data" not found. not found'."""
_PASSING = re.compile(r"failed to sync (configmap|secret) cache|not registered")
_QUOTA = re.compile(r"exceeded quota|queue resource quota insufficient", re.IGNORECASE)


# Failures


def why_failed(pod: PodRecord) -> Reason:
    """Return why a pod failed, according to its status."""
    container = pod.container
    ended = container is not None and container.phase == "terminated"
    if container is not None and ended and container.reason == "OOMKilled":
        return Reason(ending_of(container), FailureCause.OOM)
    by_itself = container is not None and ended and container.exit_code not in (None, *_KILLED)
    if container is not None and by_itself and container.reason not in NOT_STARTED:
        return Reason(ending_of(container), _cause_of_code(container))
    for reason in (_of_pod(pod), _of_disruption(pod), _of_init(pod)):
        if reason is not NOTHING:
            return reason
    if container is None or not ended:
        return Reason(": ".join(part for part in (pod.reason, pod.message) if part), FailureCause.UNKNOWN)
    if container.reason in NOT_STARTED:
        return _not_started(container)
    if container.reason == "ContainerStatusUnknown":
        return Reason("its node did not report how it ended", FailureCause.NODE)
    return Reason(ending_of(container), _cause_of_code(container))


def _of_pod(pod: PodRecord) -> Reason:
    if pod.reason not in POD_REASONS:
        return NOTHING
    return Reason(_joined(pod.reason, pod.message), POD_REASONS[pod.reason])


def _of_disruption(pod: PodRecord) -> Reason:
    if pod.disrupted is None:
        return NOTHING
    reason, message = pod.disrupted
    return Reason(_joined(reason or "disrupted", message), DISRUPTIONS.get(reason, FailureCause.NODE))


def _of_init(pod: PodRecord) -> Reason:
    init = pod.init
    if init is None:
        return NOTHING
    if init.phase == "waiting" and init.reason in NOT_STARTED:
        return _in_init(init, _not_started(init))
    run = init if init.phase == "terminated" else None
    ending = ending_of(run) if run is not None else init.reason or "it is not ready"
    cause = _cause_of_code(run) if run is not None else FailureCause.EXIT
    return _in_init(init, Reason(_joined(ending, init.message.strip()), cause))


def _in_init(init: ContainerRecord, reason: Reason) -> Reason:
    return Reason(f"init container {init.name}: {reason.text}", reason.cause)


def _not_started(container: ContainerRecord) -> Reason:
    no_program = any(phrase in container.message for phrase in _NO_PROGRAM)
    cause = FailureCause.IMAGE if no_program else NOT_STARTED[container.reason]
    _, pull, failed = container.message.partition("ErrImagePull: ")
    if container.reason == "ImagePullBackOff" and pull:
        return Reason(f"{pull}{failed}", cause)  # the same text as between two tries
    return Reason(_joined(container.reason, container.message), cause)


def ending_of(container: ContainerRecord) -> str:
    """Return how a container ended, in words."""
    code = container.exit_code
    if container.reason == "OOMKilled":
        return f"out of memory: killed, exit code {code}"
    number = signal_of(container)
    if number is None:
        return f"exit code {code}"
    return f"killed by {signal_name(number)}, exit code {code}"


def signal_of(container: ContainerRecord | None) -> int | None:
    """Return the number of the signal that ended a container, as reported by the runtime or by its exit code."""
    if container is None or container.phase != "terminated":
        return None
    return container.signal or exit_codes.signal_of(container.exit_code)


def _cause_of_code(container: ContainerRecord) -> FailureCause:
    if container.reason == "OOMKilled":
        return FailureCause.OOM
    if container.exit_code is None:
        return FailureCause.UNKNOWN
    return FailureCause.EXIT if signal_of(container) is None else FailureCause.SIGNAL


# Waits


def why_waiting(pod: PodRecord, events: Iterable[EventRecord] = ()) -> Reason:
    """Return why a pod does not start or restart.

    Args:
        pod: The pod.
        events: Events; those of other objects are ignored.
    """
    if pod.deleted_at is None and (init := _of_init(pod)) is not NOTHING:
        return init
    container = pod.container
    if container is not None and container.phase == "waiting":
        if container.reason in NOT_STARTED:
            return _not_started(container)
        if container.reason == "CrashLoopBackOff":
            last = f" after {ending_of(pod.last)}" if pod.last is not None else ""
            return Reason(f"waiting to restart{last}", _cause_of_code(pod.last) if pod.last else None)
    if pod.disrupted is not None:
        return _of_disruption(pod)
    said = _newest(events, pod.uid, POD_EVENTS)
    if not pod.scheduled:
        return _unscheduled(pod, said)
    return Reason(_joined(said.reason, said.message), POD_EVENTS[said.reason]) if _is_of_node(said) else NOTHING


def _unscheduled(pod: PodRecord, said: EventRecord) -> Reason:
    reason, message = pod.unscheduled
    if reason == "SchedulingGated":
        return Reason(_joined("held back by a scheduling gate", message), None)
    if said.reason == "TriggeredScaleUp":
        return Reason(_joined("waiting for a new node", said.message), None)
    if reason != "Unschedulable" or _GANG_ONLY.match(message):
        return NOTHING
    message = _UNHELPFUL.sub("", message)
    more = said.message if said.reason == "NotTriggerScaleUp" else ""
    return Reason(_joined(message or "no node fits", more), FailureCause.UNSCHEDULABLE)


def _is_of_node(event: EventRecord) -> bool:
    """Return whether an event explains why a pod does not start on its node, other than for a moment."""
    if _PASSING.search(event.message):
        return False
    return POD_EVENTS.get(event.reason) in (FailureCause.CONFIG, FailureCause.NODE)


def why_job_waits(
    job: JobRecord, pods: int, pod_group: PodGroupRecord | None = None, events: Iterable[EventRecord] = ()
) -> Reason:
    """Return why a job lacks pods.

    Args:
        job: The job.
        pods: How many of its pods exist.
        pod_group: Its PodGroup, if it was read.
        events: Events; those of other objects are ignored.
    """
    known = list(events)
    if (refused := why_refused(job, pods, known)) is not NOTHING:
        return refused
    if job.kind != "volcano" or pods:
        return NOTHING
    about = f"PodGroup {names.pod_group_name(job.name, job.uid)}"
    said = [event for event in known if event.about == about and not _GANG_ONLY.match(event.message)]
    newest = _newest(said, said[0].uid if said else "", ("Unschedulable",))
    for text in (newest.message, *_unfit(pod_group)):
        if text:
            return Reason(text, FailureCause.QUOTA if _QUOTA.search(text) else FailureCause.UNSCHEDULABLE)
    return NOTHING


def why_refused(job: JobRecord, pods: int, events: Iterable[EventRecord]) -> Reason:
    """Return why pods of a job could not be created, according to events."""
    if pods >= sum(replicas for _, replicas in job.tasks):
        return NOTHING
    refused = _newest(events, job.uid, ("FailedCreate", "FailedCreatePod", "PodGroupError", "PluginError"))
    return _refused(refused.message) if refused.reason else NOTHING


def _unfit(pod_group: PodGroupRecord | None) -> list[str]:
    """Return what a PodGroup waits for; an incomplete gang alone is not a reason."""
    conditions = pod_group.conditions if pod_group is not None else ()
    return [each.message for each in conditions if each.type == "Unschedulable" and not _GANG_ONLY.match(each.message)]


def _refused(message: str) -> Reason:
    """Return why pods are refused; Volcano prints the error as a Go value."""
    found = _STATUS_MESSAGE.search(message)
    text = re.sub(r"\\(.)", r"\1", found[1]) if found else message.removeprefix("Error creating: ")
    return Reason(f"its pods are refused: {text}", FailureCause.QUOTA if _QUOTA.search(text) else FailureCause.CONFIG)


def _newest(events: Iterable[EventRecord], uid: str, reasons: Iterable[str]) -> EventRecord:
    """Return the newest event of an object with one of these reasons, else an empty event."""
    wanted = frozenset(reasons)
    own = [event for event in events if event.uid == uid and event.reason in wanted]
    return max(own, key=_seen_at, default=EventRecord(uid=uid))


def _seen_at(event: EventRecord) -> float:
    return event.seen_at.timestamp() if event.seen_at is not None else 0.0


def _joined(*parts: str) -> str:
    return ": ".join(part for part in parts if part)
