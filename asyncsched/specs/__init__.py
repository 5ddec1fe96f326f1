"""The data types of the SDK: apps, statuses and handles.

Pure data: no I/O, no event loop, only the standard library.
"""

from __future__ import annotations

from asyncsched.errors import (
    InvalidRunConfigException,
    MalformedAppHandleException,
    UnknownAppException,
    UnknownSchedulerException,
)
from asyncsched.specs.app import MISSING, NONE, NULL_RESOURCE, AppDef, Resource, RetryPolicy, Role
from asyncsched.specs.devices import get_device_mounts
from asyncsched.specs.dryrun import AppDryRunInfo, Ignored, WorkspacePlan
from asyncsched.specs.handle import AppHandle, ParsedAppHandle, make_app_handle, parse_app_handle
from asyncsched.specs.macros import macros
from asyncsched.specs.mounts import BindMount, DeviceMount, Mount, VolumeMount, format_mounts, parse_mounts
from asyncsched.specs.names import derive_id, make_unique, normalize_str
from asyncsched.specs.not_kept import NotKept
from asyncsched.specs.resources import get_named_resources, named_resources, resource
from asyncsched.specs.result import UnreadableResult
from asyncsched.specs.run_options import CfgVal, get_type_name, runopt, runopts
from asyncsched.specs.secret import (
    Secret,
    masked_env,
    redact,
    reveal,
    revealed_env,
    show_secrets,
)
from asyncsched.specs.secret_names import is_secret_name
from asyncsched.specs.secret_ref import SecretRef
from asyncsched.specs.state import (
    AppState,
    AppStatus,
    FailureCause,
    ReplicaState,
    ReplicaStatus,
    RoleStatus,
    combine,
    find_cause,
    is_started,
    is_terminal,
)
from asyncsched.specs.stream import Stream
from asyncsched.specs.to_plain import JsonValue

__all__ = [
    "MISSING",
    "NONE",
    "NULL_RESOURCE",
    "AppDef",
    "AppDryRunInfo",
    "AppHandle",
    "AppState",
    "AppStatus",
    "BindMount",
    "CfgVal",
    "DeviceMount",
    "FailureCause",
    "Ignored",
    "InvalidRunConfigException",
    "JsonValue",
    "MalformedAppHandleException",
    "Mount",
    "NotKept",
    "ParsedAppHandle",
    "ReplicaState",
    "ReplicaStatus",
    "Resource",
    "RetryPolicy",
    "Role",
    "RoleStatus",
    "Secret",
    "SecretRef",
    "Stream",
    "UnknownAppException",
    "UnknownSchedulerException",
    "UnreadableResult",
    "VolumeMount",
    "WorkspacePlan",
    "combine",
    "derive_id",
    "find_cause",
    "format_mounts",
    "get_device_mounts",
    "get_named_resources",
    "get_type_name",
    "is_secret_name",
    "is_started",
    "is_terminal",
    "macros",
    "make_app_handle",
    "make_unique",
    "masked_env",
    "named_resources",
    "normalize_str",
    "parse_app_handle",
    "parse_mounts",
    "redact",
    "resource",
    "reveal",
    "revealed_env",
    "runopt",
    "runopts",
    "show_secrets",
]
