"""Which schedulers there are, and what is said when one cannot be had."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from asyncsched.errors import ConfigError, MissingExtraError, UnknownSchedulerError
from asyncsched.runner.config import load_config, run_options
from asyncsched.schedulers import (
    Scheduler,
    get_default_scheduler_name,
    get_scheduler,
    get_scheduler_factories,
    registry,
)
from asyncsched.schedulers.built_in import BUILT_IN, BuiltIn
from asyncsched.schedulers.registry import _LazyFactory, find_factory
from asyncsched.specs import runopts
from asyncsched.testing import FakeOptions


def plugin(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, registry.GROUP)


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    entries: list[EntryPoint] = []
    monkeypatch.setattr(registry, "entry_points_of", lambda group: EntryPoints(entries))
    return entries


def test_processes_of_this_machine_are_the_default() -> None:
    assert "local_cwd" == get_default_scheduler_name() == next(iter(get_scheduler_factories()))


def test_plugins_stand_beside_the_built_in(plugins: list[EntryPoint]) -> None:
    before = list(get_scheduler_factories())
    plugins.append(plugin("fake", "asyncsched.testing.fake:create_scheduler"))

    assert [*before, "fake"] == list(get_scheduler_factories())
    made = get_scheduler("fake", "mine")
    assert ("fake", "mine") == (made.backend, made.session_name)


def test_a_plugin_never_takes_a_built_in_name(plugins: list[EntryPoint], caplog: pytest.LogCaptureFixture) -> None:
    plugins.append(plugin("local_cwd", "asyncsched.testing.fake:create_scheduler"))

    get_scheduler_factories()

    assert 1 == len(caplog.messages)
    assert "local_cwd" in caplog.messages[0]


def test_a_broken_plugin_is_not_touched_until_it_is_asked_for(plugins: list[EntryPoint]) -> None:
    plugins.append(plugin("broken", "no_such_module:create_scheduler"))

    assert "broken" in get_scheduler_factories()
    with pytest.raises(ConfigError, match=r"cannot be loaded from no_such_module.*: ModuleNotFoundError"):
        get_scheduler("broken", "mine")


@pytest.mark.parametrize(
    ("value", "why"),
    [("tests.schedulers.broken_factory:raises", "KeyError: 'HOME_OF_IT'"),
     ("tests.schedulers.broken_factory:leaves", "SystemExit: 3"),
     ("tests.schedulers.broken_factory", "TypeError: 'module' object is not callable")],
)  # fmt: skip
def test_a_plugin_that_cannot_be_made_says_whose_it_is(plugins: list[EntryPoint], value: str, why: str) -> None:
    plugins.append(plugin("broken", value))

    with pytest.raises(ConfigError, match="the scheduler broken cannot be loaded") as caught:
        get_scheduler("broken", "mine")
    assert why == caught.value.why


def test_a_plugin_that_says_what_it_misses_is_heard(plugins: list[EntryPoint]) -> None:
    plugins.append(plugin("broken", "tests.schedulers.broken_factory:misses"))

    with pytest.raises(MissingExtraError, match="pip install it"):
        get_scheduler("broken", "mine")


def test_a_plugin_that_makes_something_else_is_refused(plugins: list[EntryPoint]) -> None:
    plugins.append(plugin("text", "builtins:str"))

    with pytest.raises(ConfigError, match="the plugin text returned no scheduler") as caught:
        get_scheduler("text", "mine")
    assert "builtins:str returned a str" in caught.value.why


def test_an_unknown_name_is_told_the_nearest(plugins: list[EntryPoint]) -> None:
    plugins.append(plugin("fake", "asyncsched.testing.fake:create_scheduler"))

    with pytest.raises(UnknownSchedulerError, match="did you mean fake"):
        get_scheduler("fkae", "mine")


def test_a_name_that_has_not_landed_says_so() -> None:
    with pytest.raises(UnknownSchedulerError, match="not part of this release"):
        find_factory("gcp_batch", {})


def test_a_missing_extra_names_the_command() -> None:
    factory = _LazyFactory("far_away", BuiltIn("asyncsched.testing.fake", "far", "no_such_package"))

    with pytest.raises(MissingExtraError, match=r"pip install 'asyncsched\[far\]'"):
        factory("mine")


WITH_EXTRA = [name for name in get_scheduler_factories() if name in BUILT_IN and BUILT_IN[name].package]


@pytest.mark.parametrize("name", WITH_EXTRA)
def test_a_backend_that_is_made_directly_names_its_extra_too(name: str) -> None:
    built_in = BUILT_IN[name]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, built_in.module, built_in.package], capture_output=True, text=True, check=True
    )
    told = done.stdout.splitlines()

    assert 2 == len(told)
    package = built_in.package.replace(".", "-")
    command = f"needs the package {package}: it is not installed; pip install 'asyncsched[{built_in.extra}]'"
    assert [f"MissingExtraError: {name} {command}"] * 2 == told


WITHOUT = """
import importlib, sys

