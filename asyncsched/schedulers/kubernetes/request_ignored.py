"""List the settings of an app that a kind of job, or the server, does not honour; every dry-run shows them."""

from __future__ import annotations

from collections.abc import Iterator

from asyncsched.schedulers.ignored import kept_by_submitter
from asyncsched.schedulers.kubernetes.options import KubernetesOpts
from asyncsched.schedulers.kubernetes.request_job import PER_INDEX_SINCE
from asyncsched.schedulers.kubernetes.request_volcano import job_retries
from asyncsched.schedulers.kubernetes.status_jobs import Kind
from asyncsched.specs.app import AppDef, RetryPolicy, Role
from asyncsched.specs.dryrun import Ignored
from asyncsched.specs.resources_aws import INSTANCE_TYPE

__all__ = ["ignored_by"]


def ignored_by(
    app: AppDef, options: KubernetesOpts, kind: Kind, server: tuple[int, int] | None = None
) -> Iterator[Ignored]:
    """Yield the settings of the roles that have no effect.

    Args:
        app: The app.
        options: The run options.
        kind: What runs the pods.
        server: The server's version, if known.
    """
    for role in app.roles:
        by_kind = _on_volcano(app, role, options) if kind == "volcano" else _on_job(app, role, options, server)
        for field, why in (*_on_both(role, options), *by_kind):
            yield Ignored(role.name, field, why)
    if options.pending_timeout is not None and kind == "job":
        yield from kept_by_submitter(app, "pending_timeout")


def _on_both(role: Role, options: KubernetesOpts) -> Iterator[tuple[str, str]]:
    if unknown := sorted(role.resource.capabilities.keys() - {INSTANCE_TYPE}):
        why = f"nodes are selected by {INSTANCE_TYPE} and the option node_selector, not by {', '.join(unknown)}"
        yield "resource.capabilities", why
    if options.timeout is not None and role.max_retries > 0:
        yield "timeout", "a run that exceeds it fails like any other, and is retried"


def _on_volcano(app: AppDef, role: Role, options: KubernetesOpts) -> Iterator[tuple[str, str]]:
    if options.pending_timeout is not None:
        yield "pending_timeout", "until pods exist, enforced by the submitting process while it lives"
    if role.max_retries == 0:
        return
    replicas = sum(each.num_replicas for each in app.roles)
    if role.retry_policy is RetryPolicy.HOT_SPARE and replicas > 1:
        yield "retry_policy", "Volcano does not support HOT_SPARE: REPLICA is used"
    if (retries := job_retries(app)) < role.max_retries:
        yield "max_retries", f"Volcano counts the restarts of all roles together: at most {retries}"
    elif role.retry_policy is not RetryPolicy.APPLICATION and replicas > 1:
        yield "max_retries", f"Volcano counts the restarts of all replicas together: at most {retries}"
    if options.on_failure == "continue" and replicas > 1:
        yield "on_failure", "with retries the last failure ends all replicas"


def _on_job(
    app: AppDef, role: Role, options: KubernetesOpts, server: tuple[int, int] | None
) -> Iterator[tuple[str, str]]:
    several = len(app.roles) > 1
    replicas = sum(each.num_replicas for each in app.roles)
    if role.max_retries > 0 and role.retry_policy is not RetryPolicy.REPLICA and replicas > 1:
        yield "retry_policy", f"a Job does not support {role.retry_policy}: REPLICA is used"
    if role.min_replicas not in (None, role.num_replicas):
        yield "min_replicas", "a Job starts its pods one by one, without a minimum"
    if options.min_available is not None:
        yield "min_available", "a Job starts its pods one by one, without a minimum"
    if options.on_failure == "stop" and several:
        yield "on_failure", "a failure stops the replicas of the same role only"
    if options.ttl is not None and several:
        yield "ttl", "deleting the first role's Job would delete the others"
    if server is not None and server < PER_INDEX_SINCE:
        yield (
            "max_retries",
            f"Kubernetes {server[0]}.{server[1]} counts the restarts of all replicas of a role together",
        )
