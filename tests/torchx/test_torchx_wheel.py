"""What installing the plugin, built as a wheel, registers with TorchX; and what asyncsched alone does not."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
import tomllib
import zipfile
from pathlib import Path

import pytest

import asyncsched
from asyncsched.schedulers.registry import known_names
from asyncsched.torchx.factories import KEEP, NAMES, OURS
from tests.services.torchx_envs import TORCHX_NIGHTLY, TORCHX_NIGHTLY_BEFORE
from tests.torchx._program import TorchX
from tests.torchx.conftest import EVERY, ROOT

pytestmark = pytest.mark.slow

NEW = pytest.mark.parametrize(
    "torchx",
    [TORCHX_NIGHTLY, pytest.param(TORCHX_NIGHTLY_BEFORE, marks=pytest.mark.heavy("torchx"))],
    indirect=True,
)

PROJECT = tomllib.loads((ROOT / "asyncsched-torchx/pyproject.toml").read_text())["project"]

REGISTERED = """
import json
from torchx.schedulers import DEFAULT_SCHEDULER_MODULES, get_default_scheduler_name, get_scheduler_factories
names = [*get_scheduler_factories()]
print(json.dumps([get_default_scheduler_name(), names, [*DEFAULT_SCHEDULER_MODULES]]))
"""

MODULES = """
import sys
from torchx.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
import threading
ours = sorted(name for name in sys.modules if name.partition(".")[0] == "asyncsched")
print("modules", ours, "threads", [each.name for each in threading.enumerate()], file=sys.stderr)
"""


def test_it_is_of_the_same_version_and_depends_on_nothing_else() -> None:
    assert asyncsched.__version__ == PROJECT["version"]
    assert [f"asyncsched=={asyncsched.__version__}"] == PROJECT["dependencies"]


def test_the_wheel_keeps_the_order_and_its_record_is_true(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        text = archive.read(next(name for name in names if name.endswith("entry_points.txt"))).decode()
        record = archive.read(next(name for name in names if name.endswith("RECORD"))).decode()
        for name, digest, size in csv.reader(record.splitlines()):
            data = archive.read(name)
            told = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert name.endswith("RECORD") or (f"sha256={told}", str(len(data))) == (digest, size)
    code = [name for name in names if ".dist-info/" not in name]

    assert [*NAMES] == re.findall(r"^(\w+) =", text, re.MULTILINE)
    assert ["torchx_plugins/schedulers/asyncsched.py"] == code


def test_what_asyncsched_has_is_ours() -> None:
    assert {*known_names()} == {*OURS}
    assert {*OURS} <= {*NAMES}
    assert [*NAMES] == [*PROJECT["entry-points"]["torchx.schedulers"]]


@EVERY
def test_the_default_is_torchx_s_and_no_builtin_is_hidden(torchx: TorchX) -> None:
    default, names, builtin = json.loads(torchx.python(REGISTERED).out)

    assert "local_docker" == default
    assert set(builtin) <= set(names)
    assert [*NAMES] == names


@NEW
def test_a_torchx_that_reads_no_entry_points_finds_the_namespace_package(torchx: TorchX) -> None:
    default, names, _ = json.loads(torchx.python(REGISTERED, TORCHX_PLUGINS_SOURCE="1").out)

    assert ("local_docker", [*NAMES]) == (default, names)
    assert ["echo/0 hello"] == torchx(
        "run", "-s", "local_cwd", "utils.echo", "--msg", "hello", TORCHX_PLUGINS_SOURCE="1"
    ).lines


@NEW
def test_nothing_is_registered_twice(torchx: TorchX) -> None:
    program = "from torchx import plugins; plugins.registry().info(); print(plugins.registry().load_errors())"

    assert "[]" == torchx.python(program).out.strip()


@EVERY
def test_without_the_plugin_nothing_of_ours_is_registered(torchx: TorchX, without_plugin: Path) -> None:
    torchx.path = without_plugin
    _, names, builtin = json.loads(torchx.python(REGISTERED).out)
    made = torchx.python(
        "import asyncsched\n"
        "from torchx.schedulers import get_scheduler_factories\n"
        "print(type(get_scheduler_factories()['local_cwd']('session')).__module__)"
    )

    assert names == builtin
    assert "torchx.schedulers.local_scheduler" == made.out.strip(), made.err


@EVERY
def test_help_imports_nothing_of_ours(torchx: TorchX) -> None:
    assert "modules [] threads ['MainThread']" in torchx.python(MODULES, "--help").err


@EVERY
@pytest.mark.parametrize("name", OURS)
def test_runopts_start_no_thread(torchx: TorchX, name: str) -> None:
    done = torchx.python(MODULES, "runopts", name)

    assert "threads ['MainThread']" in done.err
    assert "usage:" in done.out, done.err


@EVERY
def test_a_missing_extra_is_one_error_with_what_brings_it(torchx: TorchX) -> None:
    program = "import sys; sys.modules['aiodocker'] = None; from torchx.cli.main import main; main(sys.argv[1:])"
    done = torchx.python(program, "run", "--workspace", "", "utils.echo")

    assert 1 == done.code
    assert 1 == done.err.count("Traceback"), done.err
    assert "local_docker needs the package aiodocker" in done.err
    assert "pip install 'asyncsched[docker]'" in done.err


@EVERY
def test_torchx_prints_the_options_of_all_and_passes_over_what_it_does_not_have(torchx: TorchX) -> None:
    done = torchx("runopts")

    assert 0 == done.code, done.err
    assert [f"{name}:" for name in NAMES] == re.findall(r"^\w+:", done.out, re.MULTILINE)
    # The package ray is not installed: without the plugin 0.7 fails here, as its module has a NameError then.
    why = "cannot import TorchX's own scheduler ray: NameError" if torchx.is_old else "this release of TorchX has no"
    assert f"ray: {why}" in done.out


@EVERY
def test_torchx_writes_a_configuration_with_the_options_of_all(torchx: TorchX) -> None:
    done = torchx("configure")

    assert 0 == done.code, done.err
    assert "[aws_batch]\nqueue = #FIXME" in torchx.folder.joinpath(".torchxconfig").read_text()


@EVERY
def test_kept_names_are_torchx_s_own(torchx: TorchX) -> None:
    program = (
        "from torchx.schedulers import get_scheduler_factories as factories\n"
        "for name in ('local_cwd', 'slurm'):\n"
        "    print(type(factories()[name]('session')).__module__)"
    )
    kept = torchx.python(program, **{KEEP: "local_cwd, nosuch"})

    assert ["torchx.schedulers.local_scheduler", "asyncsched.torchx.scheduler"] == kept.out.split(), kept.err
    assert "nosuch" in kept.err
