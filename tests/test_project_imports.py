"""What an import brings along, and what the wheel holds."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsched.cli.main import VERBS

ROOT = Path(__file__).parents[1]
SDKS = {
    "aiobotocore",
    "aiodocker",
    "aiohttp",
    "boto3",
    "botocore",
    "docker",
    "gcloud",
    "google",
    "kubernetes_asyncio",
}

FRONT_DOOR = "import asyncsched"
WHOLE_SURFACE = """
import importlib, importlib.util
rooms = ["specs", "schedulers", "workspace", "testing", "sync"]
for room in ["asyncsched", *(f"asyncsched.{room}" for room in rooms)]:
    if importlib.util.find_spec(room):
        module = importlib.import_module(room)
        [getattr(module, name) for name in module.__all__]
"""

MADE = "from asyncsched.testing import FakeScheduler; FakeScheduler('session')"

WITHOUT_EXTRAS = """
from asyncsched.errors import MissingExtraError
from asyncsched.schedulers.aws_batch import AWSBatchScheduler
from asyncsched.schedulers.docker import DockerScheduler

for scheduler in (DockerScheduler, AWSBatchScheduler):
    try:
        scheduler("session")
    except MissingExtraError as error:
        print(error.fix)
"""


def loaded_by(code: str) -> set[str]:
    """Return the top-level packages that the code loads, beyond what Python has at its start."""
    return {name.partition(".")[0] for name in modules_loaded_by(code)}


def modules_loaded_by(code: str) -> set[str]:
    """Return the modules that the code loads, beyond what Python has at its start."""
    program = f"import sys\nbefore = set(sys.modules)\n{code}\nprint(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return {*done.stdout.split()}


def test_the_front_door_loads_nothing() -> None:
    assert {"__future__", "asyncsched"} == loaded_by(FRONT_DOOR)


def test_a_name_loads_neither_asyncio_nor_what_others_need() -> None:
    assert not {"asyncio", "anyio", "click", "rich"} & loaded_by("from asyncsched import AppDef, UnknownAppError")


def test_the_whole_surface_loads_nothing_that_little_of_it_needs() -> None:
    costly = {"hashlib", "json", "pathlib", "shutil", "tarfile", "typing_extensions", "urllib", "uuid"}

    assert not costly & loaded_by(WHOLE_SURFACE)


def test_the_whole_surface_loads_no_module_that_only_work_needs() -> None:
    of_a_runner = {"runner.call_log", "specs.last_seen"}
    of_a_scheduler = {"schedulers.ignored", "specs.masking", "specs.secret_text"}
    of_a_submit = {"schedulers.shape", "schedulers.validation", "workspace.copying", "workspace.files"}
    late = {f"asyncsched.{name}" for name in of_a_runner | of_a_scheduler | of_a_submit}

    assert not late & modules_loaded_by(WHOLE_SURFACE)
    # Each name above is that of a module, and what prints an app is there before anything goes wrong.
    assert all(importlib.util.find_spec(name) for name in late)
    assert "asyncsched.specs.masking" in modules_loaded_by(MADE)


def test_typing_extensions_is_for_type_checkers_alone() -> None:
    found = [path for path in ROOT.glob("asyncsched/**/*.py") if "\nfrom typing_extensions" in path.read_text()]

    assert [] == found
    assert "typing_extensions" not in loaded_by("from asyncsched.schedulers.local import LocalScheduler")


def test_the_whole_surface_loads_no_sdk_and_nothing_for_a_terminal() -> None:
    assert not (SDKS | {"click", "rich", "pytest"}) & loaded_by(WHOLE_SURFACE)


def test_a_supervisor_is_begun_before_asyncio_is_imported() -> None:
    assert "asyncio" not in loaded_by(
        "import importlib; importlib.import_module('asyncsched.schedulers.local').begin_ahead"
    )


LOCAL_RUN = """
import asyncsched.cli.main, asyncsched.cli.run, asyncsched.cli.run_launch
import asyncsched.components.arguments, asyncsched.components.utils, asyncsched.schedulers.local.scheduler
"""


def test_a_run_on_this_machine_loads_nothing_that_few_runs_need() -> None:
    assert not {"bz2", "lzma", "pkgutil", "shlex", "shutil", "sysconfig", "tempfile"} & loaded_by(LOCAL_RUN)


def test_a_supervisor_loads_nothing_that_it_can_do_without() -> None:
    folder = ROOT / "asyncsched" / "schedulers" / "local"
    program = f"import sys; sys.path.append({str(folder)!r}); import supervisor.main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)

    assert "supervisor.worker" in done.stdout.split()
    assert not {"asyncio", "dataclasses", "inspect", "subprocess", "typing"} & {*done.stdout.split()}


OF_THE_COMMAND_LINE = """
import gc, sys
from asyncsched.__main__ import main
before = gc.get_stats()
sys.argv = ["asyncsched", "run", "--help"]
try:
    main()
