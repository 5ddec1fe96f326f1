"""Describe what to run: an application, its roles, and what each replica needs.

Fields are in the order of the TorchX 0.7 documents, so positional arguments keep their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from asyncsched.specs.mounts import Mount
from asyncsched.specs.secret import masked_env
from asyncsched.specs.value import Value

if TYPE_CHECKING:
    from asyncsched.specs.dryrun import AppDryRunInfo

__all__ = ["MISSING", "NONE", "NULL_RESOURCE", "AppDef", "Resource", "RetryPolicy", "Role"]

RequestT = TypeVar("RequestT")

MISSING = "<MISSING>"
NONE = "<NONE>"


@dataclass(eq=False, repr=False)
class Resource(Value):
    """What one replica needs.

    Args:
        cpu: Number of logical processors.
        gpu: Number of GPUs.
        memMB: Memory in MB.
        capabilities: What else the host must have; each scheduler reads the names it knows.
        devices: Named devices and how many of each.
    """

    cpu: int
    gpu: int
    memMB: int  # noqa: N815 - the documents' name
    capabilities: dict[str, object] = field(default_factory=dict[str, object])
    devices: dict[str, int] = field(default_factory=dict[str, int])

    @staticmethod
    def copy(original: Resource, **capabilities: object) -> Resource:
        """Return a copy with these capabilities added to, or in place of, the original's."""
        return Resource(
            cpu=original.cpu,
            gpu=original.gpu,
            memMB=original.memMB,
            capabilities={**original.capabilities, **capabilities},
            devices=dict(original.devices),
        )


def _null_resource() -> Resource:
    # One for each role: the class is mutable, so changing a shared one would change every role.
    return Resource(cpu=-1, gpu=-1, memMB=-1)


NULL_RESOURCE = _null_resource()
"""Equal to the default resource of a role."""


class RetryPolicy(StrEnum):
    """What to restart when a replica fails; `Scheduler.retry_policies` lists what a scheduler supports."""

    REPLICA = "REPLICA"
    """The replica that failed; the others keep running."""
    APPLICATION = "APPLICATION"
    """All replicas of the application."""
    HOT_SPARE = "HOT_SPARE"
    """The replica, on a spare host, as long as ``min_replicas`` are there."""
    ROLE = "ROLE"
    """All replicas of the role; other roles keep running."""


@dataclass(eq=False, repr=False)  # its own repr masks secrets
class Role(Value):
    """Replicas that do the same work: one program, started ``num_replicas`` times.

    Args:
        name: The role's name, unique in the application.
        image: Where the program is: a container image or a directory, depending on the scheduler, which also says
            whether it needs one.
        min_replicas: The smallest number of replicas that the role may start with, on schedulers that can scale.
        base_image: Deprecated in the documents; kept so that positional arguments keep their meaning.
        entrypoint: The program.
        args: Its arguments. Macros are substituted.
        env: Its environment. Macros are substituted; secret values are never printed.
        num_replicas: How many replicas to start.
        max_retries: How often to restart after a failure.
        retry_policy: What to restart.
        resource: What each replica needs.
        port_map: Port numbers by name.
        metadata: Anything else for a scheduler or a tool, with keys like ``scheduler.key``.
        mounts: What to mount into each replica.
    """

    name: str
    image: str = ""
    min_replicas: int | None = None
    base_image: str | None = None
    entrypoint: str = MISSING
    args: list[str] = field(default_factory=list[str])
    # Left out of the generated repr, so that the reprs of subclasses leave it out too.
    env: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    num_replicas: int = 1
    max_retries: int = 0
    retry_policy: RetryPolicy = RetryPolicy.APPLICATION
    resource: Resource = field(default_factory=_null_resource)
    port_map: dict[str, int] = field(default_factory=dict[str, int])
    metadata: dict[str, object] = field(default_factory=dict[str, object], repr=False)
    mounts: list[Mount] = field(default_factory=list[Mount])

    def pre_proc(self, scheduler: str, dryrun_info: AppDryRunInfo[RequestT]) -> AppDryRunInfo[RequestT]:
        """Change the request before it is sent; subclasses override this.

        Called once for each role, in order, at the end of every dry-run.

        Args:
            scheduler: The scheduler's name.
            dryrun_info: The request so far, after the roles before this one.

        Returns:
            The request to send: `dryrun_info`, or ``AppDryRunInfo(request)`` with another request for the same app.
        """
        return dryrun_info

    def __repr__(self) -> str:
        from asyncsched.specs.masking import masked  # loaded with the first scheduler

        shown = {item.name: getattr(self, item.name) for item in fields(self)}
        shown |= {"args": masked(self.args), "env": masked_env(self.env), "metadata": masked(self.metadata)}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


@dataclass(eq=False, repr=False)
class AppDef(Value):
    """An application: roles that are launched, watched and stopped together.

    Args:
        name: The application's name; its id is made from it.
        roles: Its roles, in the order in which they start.
        metadata: Anything else to keep with it.
    """

    name: str
    roles: list[Role] = field(default_factory=list[Role])
    metadata: dict[str, str] = field(default_factory=dict[str, str], repr=False)

    def __repr__(self) -> str:
        metadata = masked_env(self.metadata)
        return f"{type(self).__name__}(name={self.name!r}, roles={self.roles!r}, metadata={metadata!r})"
