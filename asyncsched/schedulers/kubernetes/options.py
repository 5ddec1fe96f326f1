"""The run options of ``kubernetes``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from asyncsched._typing import Doc

__all__ = ["KubernetesOpts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOpts:
    """The run options of Kubernetes; only `queue` is required, and only with Volcano."""

    namespace: Annotated[str, Doc("namespace to submit the app in")] = "default"
    queue: Annotated[str | None, Doc("queue of Volcano (required there), or with kind=job the LocalQueue of Kueue")] = (
        None
    )
    service_account: Annotated[
        str | None, Doc("service account of the pods; default: the namespace's default account")
    ] = None
    priority_class: Annotated[str | None, Doc("priority class of the pods")] = None

    kind: Annotated[
        Literal["auto", "volcano", "job"],
        Doc("what runs the pods: a Volcano job or Indexed Jobs; auto uses Volcano if it is installed"),
    ] = "auto"
    on_failure: Annotated[
        Literal["continue", "stop"],
        Doc("whether the other replicas continue or stop once a replica has finally failed"),
    ] = "continue"
    timeout: Annotated[
        float | None, Doc("seconds after which a run of a replica fails, rounded up to whole seconds")
    ] = None
    pending_timeout: Annotated[
        float | None, Doc("seconds after which the app is ended as FAILED if it has not started to run")
    ] = None
    min_available: Annotated[
        int | None, Doc("fewest pods that Volcano starts together; default: min_replicas of the roles, or all")
    ] = None
    ttl: Annotated[
        int | None, Doc("seconds after its end until Kubernetes deletes the app with its logs; default: never")
    ] = None
    grace_period: Annotated[
        float | None, Doc("seconds between TERM and KILL when a pod is ended, rounded up; default of Kubernetes: 30")
    ] = None

    labels: Annotated[dict[str, str] | None, Doc("labels of the job and its pods")] = None
    annotations: Annotated[dict[str, str] | None, Doc("annotations of the job and its pods")] = None
    image_pull_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"] | None,
        Doc("when nodes pull the image; default: Kubernetes decides by its tag"),
    ] = None
    image_repo: Annotated[str | None, Doc("repository to push a workspace's image to, or an image named by its id")] = (
        None
    )
    quiet: Annotated[bool, Doc("show no progress while an image is built and pushed")] = False
    platform: Annotated[
        str | None, Doc("platform to build and check images for, such as linux/arm64; default: the daemon's")
    ] = None
    image_secret: Annotated[str | None, Doc("secret with the credentials for pulling images")] = None
    node_selector: Annotated[dict[str, str] | None, Doc("labels that a node must have")] = None
    tolerations: Annotated[
        list[str] | None, Doc("taints of nodes to tolerate, as key, key:effect or key=value:effect")
    ] = None
    overlay: Annotated[
        str | None,
        Doc("""fields to merge into the pods, as JSON: {"spec": ...}, or by role {"*": ..., "trainer": ...}"""),
    ] = None

    reserved_millicpu: Annotated[
        int, Doc("thousandths of a CPU to subtract from a pod's limit for its request, because nodes reserve some")
    ] = 100
    reserved_memmb: Annotated[
        int, Doc("MB of memory to subtract from a pod's limit for its request, because nodes reserve some")
    ] = 1024
    validate_spec: Annotated[
        bool, Doc("have the server and its admission webhooks check a dry-run; nothing is stored")
    ] = False