finally:
    print(before == gc.get_stats(), file=sys.stderr)
"""


def test_the_command_line_collects_no_garbage_while_it_imports() -> None:
    done = subprocess.run([sys.executable, "-c", OF_THE_COMMAND_LINE], capture_output=True, text=True, check=True)

    assert "True\n" == done.stderr


def test_the_help_of_a_verb_needs_nothing_that_the_verb_works_with() -> None:
    verbs = "\n".join(f"import asyncsched.cli.{name}" for name in VERBS)

    assert not {"asyncio", "anyio"} & loaded_by(verbs)


def test_commands_are_started_in_one_place() -> None:
    starts = re.compile(r"\b(subprocess|create_subprocess\w+|run_process|open_process|posix_spawn\w*)\b")
    found = {
        path.relative_to(ROOT).as_posix() for path in ROOT.glob("asyncsched/**/*.py") if starts.search(path.read_text())
    }

    # Below the room of the schedulers, a Docker credential helper is asked in the thread that reads the configuration.
    assert {"asyncsched/schedulers/_common/program_start.py", "asyncsched/_dockerd/credentials.py"} == found


def test_what_the_project_names_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    services = ",".join(sorted(set(extras) - {"all", "examples", "test", "aws_batch", "gcp_batch"}))

    # The documents' names of two of them.
    assert (["asyncsched[aws]"], ["asyncsched[gcp]"]) == (extras["aws_batch"], extras["gcp_batch"])
    assert [f"asyncsched[{services}]"] == extras["all"]
    for target in project["scripts"].values():
        module, _, function = target.partition(":")

        assert callable(getattr(importlib.import_module(module), function))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)], check=True)
    (built,) = folder.glob("asyncsched-*.whl")
    return built


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert {"asyncsched"} == {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert "asyncsched/py.typed" in names


def pythons() -> Iterator[str]:
    yield str(Path(sysconfig.get_config_var("BINDIR")) / Path(sys._base_executable).name)  # type: ignore[attr-defined]  # no public name for it
    debian = Path("/usr/bin/python3")
    is_new_enough = "import sys; sys.exit(sys.version_info < (3, 11))"
    if debian.exists() and not subprocess.run([debian, "-c", is_new_enough], check=False).returncode:
        yield str(debian)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("python", dict.fromkeys(pythons()))
def test_the_wheel_works_in_an_empty_environment(wheel: Path, python: str, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([python, "-m", "venv", str(venv)], check=True)
    pip = [str(venv / "bin/pip"), "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", str(wheel)], check=True)
    command = [str(venv / "bin/python"), "-W", "error", "-c"]
    done = subprocess.run([*command, WHOLE_SURFACE], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)
    done = subprocess.run([*command, WITHOUT_EXTRAS], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)
    assert ["pip install 'asyncsched[docker]'", "pip install 'asyncsched[aws]'"] == done.stdout.splitlines()
