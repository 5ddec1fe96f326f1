"""What tests of TorchX have: its command line, in two environments, with the plugin installed from a wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.aws_emulator.server import Server
from tests.services.torchx_envs import TORCHX, TORCHX_NIGHTLY, TORCHX_NIGHTLY_BEFORE, environment
from tests.torchx._program import TorchX

ROOT = Path(__file__).parents[2]

BOTH = pytest.mark.parametrize("torchx", [TORCHX, TORCHX_NIGHTLY], indirect=True)
EVERY = pytest.mark.parametrize(
    "torchx",
    [TORCHX, TORCHX_NIGHTLY, pytest.param(TORCHX_NIGHTLY_BEFORE, marks=pytest.mark.heavy("torchx"))],
    indirect=True,
)
"""Both, and a nightly that does not yet merge plugins with its own."""
NIGHTLY_AND_HEAVY = pytest.mark.parametrize(
    "torchx", [TORCHX_NIGHTLY, pytest.param(TORCHX, marks=pytest.mark.heavy("torchx"))], indirect=True
)
"""Both, of which the whole run takes the nightly one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the first test with an environment the time to install it."""
    for item in items:
        if "torchx" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution asyncsched-torchx, built."""
    folder = tmp_path_factory.mktemp("torchx-plugin")
    source = shutil.copytree(ROOT / "asyncsched-torchx", folder / "source")  # building leaves nothing in ours
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(source)], check=True, timeout=240)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def without_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH, with which an environment finds asyncsched and its SDKs behind its own packages."""
    folder = tmp_path_factory.mktemp("asyncsched")
    ours = sysconfig.get_paths()["purelib"]
    folder.joinpath("sitecustomize.py").write_text(f"import site\nsite.addsitedir({ours!r})\n")
    return folder


@pytest.fixture(scope="session")
def with_plugin(wheel: Path, without_plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with the plugin."""
    folder = tmp_path_factory.mktemp("plugin")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    install = [*pip, "install", "--no-deps", "--target", str(folder), str(wheel)]
    subprocess.run(install, check=True, timeout=240)
    shutil.copy(without_plugin / "sitecustomize.py", folder)
    return folder


@pytest.fixture
def torchx(request: pytest.FixtureRequest, with_plugin: Path, tmp_path: Path) -> TorchX:
    """TorchX's command line; the parameter says which TorchX it is, the nightly one if there is none.

    It may name packages that are to be there as well, with spaces between them.
    """
    return TorchX(environment(*getattr(request, "param", TORCHX_NIGHTLY).split()), with_plugin, tmp_path)


def on_aws(server: Server) -> dict[str, str]:
    """Return the environment that leads to an emulator, for TorchX's own scheduler as for ours."""
    return {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": server.url,
    }
