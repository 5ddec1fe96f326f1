"""The run options of ``kubernetes``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from asyncsched._typing import Doc

__all__ = ["KubernetesOpts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOpts:
    """How an app runs on Kubernetes; only `queue` is required, and by Volcano only."""

    namespace: Annotated[str, Doc("namespace to submit the app in")] = "default"
    queue: Annotated[str | None, Doc("queue: Volcano's, which it requires, or on kind=job the LocalQueue of Kueue")] = (
        None
    )
    service_account: Annotated[str | None, Doc("service account that the pods act as; else the namespace's own")] = None
    priority_class: Annotated[str | None, Doc("priority class of the pods")] = None

    kind: Annotated[
        Literal["auto", "volcano", "job"],
        Doc("what runs the pods: a Volcano job, or Indexed Jobs; auto takes Volcano where it is installed"),
    ] = "auto"
    on_failure: Annotated[
        Literal["continue", "stop"], Doc("what the other replicas do when one has failed for good: run on, or be ended")
    ] = "continue"
    timeout: Annotated[
        float | None, Doc("seconds that a run of a replica may take, rounded up to whole ones; over it it has failed")
    ] = None
    pending_timeout: Annotated[
        float | None, Doc("seconds that the app may wait until it first runs; over it it is ended and has failed")
    ] = None
    min_available: Annotated[
        int | None, Doc("how many pods Volcano starts together at least; else min_replicas of the roles, or all")
    ] = None
    ttl: Annotated[
        int | None, Doc("seconds after its end when Kubernetes removes the app with its logs; none keeps it")
    ] = None
    grace_period: Annotated[
        float | None, Doc("seconds between TERM and KILL when a pod is ended, rounded up; else 30, Kubernetes' own")
    ] = None

    labels: Annotated[dict[str, str] | None, Doc("labels of the job and its pods")] = None
    annotations: Annotated[dict[str, str] | None, Doc("annotations of the job and its pods")] = None
    image_pull_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"] | None,
        Doc("when nodes pull the image; else Kubernetes decides by its tag"),
    ] = None
    image_repo: Annotated[
        str | None, Doc("repository that a workspace's image, or one named by its id, is pushed to")
    ] = None
    quiet: Annotated[bool, Doc("show no progress while an image is built and pushed")] = False
    platform: Annotated[
        str | None, Doc("what images must be for, such as linux/arm64: built and checked; else the daemon's own")
    ] = None
    image_secret: Annotated[str | None, Doc("secret with the credentials that images are pulled with")] = None
    node_selector: Annotated[dict[str, str] | None, Doc("labels that a node must have")] = None
    tolerations: Annotated[
        list[str] | None, Doc("taints of nodes that are no obstacle, as key, key:effect or key=value:effect")
    ] = None
    overlay: Annotated[
        str | None,
        Doc("""fields to merge into the pods, as JSON: {"spec": ...}, or for each role {"*": ..., "trainer": ...}"""),
    ] = None

    reserved_millicpu: Annotated[
        int, Doc("thousandths of a CPU that a pod requests less than its limit, as nodes reserve some")
    ] = 100
    reserved_memmb: Annotated[
        int, Doc("MB of memory that a pod requests less than its limit, as nodes reserve some")
    ] = 1024
    validate_spec: Annotated[
        bool, Doc("let the server check a dry-run, with its admission webhooks, which stores nothing")
    ] = False
