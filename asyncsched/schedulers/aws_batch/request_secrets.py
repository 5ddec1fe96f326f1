"""Convert references to secrets in AWS to fields of a container, and back, without I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping

from asyncsched.errors import ConfigError
from asyncsched.schedulers.aws_batch.options import AWSBatchOpts
from asyncsched.specs.app import Role
from asyncsched.specs.secret_ref import SecretRef

__all__ = ["read_secret_ref", "secrets_of"]

_SECRET_ARN = re.compile(r"(arn:[\w-]+:secretsmanager:[\w-]*:\w*:secret:[^:]+)(?::([^:]+)::)?")


def secrets_of(role: Role, options: AWSBatchOpts) -> list[dict[str, str]]:
    """Return the secrets of a role's container: those of the option, overridden by those in its variables.

    Raises:
        ConfigError: AWS could not resolve one of them.
    """
    wanted = dict(options.secrets or {})
    wanted |= {name: _value_from(role, name, ref) for name, ref in _refs(role).items()}
    if wanted and options.execution_role_arn is None:
        named = " and ".join(wanted)
        why = f"role {role.name} gets {named} from secrets, which AWS reads with the execution role"
        raise ConfigError("execution_role_arn is missing", why=why, fix="set the run option execution_role_arn")
    return [{"name": name, "valueFrom": source} for name, source in wanted.items()]


def read_secret_ref(value_from: str) -> SecretRef:
    """Return the reference for a container's secret.

    Args:
        value_from: The ARN of a secret, optionally with a key of its JSON, or the ARN or name of a parameter.
    """
    found = _SECRET_ARN.fullmatch(value_from)
    return SecretRef(found[1], found[2] or "") if found else SecretRef(value_from)


def _refs(role: Role) -> Mapping[str, SecretRef]:
    return {name: value for name, value in role.env.items() if isinstance(value, SecretRef)}


def _value_from(role: Role, name: str, ref: SecretRef) -> str:
    if not ref.key:
        return ref.name
    found = _SECRET_ARN.fullmatch(ref.name)
    if found is None or found[2] is not None:
        raise ConfigError(
            f"{name} of role {role.name} refers to the key {ref.key!r} of {ref.name}",
            why="only a secret of Secrets Manager, given by its ARN, can have keys",
            fix="write SecretRef('arn:aws:secretsmanager:...:secret:...', key), or omit the key",
        )
    return f"{ref.name}:{ref.key}::"
