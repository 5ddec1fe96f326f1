"""The table of built-in schedulers, without importing them."""

from __future__ import annotations

__all__ = ["BUILT_IN", "BuiltIn", "with_workspaces"]


class BuiltIn:
    """The facts about a built-in scheduler that are known before its import.

    Attributes:
        module: Its module.
        extra: The extra of asyncsched that it needs, if any.
        package: The module of that extra whose presence shows that the extra is installed.
        begins_ahead: Whether preparations can begin before the first submit.
        parameters: The parameters of its factory that can be set in a configuration file.
        takes: All parameters of its factory except `Tunables`.
        variables: Environment variables that it reads itself, which are not run options.
        takes_workspace: Whether it supports a workspace.
    """

    def __init__(
        self,
        module: str,
        extra: str = "",
        package: str = "",
        *,
        begins_ahead: bool = False,
        parameters: tuple[str, ...] = (),
        takes: tuple[str, ...] = (),
        variables: tuple[str, ...] = (),
        takes_workspace: bool = False,
    ) -> None:
        self.module = module
        self.extra = extra
        self.package = package
        self.begins_ahead = begins_ahead
        self.parameters = parameters
        self.takes = takes
        self.variables = variables
        self.takes_workspace = takes_workspace


_AWS_CLIENTS = ("client", "log_client", "docker_client", "region", "profile", "endpoint_url")
_GCP_ACCOUNT = ("client", "project", "credentials_file", "impersonate", "quota_project", "endpoint_url", "logging_url")
_GCP_LOGS = ("log_interval", "log_idle", "log_hold", "log_overlap", "log_settle", "log_sweep")


BUILT_IN: dict[str, BuiltIn] = {
    "local_cwd": BuiltIn(
        "asyncsched.schedulers.local",
        begins_ahead=True,
        takes_workspace=True,
        takes=("cache_size", "extra_paths", "image_provider_class", "keep_for"),
    ),
    "local_docker": BuiltIn("asyncsched.schedulers.docker", "docker", "aiodocker", takes_workspace=True),
    "kubernetes": BuiltIn(
        "asyncsched.schedulers.kubernetes",
        "kubernetes",
        "kubernetes_asyncio",
        takes_workspace=True,
        parameters=("context", "kubeconfig", "namespaces"),
        takes=("client", "docker_client", "kubeconfig", "context", "namespaces"),
    ),
    "aws_batch": BuiltIn(
        "asyncsched.schedulers.aws_batch",
        "aws",
        "aiobotocore",
        takes_workspace=True,
        takes=(*_AWS_CLIENTS, "limits", "log_interval", "log_settle_polls"),
    ),
    "gcp_batch": BuiltIn(
        "asyncsched.schedulers.gcp_batch",
        "gcp",
        "gcloud.aio.auth",
        takes_workspace=True,
        parameters=("credentials_file", "impersonate", "quota_project"),
        takes=(*_GCP_ACCOUNT, "limits", "reads_per_minute", *_GCP_LOGS, "replica_detail"),
    ),
    "slurm": BuiltIn(
        "asyncsched.schedulers.slurm",
        takes_workspace=True,
        parameters=("state_dir",),
        takes=("state_dir",),
        variables=("ASYNCSCHED_SLURM_HOME",),
    ),
}
"""The built-in schedulers by name; the first one is the default."""


def with_workspaces() -> str:
    """Return the names of the schedulers that support a workspace, for messages."""
    return ", ".join(name for name, each in BUILT_IN.items() if each.takes_workspace)
