"""Format an app's status: as the text of the TorchX documents, as YAML, and as plain data for JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING

from asyncsched.specs.app import NONE
from asyncsched.specs.to_plain import Plain, check_depth, to_plain
from asyncsched.specs.yaml import to_yaml

if TYPE_CHECKING:
    from asyncsched.specs.state import AppStatus, ReplicaStatus, RoleStatus

__all__ = ["error_message", "format_status", "status_to_json", "status_to_yaml"]

_WIDTH = 80
_ERROR_HEADER = "    error_msg: "
_RPC_ERROR, _RPC_HEADER, _RPC_END = "('On WorkerInfo(", "):", "\n')"
# C++ errors carry their stack in the message: "c10::Error: what\nException raised from ...". The pattern begins only
# where a line does: a search that may begin anywhere takes seconds for a long line.
_ERROR_BEFORE_STACK = re.compile(r"(?m)^(.+)\nException")


def format_status(status: AppStatus, roles: Iterable[RoleStatus]) -> str:
    """Return the text of the TorchX documents, with the given roles."""
    replicas = [replica for role in roles for replica in sorted(role.replicas, key=lambda item: item.id)]
    return (
        "AppStatus:\n"
        f"    State: {status.state}\n"
        f"    Num Restarts: {status.num_restarts}\n"
        f"    Roles: {''.join(map(_format_replica, replicas))}\n"
        f"    Msg: {status.msg}\n"
        f"    Structured Error Msg: {status.structured_error_msg}\n"
        f"    UI URL: {status.ui_url}\n"
        "    "
    )


def _format_replica(replica: ReplicaStatus) -> str:
    # A star marks each role's first replica.
    mark = "*" if replica.id == 0 else " "
    return f"\n {mark}{replica.role}[{replica.id}]:{replica.state}{_format_error(replica)}"


def error_message(text: str) -> str:
    """Return the message of an error that a program reported; the whole text if its form is unknown."""
    return _innermost(_read_error(text)[0])


def _format_error(replica: ReplicaStatus) -> str:
    if replica.structured_error_msg == NONE:
        return " (no reply file)" if str(replica.state) in ("FAILED", "CANCELLED") else ""
    message, exit_code, timestamp = _read_error(replica.structured_error_msg)
    lines = [f" (exitcode: {exit_code or replica.exit_code or '<N/A>'})"]
    if timestamp is not None:
        lines.append(f"        timestamp: {timestamp}")
    lines.append(f"        hostname: {replica.hostname}")
    lines.append(f"    {_wrap(_innermost(message))}")
    return "\n".join(lines)


def _read_error(text: str) -> tuple[str, Plain, datetime | None]:
    """Return message, exit code and local time; a text of unknown form is all message."""
    record = _parse(text)
    details = record.get("message") if isinstance(record, dict) else None
    if isinstance(details, dict):  # a program's own report; a scheduler's is flat
        record, extra = details, details.get("extraInfo")
    else:
        extra = record
    message = record.get("message") if isinstance(record, dict) else None
    if not isinstance(record, dict) or not isinstance(message, str):
        return text, None, None
    timestamp = extra.get("timestamp") if isinstance(extra, dict) else None
    return message, record.get("errorCode"), _local_time(timestamp)


def _parse(text: str) -> Plain:
    try:
        data: Plain = json.loads(text)
        check_depth(data)
    except (ValueError, RecursionError):
        return text
    return data


def _local_time(timestamp: object) -> datetime | None:
    try:
        return datetime.fromtimestamp(int(str(timestamp)))  # noqa: DTZ006 - the TorchX documents print local time
    except (ValueError, OverflowError, OSError):
        return None


def _innermost(message: str) -> str:
    message = _of_worker(message)
    match = _ERROR_BEFORE_STACK.search(message)
    return match[1] if match else message


def _of_worker(message: str) -> str:
    """Return the part that torch.distributed.rpc has wrapped: RuntimeError('On WorkerInfo(id=1, name=a):\\n...\\n').

    Each line is looked at once; a pattern would begin again wherever the part seems to begin.
    """
    end = message.rfind(_RPC_END)
    at = 0
    for line in message[: max(end, 0)].split("\n"):
        start = line.find(_RPC_ERROR)
        if start >= 0 and line.endswith(_RPC_HEADER) and len(line) > start + len(_RPC_ERROR + _RPC_HEADER):
            while start and (line[start - 1].isalnum() or line[start - 1] == "_"):
                start -= 1
            return message[at + start : end + len(_RPC_END)]
        at += len(line) + 1
    return message


def _wrap(message: str) -> str:
    lines = re.findall(rf"(?s).{{{_WIDTH}}}[^ ]*|.+", message) or [""]
    return _ERROR_HEADER + ("\n" + " " * len(_ERROR_HEADER)).join(lines)


def status_to_json(status: AppStatus, roles: Iterable[RoleStatus]) -> dict[str, object]:
    """Return plain data with the given roles."""
    return {
        "state": status.state.name,
        "num_restarts": status.num_restarts,
        "roles": [
            {"role": role.role, "replicas": [_replica_to_json(replica) for replica in role.replicas]} for role in roles
        ],
        "msg": status.msg,
        "structured_error_msg": status.structured_error_msg,
        "url": status.ui_url,
        "cause": None if status.cause is None else status.cause.value,
    }


def _replica_to_json(replica: ReplicaStatus) -> dict[str, Plain]:
    return {field.name: _json_value(getattr(replica, field.name)) for field in fields(replica)}


def _json_value(value: object) -> Plain:
    return value.isoformat() if isinstance(value, datetime) else to_plain(value)


def status_to_yaml(status: AppStatus) -> str:
    """Return the status as YAML, with the structured error parsed."""
    data: dict[str, Plain] = {
        "state": repr(status.state),
        "num_restarts": status.num_restarts,
        "roles": [
            {"role": role.role, "replicas": [_replica_to_yaml(replica) for replica in role.replicas]}
            for role in status.roles
        ],
        "msg": status.msg,
        "structured_error_msg": _parse(status.structured_error_msg),
        "ui_url": status.ui_url,
    }
    return to_yaml({"AppStatus": data}, sort_keys=True)


def _replica_to_yaml(replica: ReplicaStatus) -> dict[str, Plain]:
    data = _replica_to_json(replica)
    known = {key: value for key, value in data.items() if value is not None and value != ""}
    return {**known, "hostname": replica.hostname, "state": repr(replica.state)}
