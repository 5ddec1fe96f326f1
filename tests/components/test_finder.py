from __future__ import annotations

import sys
from pathlib import Path

import pytest

from asyncsched.components import get_component, get_components
from asyncsched.errors import ComponentError

GOOD = """
from asyncsched import AppDef, Role
from helper_beside_it import IMAGE

def train(data: str, n: int = 1) -> AppDef:
    "Train it."
    return AppDef("train", [Role("worker", IMAGE, entrypoint="train", args=[data], num_replicas=n)])
"""
WRONG = """
from asyncsched import AppDef

def train(
    data: str,
    lr=3,
    *xs: list[int],
    when: complex = 1j,
    **more: str,
):
    return None
"""
PLUGIN = """
from asyncsched import AppDef, Role

def hello(name: str = "you") -> AppDef:
    "Greet."
    return AppDef("hello", [Role("hello", "", entrypoint="echo", args=[name])])

def echo() -> AppDef:
    "Stand in for utils.echo."
    return AppDef("impostor", [])
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper_beside_it.py").write_text("IMAGE = 'img'")
    (tmp_path / "my_job.py").write_text(GOOD)
    (tmp_path / "wrong.py").write_text(WRONG)
    for module in ("helper_beside_it", "my_job", "wrong", "a_plugin"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return tmp_path


def install(where: Path, monkeypatch: pytest.MonkeyPatch, entries: str) -> None:
    """Make an installed distribution, as an installer leaves it."""
    site = where / "site"
    meta = site / "a_plugin-1.dist-info"
    meta.mkdir(parents=True)
    (site / "a_plugin.py").write_text(PLUGIN)
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: a-plugin\nVersion: 1\n")
    (meta / "entry_points.txt").write_text(f"[asyncsched.components]\n{entries}\n")
    monkeypatch.syspath_prepend(site)


def test_built_in_ones_are_all_there() -> None:
    utils = ["binary", "booth", "copy", "echo", "python", "sh", "touch"]

    assert ["dist.ddp", "dist.spmd", *(f"utils.{name}" for name in utils)] == [*get_components()]


def test_every_built_in_argument_is_explained() -> None:
    silent = [
        f"{name} {parameter.flag}"
        for name, component in get_components().items()
        for parameter in component.parameters
        if not parameter.help
    ]

    assert [] == silent


@pytest.mark.parametrize("name", ["my_job.py:train", "./my_job.py:train", "my_job.train"])
def test_a_function_in_a_file_or_module(here: Path, name: str) -> None:
    app = get_component(name).app(["--data", "x", "-n", "3"])

    assert ("img", ["x"], 3) == (app.roles[0].image, app.roles[0].args, app.roles[0].num_replicas)


def test_annotations_may_be_quoted_deferred_and_aliased(here: Path) -> None:
    (here / "later.py").write_text(
        "from __future__ import annotations\n"
        "from typing import TYPE_CHECKING\n"
        "import asyncsched as a\n"
        "from asyncsched import AppDef as App\n"
        "if TYPE_CHECKING:\n"
        "    from asyncsched import AppDef\n"
        "def one(x: 'int', y: 'list[str] | None' = None) -> 'AppDef':\n    return App(f'{x + 1} {y}', [])\n"
        "def two() -> App:\n    return App('two', [])\n"
        "def three() -> 'a.AppDef':\n    return App('three', [])\n"
        "def four() -> 'int':\n    return 4\n"
    )

    assert "2 ['a', 'b']" == get_component("later.py:one").app(["-x", "1", "-y", "a,b"]).name
    assert ["two", "three"] == [get_component(f"later.py:{name}").app().name for name in ("two", "three")]
    with pytest.raises(ComponentError, match=r"later\.py:13: it returns int: a component returns an AppDef"):
        get_component("later.py:four")


def test_sys_path_is_as_before(here: Path) -> None:
    before = list(sys.path)
    get_component("my_job.py:train")
    get_component("my_job.train")

    assert before == sys.path


def test_each_fault_is_told_with_file_and_line(here: Path) -> None:
    with pytest.raises(ComponentError) as caught:
        get_component("wrong.py:train")

    assert [
        "wrong.py:6: lr has no annotation: write its type, such as lr: str",
        "wrong.py:7: *xs: list[int]: each argument is one value, such as str",
        "wrong.py:8: when has the unsupported type complex: use str, int, float, bool, "
        "Literal of strings, list[...], dict[str, ...], and each of them | None",
        "wrong.py:9: **more: a component must name all of its arguments",
        "wrong.py:4: train has no return annotation: write -> AppDef",
    ] == caught.value.why.splitlines()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("utils.ehco", "did you mean utils.echo?"),
        ("echo", "did you mean utils.echo?"),
        ("nothing", "use one of dist.ddp, "),
        ("no_such_module.train", "cannot import the module no_such_module"),
        ("my_job.trian", "did you mean my_job.train?"),
        ("my_job.py:trian", "did you mean my_job.py:train?"),
        ("my_job.py:_private", "it has train"),
        ("nofile.py:train", "no file nofile.py"),
        ("my_job.py:IMAGE", "not a function"),
        ("syntax.py:train", "syntax.py:2: SyntaxError"),
        ("raises.py:train", "raises.py:3: KeyError: 'HERE'"),
        ("leaves.py:train", "leaves.py:1: SystemExit: 3"),
        ("imports.py:train", "No module named 'not_installed_at_all'"),
        ("data.txt:train", "not a Python file"),
        ("my_job.py", "did you mean my_job.py:train?"),
        ("./my_job.py", "did you mean ./my_job.py:train?"),
        ("raises.py", "raises.py is a file, not a component"),
        ("syntax.py", "add the function's name: syntax.py:function"),
        ("./nofile.py", "no file ./nofile.py: looked in "),
        ("my_jbo.py", "did you mean my_job.py?"),
        ("./data.txt", "./data.txt is a file, not a component"),
        (".", ". is a directory, not a component"),
        ("..train", "no file ..train"),
        ("", "no component ''"),
        ("my_job:train", "did you mean my_job.py:train?"),
        ("waits.py:train", "waits.py:2: train is a coroutine"),
    ],
)
def test_what_cannot_be_found_says_why(here: Path, name: str, told: str) -> None:
    (here / "syntax.py").write_text("def train() -> AppDef:\n    return (\n")
    (here / "raises.py").write_text("import os\n\nos.environ['HERE']\n")
    (here / "leaves.py").write_text("raise SystemExit(3)")
    (here / "imports.py").write_text("import not_installed_at_all")
    (here / "data.txt").write_text("")
    (here / "waits.py").write_text("from asyncsched import AppDef\nasync def train() -> AppDef: ...\n")
    with pytest.raises(ComponentError) as caught:
        get_component(name)

    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("greetings = a_plugin", "greetings.hello"),
        ("_0 = a_plugin", "hello"),
        ("my.greeting = a_plugin:hello", "my.greeting"),
    ],
)
def test_an_installed_package_brings_components(
    here: Path, monkeypatch: pytest.MonkeyPatch, entry: str, name: str
) -> None:
    install(here, monkeypatch, entry)

    assert ["me"] == get_component(name).app(["--name", "me"]).roles[0].args
    assert {name, "utils.echo"} <= {*get_components()}


def test_a_package_cannot_take_a_built_in_name(
    here: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(here, monkeypatch, "utils = a_plugin")

    assert "echo" == get_component("utils.echo").app().name
    assert "echo" == get_components()["utils.echo"].app().name
    assert "the component utils.echo of a_plugin is ignored" in caplog.text


def test_a_broken_package_hides_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(here, monkeypatch, "broken = no_such_module_at_all\ngreetings = a_plugin")

    assert {"greetings.hello", "utils.echo"} <= {*get_components()}
    assert "hello" == get_component("greetings.hello").app().name
    assert "the components broken of no_such_module_at_all cannot be loaded" in caplog.text
    with pytest.raises(ComponentError, match="repair or remove the package"):
        get_component("broken.thing")
