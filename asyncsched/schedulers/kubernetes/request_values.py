"""Convert arguments and variables for Kubernetes: macros are filled in, and the user's text is not expanded.

The kubelet replaces ``$(NAME)`` in commands and in values of variables, and turns ``$$`` into ``$``. A role's text is
escaped so that its program gets it unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from asyncsched.errors import ConfigError
from asyncsched.specs.app import Role
from asyncsched.specs.macros import macros
from asyncsched.specs.result import RESULT_FILE
from asyncsched.specs.secret import Secret
from asyncsched.specs.secret_ref import SecretRef

__all__ = ["OURS", "RANK0", "command_of", "env_of", "escaped", "filled_in", "varies_in_env"]

RANK0 = "TORCHX_RANK0_HOST"
"""The variable with the address of replica 0 of the first role."""

_FIELD_PATH = "[FIELD_PATH]"
"""A variable's value with this prefix names a field of its pod."""

_RESULT_PATH = "/dev/termination-log"
"""The kubelet copies up to 4 KiB of this file into the pod's status."""

_INDEX = "ASYNCSCHED_REPLICA_INDEX"
OURS = frozenset({RANK0, RESULT_FILE, _INDEX})
"""The variables that asyncsched sets for every role, or builds others from."""
_INDEX_FIELD = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_INDEX_IN_COMMAND: Mapping[str, str] = {"volcano": "$(VC_TASK_INDEX)", "job": "$(JOB_COMPLETION_INDEX)"}

_REPLICA = "\0replica\0"
"""A placeholder for a replica's id that is known only when the pod starts; no argument can contain it."""

# Of a non-ASCII character after a $, the kubelet would keep only the first byte.
_EXPANDED = re.compile(r"\$(?=[$(]|[^\x00-\x7f])")


def filled_in(role: Role, app_id: str, replica: int | None = None) -> Role:
    """Return a copy of a role with its macros filled in.

    Args:
        role: The role; it is not changed.
        app_id: The app's id.
        replica: The replica's id; None if all replicas share one pod template.
    """
    number = _REPLICA if replica is None else str(replica)
    if replica is None and role.num_replicas == 1:
        number = "0"
    return macros.Values(img_root="", app_id=app_id, replica_id=number, rank0_env=RANK0).apply(role)


def varies_in_env(role: Role) -> bool:
    """Return whether a variable of a role differs between replicas."""
    probe = filled_in(role, "")
    return any(_varies(value) for value in probe.env.values())


def _varies(text: str) -> bool:
    return not isinstance(text, SecretRef) and _REPLICA in (text.reveal() if isinstance(text, Secret) else text)


def command_of(role: Role, kind: Literal["volcano", "job"]) -> list[str]:
    """Return the command of a role whose macros are filled in."""
    return [_sent(word, _INDEX_IN_COMMAND[kind]) for word in (role.entrypoint, *role.args)]


def env_of(role: Role, rank0: str) -> list[dict[str, Any]]:
    """Return the variables of a role whose macros are filled in.

    Args:
        role: The role.
        rank0: The address of replica 0 of the first role.

    Raises:
        ConfigError: A secret is named without its key.
    """
    env: dict[str, str] = {RESULT_FILE: _RESULT_PATH, RANK0: rank0, **role.env}
    return [*_index(env.values()), *(_variable(role.name, name, value) for name, value in env.items())]


def _index(values: Sequence[str] | Any) -> Iterator[dict[str, Any]]:
    """Yield the variable that others refer to; it must come before them."""
    if any(_varies(value) for value in values):
        yield {"name": _INDEX, "valueFrom": {"fieldRef": {"fieldPath": _INDEX_FIELD}}}


def _variable(role: str, name: str, value: str) -> dict[str, Any]:
    if isinstance(value, SecretRef):
        return {"name": name, "valueFrom": {"secretKeyRef": {"name": value.name, "key": _key(role, name, value)}}}
    if not isinstance(value, Secret) and value.startswith(_FIELD_PATH):
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": value.removeprefix(_FIELD_PATH)}}}
    return {"name": name, "value": _sent(value, f"$({_INDEX})")}


def _key(role: str, name: str, ref: SecretRef) -> str:
    if not ref.key:
        raise ConfigError(
            f"{name} of role {role!r} refers to the secret {ref.name} without a key",
            why="a Secret of Kubernetes has keys",
            fix=f"write SecretRef({ref.name!r}, 'the-key')",
        )
    return ref.key


def _sent(text: str, number: str) -> str:
    if isinstance(text, Secret):
        return Secret(_sent(text.reveal(), number))
    return number.join(escaped(part) for part in text.split(_REPLICA))


def escaped(text: str) -> str:
    """Escape a text so that the kubelet turns it back into the original."""
    return _EXPANDED.sub("$$", text) if "$" in text else text
