"""Groups of jobs from code that cannot await."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsched import AppState
from asyncsched.clock import Clock
from asyncsched.errors import MissingExtraError
from asyncsched.logs.line import LogLine
from asyncsched.runner import AppEvent
from asyncsched.sync import SyncRunner
from asyncsched.testing import FakeScheduler, FakeService
from tests._support import eventually_blocking
from tests.runner.groups_rig import work


def test_a_sweep() -> None:
    service = FakeService(Clock())
    with SyncRunner("me", {"fake": FakeScheduler("me", service)}) as runner:
        with runner.group(limit=2) as group:
            jobs = [group.start(work(f"echo {index}")) for index in range(5)]
            assert {*jobs} == {*group.as_completed()}
            assert ["3"] == [line.text for line in jobs[3].log_lines()]
        assert f"{group.name}: 5/5 done, 0 failed, 0 running, 0 waiting" == str(group)
        assert {AppState.SUCCEEDED} == {job.wait().state for job in jobs}
        with pytest.raises(ExceptionGroup, match="did not succeed"):
            with runner.group() as group:
                group.start(work("exit 1"))
        assert ["FAILED", "SUCCEEDED"] == [str(job.state) for job in runner.run_all([work("exit 1"), work()])]


def test_states_lines_and_kept_logs(tmp_path: Path) -> None:
    service = FakeService(Clock())
    with SyncRunner("me", {"fake": FakeScheduler("me", service)}) as runner:
        with runner.group(limit=1, keep_logs=tmp_path) as group:
            jobs = [group.start(work(f"echo {index}")) for index in range(2)]
            told = [*group.events()]
            with pytest.raises(MissingExtraError, match="notebook"):
                group.monitor()
        assert ["0", "1"] == sorted(each.text for each in told if isinstance(each, LogLine))
        assert {job.handle for job in jobs} == {  # an app's end follows its own lines, not another app's end
            each.handle for each in told if isinstance(each, AppEvent) and each.is_terminal()
        }
        assert ["0\n", "1\n"] == sorted(path.read_text() for path in tmp_path.rglob("*.log"))
        assert {} == group.lost_logs
    service.close()


def test_a_block_that_raises_ends_its_jobs() -> None:
    service = FakeService(Clock())
    with SyncRunner("me", {"fake": FakeScheduler("me", service)}) as runner:
        with pytest.raises(ZeroDivisionError):
            with runner.group() as group:
                job = group.start(work("sleep 1000"))
                eventually_blocking(lambda: job.state is AppState.RUNNING)
                raise ZeroDivisionError
        assert AppState.CANCELLED is job.state
        with runner.job(work("sleep 1000")) as job:
            pass
        assert AppState.CANCELLED is job.wait().state
    service.close()
