"""One command for all replicas: each gets its own number, and every variable that its role sets, from any shell."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsched.errors import ConfigError
from asyncsched.schedulers._common.replica_command import REPLICA, command_of
from asyncsched.specs import Role, Secret, SecretRef

SHELLS = [shell for shell in ("dash", "bash", "busybox sh") if shutil.which(shell.split()[0])]
NUMBER = "$THE_NUMBER"


def role(**fields: Any) -> Role:
    return Role("trainer", "image", **{"entrypoint": "/usr/bin/env", **fields})


def seen(shell: str, made: Role) -> dict[str, str]:
    """Return the environment that a replica's program has, started as a service would start it."""
    command, env = command_of(made, NUMBER)
    assert "/bin/sh" == command[0]
    around = {"PATH": os.environ["PATH"], "THE_NUMBER": "7", **{name: str(value) for name, value in env.items()}}
    told = subprocess.run([*shell.split(), *command[1:]], env=around, stdout=subprocess.PIPE, check=True, timeout=60)
    return dict(line.partition("=")[::2] for line in told.stdout.decode().split("\0"))


@pytest.mark.parametrize("shell", SHELLS)
def test_a_variable_that_no_shell_could_set_arrives(shell: str) -> None:
    env = {"MY.VAR": f"n-{REPLICA}", "my-other.var": "it's = $HOME", "-x": "1", "PLAIN": f"{REPLICA}", "REST": "r"}
    found = seen(shell, role(args=["-0"], env=env))

    assert {"MY.VAR": "n-7", "my-other.var": "it's = $HOME", "-x": "1", "PLAIN": "7", "REST": "r"}.items() <= (
        found.items()
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_a_variable_that_the_shell_has_for_itself_arrives(shell: str) -> None:
    plain = dict.fromkeys(("IFS", "PWD", "OLDPWD", "PPID", "OPTIND", "SECONDS", "RANDOM", "SHLVL", "BASHPID"), "mine")
    numbered = dict.fromkeys(("UID", "EUID", "LINENO", "PATH"), f"n-{REPLICA}")
    found = seen(shell, role(args=["-0"], env=plain | numbered))

    assert (plain | dict.fromkeys(numbered, "n-7")).items() <= found.items()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_program_with_an_equals_sign_in_its_name_is_not_taken_for_a_variable(shell: str, tmp_path: Path) -> None:
    program = tmp_path / "a=b"
    program.symlink_to("/usr/bin/env")
    found = seen(shell, role(entrypoint=str(program), args=["-0"], env={"MY.VAR": f"n-{REPLICA}", "SECONDS": "mine"}))

    assert {"MY.VAR": "n-7", "SECONDS": "mine"}.items() <= found.items()
    assert str(program) not in found


@settings(max_examples=20, deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_characters="=\0", codec="utf-8"), min_size=1, max_size=8).filter(
            lambda name: name not in ("PATH", "THE_NUMBER", "Z_NUMBER")
        ),
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8),
        max_size=4,
    )
)
def test_every_variable_arrives(env: dict[str, str]) -> None:
    found = seen(SHELLS[0], role(args=["-0"], env={**env, "Z_NUMBER": f"<{REPLICA}>"}))

    assert {**env, "Z_NUMBER": "<7>"}.items() <= found.items()


def test_without_the_macro_there_is_no_shell() -> None:
    made = role(args=["a b"], env={"MY.VAR": "1", "KEPT": SecretRef("db")})

    assert (["/usr/bin/env", "a b"], {"MY.VAR": "1"}) == command_of(made, NUMBER)


def test_a_secret_makes_the_whole_command_one() -> None:
    command, _ = command_of(role(args=[REPLICA], env={"MY.VAR": Secret("hidden")}), NUMBER)

    assert isinstance(command[-1], Secret)
    assert shlex.split(command[-1].reveal())[1:4] == ["/usr/bin/env", "--", "MY.VAR=hidden"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"env": {"MY.VAR": SecretRef("db")}}, "sets MY.VAR to a secret of the service"),
        ({"env": {"SECONDS": SecretRef("db")}}, "sets SECONDS to a secret of the service"),
    ],
)
def test_what_a_shell_would_drop_is_refused(fields: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        command_of(role(args=[REPLICA], **fields), NUMBER)
