"""A package of somebody else's, built, and installed beside ours in an empty environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIST = ROOT / "tests/plugin_dist"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has asyncsched, the demo package, one that is broken, and pytest."""
    folder = tmp_path_factory.mktemp("plugin")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    # Built from copies: building must not leave anything in the source.
    demo = shutil.copytree(DIST, folder / "demo")
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder / "dist"), str(ROOT), str(demo)], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    wheels = map(str, (folder / "dist").glob("*.whl"))
    install = [str(folder / "venv/bin/python"), *pip[1:], "install", "pytest", "pytest-asyncio", *wheels]
    subprocess.run(install, check=True)
    (site,) = (folder / "venv/lib").glob("python*/site-packages")
    broken = site / "broken-1.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    groups = ("schedulers", "components", "named_resources", "commands")
    entries = (f"[asyncsched.{group}]\nbroken = no_such_module:thing\n" for group in groups)
    (broken / "entry_points.txt").write_text("".join(entries))
    return folder / "venv"


def run(venv: Path, cwd: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [str(venv / "bin/asyncsched"), *args]
    env = {"HOME": str(cwd), "XDG_STATE_HOME": str(cwd), "PATH": f"{venv}/bin:/usr/bin:/bin"}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_its_scheduler_component_and_resource(venv: Path, tmp_path: Path) -> None:
    done = run(
        venv, tmp_path, "run", "-s", "demo", "-cfg", "nice=1", "--log", "demo.hello", "--name", "me", "--times", "2"
    )

    assert 0 == done.returncode, done.stderr
    assert ["greeter/0 hello me", "greeter/1 hello me"] == sorted(done.stdout.splitlines()[1:])
    assert "Greet somebody." in run(venv, tmp_path, "run", "demo.hello", "--help").stdout
    assert "nice (int) = 0" in run(venv, tmp_path, "runopts", "demo").stdout


def test_its_command(venv: Path, tmp_path: Path) -> None:
    assert "hello you\n" == run(venv, tmp_path, "greet").stdout
    assert "greet" in run(venv, tmp_path, "--help").stdout


def test_nothing_built_in_is_hidden(venv: Path, tmp_path: Path) -> None:
    listed = run(venv, tmp_path, "builtins").stdout

    assert "demo.hello" in listed
    assert "utils.echo" in listed
    assert 0 == run(venv, tmp_path, "run", "-s", "demo", "--log", "utils.echo").returncode


def test_a_broken_package_is_a_line_of_the_doctor_and_stops_nobody(venv: Path, tmp_path: Path) -> None:
    done = run(venv, tmp_path, "doctor")
    checks = {line.split("  ")[0]: line for line in done.stdout.splitlines()}

    assert 2 == done.returncode
    for kind in ("component", "named resource", "command"):
        assert "broken, from broken" in checks[f"{kind} broken"]
        assert "No module named 'no_such_module'" in checks[f"{kind} broken"]
    assert "No module named 'no_such_module'" in checks["scheduler broken"]
    assert "from asyncsched-demo" in checks["command greet"]
    told = run(venv, tmp_path, "broken")

    assert 2 == told.returncode
    assert "error: the command broken cannot be loaded from no_such_module:thing" in told.stderr


def test_it_passes_the_public_contract_suite(venv: Path, tmp_path: Path) -> None:
    shutil.copy(DIST / "contract.py", tmp_path / "test_contract.py")
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    command = [str(venv / "bin/python"), "-m", "pytest", "-q", "test_contract.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=200)

    assert 0 == done.returncode, done.stdout
    assert " passed" in done.stdout