name, package = sys.argv[1:]
sys.modules[package] = None  # what Python itself takes for a package that is not there
backend = importlib.import_module(name)
(made,) = [getattr(backend, each) for each in backend.__all__ if each.endswith("Scheduler")]
for make in (made, backend.create_scheduler):
    try:
        make("session")
    except ImportError as error:
        print(f"{type(error).__name__}: {error}")
"""


def test_pushing_an_image_names_its_extra() -> None:
    code = "import asyncio, sys; sys.modules['aiodocker'] = None; " + PUSHES
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    command = "pip install 'asyncsched[docker]'"
    assert f"pushing an image needs the package aiodocker: it is not installed; {command}" == done.stdout.strip()


PUSHES = """
from asyncsched.errors import MissingExtraError
from asyncsched.schedulers.aws_batch import AWSBatchScheduler
from asyncsched.specs import AppDef, Resource, Role

class StandIn:
    async def submit_job(self, **_): raise AssertionError("nothing is sent")

async def main():
    app = AppDef("job", [Role("main", "image", entrypoint="sh", resource=Resource(cpu=1, gpu=0, memMB=64))])
    async with AWSBatchScheduler("session", StandIn(), region="us-east-1") as scheduler:
        info = await scheduler.submit_dryrun(app, {"queue": "q"})
        info.request.images_to_push["local"] = "repository", "tag"
        try:
            await scheduler.schedule(info)
        except MissingExtraError as error:
            print(error)

asyncio.run(main())
"""


def test_a_true_import_error_inside_a_backend_surfaces() -> None:
    factory = _LazyFactory("broken", BuiltIn("tests.schedulers.broken_backend"))

    with pytest.raises(ImportError, match="a_name_that_is_not_there") as caught:
        factory("mine")
    assert not isinstance(caught.value, MissingExtraError)


def test_listing_schedulers_imports_none_of_them() -> None:
    code = (
        "import sys; from asyncsched.schedulers import get_scheduler_factories; get_scheduler_factories();"
        "sdks = {'aiodocker', 'aiobotocore', 'kubernetes_asyncio', 'gcloud', 'anyio'} & set(sys.modules);"
        "backends = ('asyncsched.schedulers.local', 'asyncsched.schedulers.docker');"
        "print(sorted(sdks), [name for name in sys.modules if name.startswith(backends)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[] []" == done.stdout.strip()


@pytest.mark.parametrize("name", [name for name in registry.known_names() if registry.find_built_in(name)])
def test_the_parameters_that_are_declared_are_those_that_the_factory_takes(name: str) -> None:
    built_in = BUILT_IN[name]
    create = importlib.import_module(built_in.module).create_scheduler
    taken = [each.name for each in inspect.signature(create).parameters.values() if each.kind is not each.VAR_KEYWORD]

    assert ["session_name", *built_in.takes] == taken
    assert {*built_in.parameters} <= {*built_in.takes}


@pytest.mark.parametrize("name", [name for name in registry.known_names() if registry.find_built_in(name)])
def test_no_variable_that_a_scheduler_reads_itself_is_a_run_option(name: str, tmp_path: Path) -> None:
    package = Path(str(importlib.import_module(BUILT_IN[name].module).__file__)).parent
    named = re.compile(rf'"(ASYNCSCHED_{name.upper()}_\w+)"')
    read = {each: "x" for path in package.rglob("*.py") for each in named.findall(path.read_text())}
    config = load_config(tmp_path, {"HOME": str(tmp_path), **read})

    assert {*BUILT_IN[name].variables} <= {*read}
    assert {} == run_options(config, name, runopts())


def test_a_scheduler_may_leave_out_the_type_of_its_request() -> None:
    class Halfway(Scheduler[FakeOptions]):
        """Its request is of any type."""

    assert Scheduler[FakeOptions] == Scheduler[FakeOptions, Any]
    assert issubclass(Halfway, Scheduler)
