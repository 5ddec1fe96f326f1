"""Classes shaped as those of `torchx.specs`, for tests that need no TorchX: of release 0.7, and of a nightly.

`tests/torchx/test_environments.py` holds the fields and the values against the true ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType
from typing import Any


@dataclass
class BindMount:
    src_path: str
    dst_path: str
    read_only: bool = False


@dataclass
class VolumeMount:
    src: str
    dst_path: str
    read_only: bool = False


@dataclass
class DeviceMount:
    src_path: str
    dst_path: str
    permissions: str = "rwm"


class AppState(int, Enum):
    UNSUBMITTED = 0
    SUBMITTED = 1
    PENDING = 2
    RUNNING = 3
    SUCCEEDED = 4
    FAILED = 5
    CANCELLED = 6
    UNKNOWN = 7


@dataclass
class ReplicaStatus:
    id: int
    state: AppState
    role: str
    hostname: str
    structured_error_msg: str = "<NONE>"


@dataclass
class RoleStatus:
    role: str
    replicas: list[ReplicaStatus]


@dataclass
class AppDef:
    name: str
    roles: list[Any] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)


class OldRetryPolicy(str, Enum):  # noqa: UP042 - as theirs are
    REPLICA = "REPLICA"
    APPLICATION = "APPLICATION"
    HOT_SPARE = "HOT_SPARE"


@dataclass
class OldResource:
    cpu: int
    gpu: int
    memMB: int  # noqa: N815 - their name
    capabilities: dict[str, Any] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)


@dataclass
class OldRole:
    name: str
    image: str
    min_replicas: int | None = None
    base_image: str | None = None
    entrypoint: str = "<MISSING>"
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    num_replicas: int = 1
    max_retries: int = 0
    retry_policy: OldRetryPolicy = OldRetryPolicy.APPLICATION
    resource: OldResource = field(default_factory=lambda: OldResource(-1, -1, -1))
    port_map: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    mounts: list[Any] = field(default_factory=list)

    def pre_proc(self, scheduler: str, dryrun_info: Any) -> Any:
        return dryrun_info


class NewRetryPolicy(str, Enum):  # noqa: UP042 - as theirs are
    REPLICA = "REPLICA"
    APPLICATION = "APPLICATION"
    ROLE = "ROLE"


@dataclass
class NewResource:
    cpu: int
    gpu: int
    memMB: int  # noqa: N815 - their name
    capabilities: dict[str, Any] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)
    tags: dict[str, object] = field(default_factory=dict)


@dataclass
class Workspace:
    projects: dict[str, str]


@dataclass
class NewRole:
    name: str
    image: str
    min_replicas: int | None = None
    entrypoint: str = "<MISSING>"
    args: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    num_replicas: int = 1
    max_retries: int = 0
    retry_policy: NewRetryPolicy = NewRetryPolicy.APPLICATION
    resource: NewResource = field(default_factory=lambda: NewResource(-1, -1, -1))
    port_map: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    mounts: list[Any] = field(default_factory=list)
    workspace: Workspace | None = None
    overrides: dict[str, Any] = field(default_factory=dict)

    def pre_proc(self, scheduler: str, dryrun_info: Any) -> Any:
        return dryrun_info


def _module(**classes: type) -> ModuleType:
    module = ModuleType("torchx.specs")
    shared = (BindMount, VolumeMount, DeviceMount, AppState, ReplicaStatus, RoleStatus, AppDef)
    for name, kind in {**{kind.__name__: kind for kind in shared}, **classes}.items():
        kind.__module__, kind.__name__, kind.__qualname__ = "torchx.specs.api", name, name
        setattr(module, name, kind)
    return module


OLD = _module(Role=OldRole, Resource=OldResource, RetryPolicy=OldRetryPolicy)
NEW = _module(Role=NewRole, Resource=NewResource, RetryPolicy=NewRetryPolicy, Workspace=Workspace)
