"""asyncsched where it is not Linux: it imports, works where it can, and says in one line what it cannot do.

No such system is here: parts of the standard library are hidden from asyncsched, in a process of its own.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "imports"
PACKAGES: list[str] = runpy.run_path(str(SCRIPT))["EVERYWHERE"]


def run_elsewhere(kind: str, program: Path, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "tests" / "portable" / "elsewhere.py", kind, program, *arguments],
        env={"ASYNCSCHED_HOME": str(home), "HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def printed(kind: str, code: str, home: Path) -> str:
    program = home / "program.py"
    program.write_text(dedent(code))
    done = run_elsewhere(kind, program, home=home)

    assert 0 == done.returncode, done.stderr
    return done.stdout


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_without_modules_of_unix(package: str, tmp_path: Path) -> None:
    done = run_elsewhere("blocked", SCRIPT, package, home=tmp_path)

    assert 0 == done.returncode, done.stderr


@pytest.mark.parametrize(("kind", "system"), [("blocked", "linux"), ("windows", "win32")])
def test_apps_run_elsewhere_and_local_cwd_says_that_it_needs_linux(kind: str, system: str, tmp_path: Path) -> None:
    done = run_elsewhere(kind, SCRIPT, home=tmp_path)

    assert 0 == done.returncode, done.stderr
    assert (
        f"local_cwd: local_cwd needs Linux: this Python on {system} has no module fcntl; "
        "use a scheduler that runs apps elsewhere, such as local_docker"
    ) == done.stdout.splitlines()[-1]


GROUP = """
import asyncio
from pathlib import Path
from asyncsched import AppDef, AsyncSchedError, Role, Runner
from asyncsched.clock import Clock
from asyncsched.testing import FakeScheduler, FakeService

app = AppDef("job", roles=[Role("main", image="any", entrypoint="sh", args=["-c", "echo hello"])])

async def main():
    async with Runner("s", {"fake": lambda session, **_: FakeScheduler(session, FakeService(Clock()))}) as runner:
        for options in ({"key": "sweep"}, {"keep_logs": "logs"}):
            try:
                async with runner.group("fake", **options) as group:
                    group.start(app)
                print(*[path.read_text() for path in Path("logs").rglob("*.log")])
            except AsyncSchedError as error:
                print(type(error).__name__, error)

asyncio.run(main())
"""


@pytest.mark.parametrize(("kind", "system"), [("blocked", "linux"), ("windows", "win32")])
def test_a_group_with_a_key_says_what_it_misses_and_logs_are_kept(kind: str, system: str, tmp_path: Path) -> None:
    told = (
        "ConfigError a group with key='sweep' cannot run here: Python on "
        f"{system} has no file locks, which protect its journal; "
        "leave out key, or run it on Linux or macOS\n"
        "hello\n\n"
    )

    assert told == printed(kind, GROUP, tmp_path)


def test_a_workspace_on_windows_is_refused_in_one_line(tmp_path: Path) -> None:
    told = printed(
        "windows",
        """
        import asyncio
        from asyncsched import WorkspaceError
        from asyncsched.workspace import DirWorkspace

        try:
            asyncio.run(DirWorkspace(".").hash())
        except WorkspaceError as error:
            print(error)
        """,
        tmp_path,
    )

    assert "on win32: Python cannot open files relative to a directory here" in told
    assert 1 == len(told.splitlines())


def test_an_app_of_slurm_without_file_locks_is_refused_in_one_line(tmp_path: Path) -> None:
    told = printed(
        "blocked",
        """
        import asyncio
        from pathlib import Path
        from asyncsched import AppDef, AsyncSchedError, Role, get_scheduler

        app = AppDef("job", roles=[Role("main", image="", entrypoint="true")])

        async def main():
            async with get_scheduler("slurm", "s", state_dir=str(Path("state").absolute())) as slurm:
                try:
                    await slurm.submit(app, {"job_dir": str(Path("jobs").absolute())})
                except AsyncSchedError as error:
                    print(error)

        asyncio.run(main())
        """,
        tmp_path,
    )

    assert "Python on linux has no file locks" in told
    assert 1 == len(told.splitlines())


def test_a_configuration_that_others_might_have_written_is_not_used_on_windows(tmp_path: Path) -> None:
    (tmp_path / "asyncsched.toml").write_text("[command.run]\nimage = 'theirs'\n")
    told = printed(
        "windows",
        """
        from asyncsched.runner.config import load_config

        config = load_config()
        print(*config.warnings)
        """,
        tmp_path,
    )

    assert "nobody can tell here who may write to it" in told


def test_the_command_line_answers_on_windows(tmp_path: Path) -> None:
    main = ROOT / "asyncsched" / "__main__.py"
    shown = run_elsewhere("windows", main, "runopts", "slurm", home=tmp_path)
    refused = run_elsewhere("windows", main, "run", "--", "echo", "hello", home=tmp_path)

    assert (0, "") == (shown.returncode, shown.stderr)
    assert "job_dir" in shown.stdout
    assert 2 == refused.returncode
    assert "local_cwd needs Linux" in refused.stderr
    assert "Traceback" not in refused.stderr
