"""A `.torchxconfig` that was written for TorchX's own schedulers goes on as it is, with every run option they have."""

from __future__ import annotations

import json

import pytest

from tests.services.torchx_envs import TORCHX, TORCHX_NIGHTLY
from tests.torchx._program import TorchX
from tests.torchx.conftest import BOTH

pytestmark = pytest.mark.slow

CONFIG = """
[cli:run]
component = utils.echo
scheduler = local_cwd
[component:utils.echo]
msg = from the file
[local_cwd]
log_dir = {logs}
[aws_batch]
queue = main
user = me
share_id = team
priority = 5
[slurm]
mail-user = me@example.org
mail-type = END,FAIL
"""

AWS = {"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}


@BOTH
def test_a_file_gives_the_scheduler_the_component_and_the_run_options(torchx: TorchX) -> None:
    logs = torchx.folder / "logs"
    torchx.folder.joinpath(".torchxconfig").write_text(CONFIG.format(logs=logs))
    run = torchx("run", "--workspace", "")
    on_aws = torchx("run", "--dryrun", "-s", "aws_batch", "--workspace", "", "jobs.py:job", "--program", "true", **AWS)
    on_slurm = torchx("run", "--dryrun", "-s", "slurm", "--workspace", "", "jobs.py:job", "--program", "true")

    assert (0, ["echo/0 from the file"]) == (run.code, run.lines), run.err
    assert [*logs.rglob("stdout.log")]
    assert all(text in on_aws.out for text in ("main", "team", "me", "5")), on_aws.err
    assert "--mail-user=me@example.org" in on_slurm.out, on_slurm.err
    assert "--mail-type=END,FAIL" in on_slurm.out


@BOTH
def test_a_file_gives_asyncsched_the_same_run_options(torchx: TorchX) -> None:
    torchx.folder.joinpath(".torchxconfig").write_text(CONFIG.format(logs=torchx.folder / "logs"))
    ours = [str(torchx.venv / "bin/python"), "-m", "asyncsched", "run", "--dryrun", "-s", "slurm"]
    done = torchx.command(*ours, "jobs.py:job", "--program", "true")

    assert 0 == done.code, done.err
    assert "--mail-user=me@example.org" in done.out
    assert "--mail-type=END,FAIL" in done.out


@BOTH
def test_a_component_of_torchx_takes_what_its_file_says(torchx: TorchX) -> None:
    torchx.folder.joinpath(".torchxconfig").write_text(CONFIG.format(logs=torchx.folder / "logs"))
    ours = [str(torchx.venv / "bin/python"), "-m", "asyncsched", "run", "--log", "torchx.components.utils.echo"]
    done = torchx.command(*ours)

    assert (0, ["echo/0 from the file"]) == (done.code, done.lines), done.err


OPTIONS = """
import importlib, json, typing
from torchx.schedulers import DEFAULT_SCHEDULER_MODULES, get_scheduler_factories
from asyncsched.torchx.factories import OURS
missing = []
for name in OURS:
    if name in DEFAULT_SCHEDULER_MODULES:
        theirs = importlib.import_module(DEFAULT_SCHEDULER_MODULES[name]).create_scheduler("session").run_opts()
        ours = dict(get_scheduler_factories()[name]("session").run_opts())
        for key, opt in theirs:
            kinds = [str(each.opt_type).lower().replace("typing.", "") for each in (opt, ours.get(key, opt))]
            if key not in ours or kinds[0] != kinds[1] or opt.default != ours[key].default:
                missing.append(f"{name}.{key}")
print(json.dumps(missing))
"""

LACKING = {
    TORCHX: [],
    TORCHX_NIGHTLY: [
        "slurm.workspace_type",
        "slurm.image_repo",
        "slurm.quiet",
        "kubernetes.validate_spec",
        "kubernetes.efa_device_count",
    ],
}
"""What the page names: run options that are not there, or have another default."""


@pytest.mark.parametrize(("torchx", "lacking"), LACKING.items(), indirect=["torchx"])
def test_every_run_option_of_torchx_is_there(torchx: TorchX, lacking: list[str]) -> None:
    done = torchx.python(OPTIONS)

    assert 0 == done.code, done.err
    assert lacking == json.loads(done.out)
