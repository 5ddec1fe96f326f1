"""The signatures of the pages, and whether ours take every call that is written for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

__all__ = ["OF_METHODS", "SIGNATURES", "Signature", "disagreements", "documented", "owner"]


class Signature(NamedTuple):
    """A signature of a page.

    Attributes:
        page: The page.
        name: Where it stands with us, as ``module:name``.
        parameters: Its parameters, as Python writes them; that of an instance is left out.
        backend: The scheduler that it belongs to.
    """

    page: str
    name: str
    parameters: str
    backend: str = ""


FACTORY = type("FACTORY", (), {"__repr__": lambda _: "a new one for each call"})()
"""Stands for a default that is made anew for each call."""

LOG_ITER = "(app_id, role_name, k=0, regex=None, since=None, until=None, should_tail=False, streams=None)"

OF_METHODS = {
    "submit": "(app, cfg, workspace=None)",
    "submit_dryrun": "(app, cfg)",
    "schedule": "(dryrun_info)",
    "run_opts": "()",
    "describe": "(app_id)",
    "list": "()",
    "exists": "(app_id)",
    "cancel": "(app_id)",
    "close": "()",
    "log_iter": LOG_ITER,
}
"""The methods of a scheduler, awaiting and blocking."""

_SPECS = "asyncsched.specs:"
_API = "asyncsched.schedulers:"
_LOCAL = "asyncsched.schedulers.local:"
_DOCKER = "asyncsched.schedulers.docker:"
_AWS = "asyncsched.schedulers.aws_batch:"
_GCP = "asyncsched.schedulers.gcp_batch:"
_KUBERNETES = "asyncsched.schedulers.kubernetes:"

SIGNATURES = [
    Signature("scheduler", f"{_API}Scheduler", "(backend, session_name)"),
    Signature("scheduler", f"{_API}get_scheduler_factories", "()"),
    Signature("scheduler", f"{_API}get_default_scheduler_name", "()"),
    Signature("scheduler", "asyncsched.sync:get_scheduler_factories", "()"),
    Signature("scheduler", "asyncsched.sync:get_default_scheduler_name", "()"),
    Signature(
        "scheduler",
        f"{_API}DescribeAppResponse",
        "(app_id='<NOT_SET>', state=AppState.UNSUBMITTED, num_restarts=-1, msg='<NONE>',"
        " structured_error_msg='<NONE>', ui_url=None, roles_statuses=FACTORY, roles=FACTORY)",
    ),
    Signature("scheduler", f"{_API}ListAppResponse", "(app_id, state, app_handle='<NOT_SET>')"),
    *(
        Signature("scheduler", f"{module}{name}", parameters)
        for module in (_API, "asyncsched.schedulers.api:")
        for name, parameters in (
            ("filter_regex", "(regex, data)"),
            ("split_lines", "(text)"),
            ("split_lines_iterator", "(chunks)"),
        )
    ),
    Signature("scheduler", f"{_SPECS}AppDef", "(name, roles=FACTORY, metadata=FACTORY)"),
    Signature("scheduler", f"{_SPECS}AppDryRunInfo", "(request, fmt)"),
    Signature(
        "scheduler",
        f"{_SPECS}Role",
        "(name, image, min_replicas=None, base_image=None, entrypoint='<MISSING>', args=FACTORY, env=FACTORY,"
        " num_replicas=1, max_retries=0, retry_policy=RetryPolicy.APPLICATION, resource=FACTORY, port_map=FACTORY,"
        " metadata=FACTORY, mounts=FACTORY)",
    ),
    Signature("scheduler", f"{_SPECS}Resource", "(cpu, gpu, memMB, capabilities=FACTORY, devices=FACTORY)"),
    Signature("scheduler", f"{_SPECS}BindMount", "(src_path, dst_path, read_only=False)"),
    Signature("scheduler", f"{_SPECS}VolumeMount", "(src, dst_path, read_only=False)"),
    Signature("scheduler", f"{_SPECS}DeviceMount", "(src_path, dst_path, permissions='rwm')"),
    Signature("scheduler", f"{_SPECS}parse_mounts", "(opts)"),
    Signature("scheduler", f"{_SPECS}RoleStatus", "(role, replicas)"),
    Signature("scheduler", f"{_SPECS}ReplicaStatus", "(id, state, role, hostname, structured_error_msg='<NONE>')"),
    Signature(
        "scheduler",
        f"{_SPECS}AppStatus",
        "(state, num_restarts=0, msg='', structured_error_msg='<NONE>', ui_url=None, roles=FACTORY)",
    ),
    Signature("scheduler", f"{_SPECS}make_app_handle", "(scheduler_backend, session_name, app_id)"),
    Signature("scheduler", f"{_SPECS}parse_app_handle", "(app_handle)"),
    Signature("scheduler", f"{_SPECS}runopts", "()"),
    Signature("scheduler", f"{_SPECS}runopts.add", "(cfg_key, type_, help, default=None, required=False)"),
    Signature("scheduler", f"{_SPECS}runopts.get", "(name)"),
    Signature("scheduler", f"{_SPECS}runopts.resolve", "(cfg)"),
    Signature("scheduler", f"{_SPECS}runopts.cfg_from_str", "(cfg_str)"),
    Signature("scheduler", f"{_SPECS}runopts.update", "(other)"),
    Signature("scheduler", f"{_SPECS}runopt", "(default, opt_type, is_required, help)"),
    Signature(
        "local",
        f"{_LOCAL}LocalScheduler",
        "(session_name, image_provider_class, cache_size=100, extra_paths=None)",
        "local_cwd",
    ),
    Signature(
        "local",
        f"{_LOCAL}create_scheduler",
        "(session_name, cache_size=100, extra_paths=None, image_provider_class=CWDImageProvider, **kwargs)",
        "local_cwd",
    ),
    Signature(
        "local",
        f"{_LOCAL}ReplicaParam",
        "(args, env, stdout=None, stderr=None, combined=None, cwd=None)",
        "local_cwd",
    ),
    Signature("local", f"{_LOCAL}PopenRequest", "(app_id, log_dir, role_params, role_log_dirs)", "local_cwd"),
    Signature("local", f"{_LOCAL}ImageProvider.fetch_role", "(role)", "local_cwd"),
    Signature("local", f"{_LOCAL}ImageProvider.fetch", "(image)", "local_cwd"),
    Signature(
        "local",
        f"{_LOCAL}ImageProvider.get_replica_param",
        "(img_root, role, stdout=None, stderr=None, combined=None)",
        "local_cwd",
    ),
    Signature("local", f"{_LOCAL}ImageProvider.get_cwd", "(image)", "local_cwd"),
    Signature("local", f"{_LOCAL}ImageProvider.get_entrypoint", "(img_root, role)", "local_cwd"),
    Signature("docker", f"{_DOCKER}DockerScheduler", "(session_name)", "local_docker"),
    Signature("docker", f"{_DOCKER}create_scheduler", "(session_name, **kwargs)", "local_docker"),
    Signature("docker", f"{_DOCKER}DockerJob", "(app_id, containers)", "local_docker"),
    Signature("docker", f"{_DOCKER}DockerContainer", "(image, command, kwargs)", "local_docker"),
    Signature(
        "aws_batch",
        f"{_AWS}AWSBatchScheduler",
        "(session_name, client=None, log_client=None, docker_client=None)",
        "aws_batch",
    ),
    Signature(
        "aws_batch",
        f"{_AWS}create_scheduler",
        "(session_name, client=None, log_client=None, docker_client=None, **kwargs)",
        "aws_batch",
    ),
    Signature("aws_batch", f"{_AWS}BatchJob", "(name, queue, share_id, job_def, images_to_push)", "aws_batch"),
    Signature("gcp_batch", f"{_GCP}GCPBatchScheduler", "(session_name, client=None)", "gcp_batch"),
    Signature("gcp_batch", f"{_GCP}create_scheduler", "(session_name, client=None, **kwargs)", "gcp_batch"),
    Signature("gcp_batch", f"{_GCP}GCPBatchJob", "(name, project, location, job_def)", "gcp_batch"),
    Signature(
        "kubernetes",
        f"{_KUBERNETES}KubernetesScheduler",
        "(session_name, client=None, docker_client=None)",
        "kubernetes",
    ),
    Signature(
        "kubernetes",
        f"{_KUBERNETES}create_scheduler",
        "(session_name, client=None, docker_client=None, **kwargs)",
        "kubernetes",
    ),
    Signature("kubernetes", f"{_KUBERNETES}KubernetesJob", "(images_to_push, resource)", "kubernetes"),
]

_BY_POSITION_TOO = {("submit_dryrun", "workspace")}
"""What is ours and not given by name alone: it is where `submit` of the documents has it."""

_OTHER_DEFAULTS = {"Scheduler.log_iter": {"k": None}}
"""A tail of all replicas is what the awaiting form is for; the blocking one has the documents' default."""


