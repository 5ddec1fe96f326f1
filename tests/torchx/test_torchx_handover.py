"""Jobs go from TorchX's own schedulers to the plugin and back: the same handles, the same names of tags."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from asyncsched.torchx.factories import KEEP
from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.server import Server
from tests.services.torchx_envs import TORCHX
from tests.torchx._program import TorchX
from tests.torchx.conftest import on_aws

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("torchx", [TORCHX], indirect=True)]

REVEAL = "ASYNCSCHED_TORCHX_REVEAL"
RUN = ("run", "-s", "aws_batch", "-cfg", "queue=default,user=me", "--workspace", "", "jobs.py:job", "--program")
OWN = {KEEP: "aws_batch"}


@pytest.fixture
def with_aws(torchx: TorchX) -> Iterator[TorchX]:
    cloud = Cloud()
    with Server(cloud) as server:
        torchx.environment |= on_aws(server)
        yield torchx


def test_what_torchx_submitted_is_described_read_and_cancelled(with_aws: TorchX) -> None:
    counting = "i=0; while [ $$i -lt 101 ]; do echo line $$i; i=$$((i+1)); done; exec sleep 3600"
    run = with_aws(*RUN, counting, "--replicas", "2", **OWN)
    assert 0 == run.code, run.err
    following = with_aws.start("log", "-t", f"{run.handle}/main/1")
    assert following.stdout is not None
    told = (line for line in following.stdout if line.startswith("main/1 "))  # botocore logs, too
    shown = [*itertools.islice(told, 101)]
    status = with_aws("status", run.handle)
    described = with_aws("describe", run.handle)
    cancelled = with_aws("cancel", run.handle)
    rest, _ = following.communicate(timeout=240)

    assert [f"main/1 line {i}\n" for i in range(101)] == shown
    assert "State: RUNNING" in status.out, status.err
    assert "'num_replicas': 2" in described.out, described.err
    assert (0, 0) == (cancelled.code, following.returncode), cancelled.err + rest
    assert "State: CANCELLED" in with_aws("status", run.handle).out


def test_what_the_plugin_submitted_is_in_torchx_s_own_list(with_aws: TorchX) -> None:
    run = with_aws(*RUN, "exec sleep 3600")
    listed = with_aws("list", "-s", "aws_batch", **OWN)
    with_aws("cancel", run.handle)

    assert run.handle in listed.out.split(), listed.err


def test_variables_of_what_torchx_submitted_are_shown_when_that_is_asked_for(with_aws: TorchX) -> None:
    sh = ("utils.sh", "--image", "x", "--env", "TOKEN=sesame", "sleep", "3600")
    command = ["run", "-s", "aws_batch", "-cfg", "queue=default,user=me", "--workspace", "", *sh]
    theirs, ours = with_aws(*command, **OWN), with_aws(*command)
    shown = {
        reveal: [with_aws("describe", run.handle, **{REVEAL: reveal}).out for run in (theirs, ours)]
        for reveal in ("0", "1")
    }
    for run in (theirs, ours):
        with_aws("cancel", run.handle)

    assert "'TOKEN': 'sesame'" in shown["1"][0]
    assert "sesame" not in "".join([*shown["0"], shown["1"][1]])
    assert "'TOKEN': '<NOT_KEPT>'" in shown["0"][1]
    assert "'TOKEN': '<NOT_KEPT>'" in shown["1"][1]
    assert "***" in shown["0"][0]
