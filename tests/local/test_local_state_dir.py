"""Where the state lies, whatever the user's environment is like."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.local._local import AS_NOBODY, IS_ROOT, NOBODY, Other

OF_THE_STATE = ("ASYNCSCHED_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "HOME")

RUNS = """
    async def main():
        async with LocalScheduler("session") as scheduler:
            try:
                app_id = await scheduler.submit(app(shell("echo hello")))
            except ConfigError as error:
                say("refused:", error)
                return
            say(*[line.text for line in await read(scheduler, app_id)])
    asyncio.run(main())
"""


def _says(env: dict[str, str], *, prefix: tuple[str, ...] = ()) -> str:
    with Other(RUNS, env=env, without=OF_THE_STATE, prefix=prefix) as other:
        return other.hear()


@pytest.mark.parametrize(
    ("env", "where"),
    [
        ({"HOME": "{0}"}, ".local/state/asyncsched"),
        ({"HOME": "{0}", "XDG_STATE_HOME": "{0}/xdg"}, "xdg/asyncsched"),
        ({"HOME": "{0}", "XDG_STATE_HOME": "relative"}, "relative-is-ignored"),
        ({"HOME": "{0}", "ASYNCSCHED_HOME": "{0}/here"}, "here"),
        ({"HOME": "{0}", "ASYNCSCHED_HOME": "~/there"}, "there"),
        # There is nothing below a device, not even for root.
        ({"HOME": "/dev/null", "XDG_RUNTIME_DIR": "{0}/run"}, "run/asyncsched"),
        ({"XDG_STATE_HOME": "/dev/null/x", "XDG_RUNTIME_DIR": "{0}"}, "asyncsched"),
    ],
)
def test_the_state_lies_where_it_should(tmp_path: Path, env: dict[str, str], where: str) -> None:
    if where == "relative-is-ignored":
        env = {**env, "XDG_RUNTIME_DIR": "{0}"}
        where = "asyncsched"

    assert "hello" == _says({name: value.format(tmp_path) for name, value in env.items()})

    assert (tmp_path / where / "apps").is_dir()


@pytest.mark.parametrize("runtime", [{}, {"XDG_RUNTIME_DIR": "/dev/null/run"}, {"XDG_RUNTIME_DIR": "run"}])
def test_no_place_at_all_is_an_error_that_names_the_variable(tmp_path: Path, runtime: dict[str, str]) -> None:
    said = _says({"HOME": "/dev/null", **runtime})

    assert said.startswith("refused: ")
    assert "/dev/null/.local/state/asyncsched" in said
    assert "set ASYNCSCHED_HOME" in said


def test_a_named_place_that_cannot_be_made_is_not_replaced_by_another(tmp_path: Path) -> None:
    said = _says({"HOME": str(tmp_path), "ASYNCSCHED_HOME": "/dev/null/here"})

    assert said.startswith("refused: ")
    assert "/dev/null/here" in said
    assert [] == [*tmp_path.iterdir()]


@pytest.mark.skipif(not IS_ROOT, reason="only root can become a user whom nobody knows")
def test_a_user_whom_nobody_knows_is_told_which_variable_to_set() -> None:
    somebody = ("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups")
    if subprocess.run([*somebody, sys.executable, "-c", "import pytest"], check=False, capture_output=True).returncode:
        pytest.skip("this interpreter lies where only root can read it")
    said = _says({}, prefix=somebody)

    assert said.startswith("refused: ")
    assert "set ASYNCSCHED_HOME" in said


@pytest.mark.skipif(not IS_ROOT, reason="only root can write where others cannot")
def test_an_ordinary_user_with_a_home_that_is_not_his_uses_the_runtime_directory(ordinary_home: Path) -> None:
    env = {"HOME": "/", "XDG_RUNTIME_DIR": str(ordinary_home)}

    assert "hello" == _says(env, prefix=AS_NOBODY)

    assert NOBODY == (ordinary_home / "asyncsched" / "apps").stat().st_uid


def test_nothing_is_imported_from_the_working_directory(home: Path, tmp_path: Path) -> None:
    for name in ("json", "socket", "select", "supervisor", "resource"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    code = (
        "import asyncio; from asyncsched.schedulers.local import *; from asyncsched.specs import *\n"
        "async def main():\n"
        "    async with LocalScheduler('x') as s: await s.submit(AppDef('a', [Role('r', '', entrypoint='true')]))\n"
        "asyncio.run(main())"
    )

    subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, check=True, timeout=60)