def owner(name: str) -> tuple[str, str, str]:
    """Split ``module:Class.method`` into module, class and method; without a class, it is empty."""
    module, _, path = name.partition(":")
    first, _, last = path.rpartition(".")
    return module, first, last


def documented(parameters: str) -> inspect.Signature:
    """Return the signature that is written here."""
    from asyncsched.schedulers.local import CWDImageProvider
    from asyncsched.specs import AppState, RetryPolicy

    known = {"AppState": AppState, "RetryPolicy": RetryPolicy, "CWDImageProvider": CWDImageProvider, "FACTORY": FACTORY}
    return inspect.signature(eval(f"lambda {parameters[1:-1]}: None", known))  # the table's own text


def disagreements(name: str, ours: Callable[..., Any], theirs: inspect.Signature) -> Iterator[str]:
    """Yield what a call that is written for the documents' signature would meet with ours."""
    mine = [each for each in inspect.signature(ours).parameters.values() if each.name != "self"]
    wanted = [each for each in theirs.parameters.values() if each.kind is not each.VAR_KEYWORD]
    other = _OTHER_DEFAULTS.get(name, {})
    for position, parameter in enumerate(wanted):
        found = mine[position] if position < len(mine) else None
        if found is None or found.name != parameter.name or found.kind is not found.POSITIONAL_OR_KEYWORD:
            yield f"{name}: parameter {position} is {found}, and not {parameter.name}"
            continue
        default = other.get(parameter.name, parameter.default)
        if parameter.default is not parameter.empty and not _is_same(found.default, default):
            yield f"{name}: the default of {parameter.name} is {found.default!r}, and not {default!r}"
    for extra in mine[len(wanted) :]:
        is_ours = extra.kind is extra.VAR_KEYWORD or (
            extra.default is not extra.empty
            and (extra.kind is extra.KEYWORD_ONLY or (name.rpartition(".")[2], extra.name) in _BY_POSITION_TOO)
        )
        if not is_ours:
            yield f"{name}: {extra} has to be given"


def _is_same(found: object, wanted: object) -> bool:
    if wanted is FACTORY:
        return "factory" in repr(found)
    return type(found) is type(wanted) and found == wanted
