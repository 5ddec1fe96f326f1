"""Apps and components that were written for TorchX, run here; TorchX is never imported for them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from asyncsched.components import get_component, get_components
from asyncsched.errors import ComponentError, ConfigError
from asyncsched.specs import AppDef, Role
from tests.runner.rig import Rig
from tests.services.torchx_envs import ROOT
from tests.torchx.twins import NEW, OLD

COMPONENT = """
from typing import Annotated, Dict, List, Optional
from tests.torchx.twins import NEW as specs

def hello(
    *words: str, name: Annotated[str, "-nm"] = "you", env: Optional[Dict[str, str]] = None
) -> specs.AppDef:
    "Greet."
    role = specs.Role("hello", "", entrypoint="echo", args=["$$5", "$app_id", name, *words], env=env or {})
    return specs.AppDef("hello", roles=[role])

def unwritable() -> specs.AppDef:
    return specs.AppDef("hello", roles=[specs.Role("hello", "", args=["$$${app_id}"])])
"""


@pytest.fixture
async def rig() -> AsyncGenerator[Rig]:
    async with Rig() as rig:
        yield rig


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.py").write_text(COMPONENT)
    return tmp_path


def install(site: Path, monkeypatch: pytest.MonkeyPatch, entries: str) -> None:
    """Make an installed distribution with a package of components for TorchX: ``hello`` in it, and below it."""
    for folder in ("their_package", "their_package/deep", "their-1.dist-info"):
        (site / folder).mkdir(parents=True)
    for module in ("__init__", "deep/__init__", "deep/inner"):
        (site / f"their_package/{module}.py").write_text(COMPONENT)
    (site / "their-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: their\nVersion: 1\n")
    (site / "their-1.dist-info/entry_points.txt").write_text(f"[torchx.components]\n{entries}\n")
    for module in ("their_package", "their_package.deep", "their_package.deep.inner"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.syspath_prepend(site)


def test_a_component_that_returns_an_app_of_torchx(here: Path) -> None:
    app = get_component("theirs.py:hello").app(["-nm", "me", "--env", "A=1", "--", "x"])

    assert AppDef is type(app)
    assert ["$5", "${app_id}", "me", "x"] == app.roles[0].args
    assert {"A": "1"} == app.roles[0].env


def test_what_cannot_be_written_here_is_told_by_role(here: Path) -> None:
    with pytest.raises(ConfigError, match=r"role 'hello': args\[0\] cannot be converted"):
        get_component("theirs.py:unwritable").app()


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ("greet = their_package", ["greet.hello", "greet.deep.hello", "greet.deep.inner.hello"]),
        ("_0 = their_package", ["hello", "deep.hello", "deep.inner.hello"]),
        ("my.greeting = their_package:hello", ["my.greeting"]),
    ],
)
def test_components_that_packages_bring_for_torchx(
    here: Path, monkeypatch: pytest.MonkeyPatch, entry: str, names: list[str]
) -> None:
    install(here / "site", monkeypatch, entry)

    for name in names:
        assert "hello" == get_component(name).app().name
    assert {*names, "utils.echo"} <= {*get_components()}
    with pytest.raises(ComponentError, match=f"no component {names[0]}.more"):
        get_component(f"{names[0]}.more")


def test_what_a_package_registers_again_for_torchx_is_ours(
    here: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (here / "site").mkdir()
    install(here / "site", monkeypatch, "utils = their_package")
    (here / "site/their_package/__init__.py").write_text(COMPONENT.replace("hello(", "echo("))

    assert "echo" == get_components()["utils.echo"].app().name
    assert "" == caplog.text


def test_a_broken_module_below_another_names_its_package(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(here / "site", monkeypatch, "greet = their_package")
    (here / "site/their_package/deep/__init__.py").write_text("import no_such_module_at_all")

    with pytest.raises(ComponentError, match="the components greet cannot be loaded from their_package"):
        get_component("greet.deep.hello")


@pytest.mark.parametrize("module", [OLD, NEW], ids=["old", "new"])
async def test_a_runner_takes_an_app_of_torchx(rig: Rig, module: object) -> None:
    theirs = module.AppDef("job", [module.Role("main", "i", entrypoint="x", args=["$app_id $$"])])  # type: ignore[attr-defined]
    ours = AppDef("job", [Role("main", "i", entrypoint="x", args=["${app_id} $"])])
    planned, same = await rig.runner.dryrun(theirs, "push", key="k"), await rig.runner.dryrun(ours, "push", key="k")
    handle = await rig.runner.run(theirs, "push", key="k")

    assert same.request == planned.request
    assert handle == await rig.runner.run(ours, "push", key="k")
    assert ["$app_id $$"] == theirs.roles[0].args


async def test_an_app_of_torchx_that_is_wrong_is_refused_as_ours_is(rig: Rig) -> None:
    with pytest.raises(ValueError, match="role 'main' has no entrypoint"):
        await rig.runner.run(OLD.AppDef("job", [OLD.Role("main", "i")]), "push")
    assert {} == rig.push.apps


async def test_a_hook_of_theirs_changes_what_is_sent(rig: Rig) -> None:
    class Mine(NEW.Role):  # type: ignore[name-defined]
        def pre_proc(self, scheduler: str, dryrun_info: object) -> object:
            dryrun_info.request.queue = scheduler  # type: ignore[attr-defined]
            return dryrun_info

    info = await rig.runner.dryrun(NEW.AppDef("job", [Mine("main", "i", entrypoint="x")]), "push")

    assert "fake" == info.request.queue  # which is what the scheduler in memory calls itself


def test_an_app_of_ours_loads_nothing_for_torchx() -> None:
    program = (
        "import sys, asyncsched.runner\nfrom asyncsched.components import get_component\n"
        "get_component('utils.echo').app()\nprint([name for name in sys.modules if 'torchx' in name.split('.')])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    assert "[]\n" == done.stdout
