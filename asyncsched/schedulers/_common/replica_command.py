"""One command for all replicas of a role, on services where replicas differ only in a variable.

Such a command may need a shell. Shells do not pass on every variable unchanged; this module sets those with ``env``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from asyncsched.errors import ConfigError
from asyncsched.specs.app import Role
from asyncsched.specs.secret import Secret
from asyncsched.specs.secret_ref import SecretRef

__all__ = ["REPLICA", "by_env", "command_of", "is_left_alone"]

REPLICA = "\0replica\0"
"""Placeholder for a replica's number while a command is built; no argument can contain it."""

_SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELLS_OWN = re.compile(
    r"_|BASH.*|DIRSTACK|EPOCH.*|E?UID|FUNCNAME|GROUPS|HISTCMD|IFS|LANG|LC_.*|LINENO|OLDPWD|OPTIND|PIPESTATUS"
    r"|POSIXLY_CORRECT|PPID|PWD|S?RANDOM|SECONDS|SHELLOPTS|SHLVL"
)
"""Variables that some shell sets itself, or reacts to at once."""


def command_of(role: Role, number: str) -> tuple[list[str], dict[str, str]]:
    """Return the command of a role's replicas, and the variables that are the same in all of them.

    When a replica starts, a shell of the image replaces `REPLICA` by the number. Shells drop variables that they cannot
    set, such as ``MY.VAR``, and change others, such as ``SECONDS``; the program ``env`` sets these after the shell.

    Args:
        role: The role, with its macros filled in. Values that the service fills in (`SecretRef`) are not returned.
        number: A replica's number, as a shell reads it between double quotes.

    Raises:
        ConfigError: A shell is needed, and would drop a variable that the service fills in.
    """
    words = [role.entrypoint, *role.args]
    env = {name: value for name, value in role.env.items() if not isinstance(value, SecretRef)}
    if not any(map(_uses_replica, (*words, *env.values()))):
        return words, env
    others = {name: value for name, value in env.items() if not is_left_alone(name)}
    _check_kept(role)
    exported = {name: value for name, value in env.items() if _uses_replica(value) and name not in others}
    lines = [f"export {name}={_quoted(value, number)}" for name, value in exported.items()]
    setting = [f"{shlex.quote(name)}={_quoted(value, number)}" for name, value in others.items()]
    lines.append(" ".join(["exec", *by_env(setting, words[0]), *(_quoted(word, number) for word in words)]))
    secret = any(isinstance(text, Secret) for text in (*words, *exported.values(), *others.values()))
    script = "; ".join(lines)
    rest = {name: value for name, value in env.items() if name not in exported.keys() | others.keys()}
    return ["/bin/sh", "-c", Secret(script) if secret else script], rest


def by_env(setting: Sequence[str], program: str) -> list[str]:
    """Return the words before a program that start it with these variables; empty without variables.

    Args:
        setting: Variables as ``NAME=value``.
        program: The program.
    """
    if not setting:
        return []
    # `env` would read a program with = in its name as a variable; `nice` does not.
    return ["/usr/bin/env", "--", *setting, *(["nice", "-n", "0"] if "=" in _revealed(program) else [])]


def is_left_alone(name: str) -> bool:
    """Return whether every shell passes a variable on unchanged."""
    return _SHELL_NAME.fullmatch(name) is not None and _SHELLS_OWN.fullmatch(name) is None


def _check_kept(role: Role) -> None:
    for name, value in role.env.items():
        if isinstance(value, SecretRef) and not is_left_alone(name):
            why = "a shell fills in the macro replica_id, and does not pass such a variable on unchanged"
            fix = "use a name of letters, digits and _, or leave out the macro"
            raise ConfigError(f"Role {role.name} sets {name} to a secret of the service", why=why, fix=fix)


def _uses_replica(text: str) -> bool:
    return REPLICA in _revealed(text)


def _revealed(text: str) -> str:
    return text.reveal() if isinstance(text, Secret) else text


def _quoted(text: str, number: str) -> str:
    return f'"{number}"'.join(shlex.quote(part) if part else "" for part in _revealed(text).split(REPLICA)) or "''"
