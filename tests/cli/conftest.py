from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli._cli import BROKEN_PLUGINS, Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The command line, with a scheduler ``stage``."""
    return Cli(tmp_path)


@pytest.fixture
def local(cli: Cli) -> Cli:
    """The same with processes on this machine instead."""
    cli.schedulers = ["local_cwd"]
    return cli


@pytest.fixture
def staged(cli: Cli) -> Cli:
    """The command line with 30 apps on ``stage``."""
    cli.environment["STAGE_APPS"] = "30"
    return cli


@pytest.fixture
def broken(cli: Cli) -> Cli:
    """The same with schedulers that do not work."""
    cli.environment["STAGE_APPS"] = "30"
    cli.plugins.append(BROKEN_PLUGINS)
    cli.schedulers += ["down", "locked", "absent"]
    return cli
