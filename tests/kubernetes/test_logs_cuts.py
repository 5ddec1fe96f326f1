"""Wherever connections are cut, each line comes once and in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncsched.clock import Clock
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.client_config import ConfigSource
from tests.kubernetes._logs import Bench, bench, ended, make_pod, run_of, texts
from tests.kubernetes_fake import FakeCluster, Fault

pytestmark = pytest.mark.service("kubernetes-fake")

SECOND = 1_000_000_000
T0 = 1_795_000_000 * SECOND


@contextmanager
def written(fake: FakeCluster, gaps: list[int]) -> Iterator[list[str]]:
    """Let the container's log be lines with so many nanoseconds between them; equal ones are told apart by nothing."""

    def write() -> list[str]:
        run = run_of(fake)
        run.entries.clear()
        at = T0
        for number, gap in enumerate(gaps):
            at += gap
            run.add(at, f"line {number // 2}\n")
        return [entry.data.decode().rstrip("\n") for entry in run.entries]

    yield fake.run(write)
    fake.run(fake.traffic.faults.clear)


GAPS = st.lists(st.sampled_from([1, 1000, SECOND // 3, SECOND, 3 * SECOND]), min_size=1, max_size=40)
CUTS = st.lists(st.tuples(st.integers(0, 1500), st.sampled_from([0, 7])), max_size=6)
"""After how many bytes connections are cut, and in pieces of how many they come (0: as one)."""


@pytest.mark.slow
@pytest.mark.parametrize("tail", [None, 5])
async def test_each_line_once_wherever_the_connection_is_cut(
    fake: FakeCluster, tmp_path: Path, tail: int | None
) -> None:
    make_pod(fake, "true")
    await ended(fake)
    client = KubeClient(ConfigSource(kubeconfig=str(fake.kubeconfig(tmp_path / "config"))), clock=Clock())

    async def check(logs: Bench, gaps: list[int], cuts: list[tuple[int, int]]) -> None:
        with written(fake, gaps) as expected:
            for position, piece in cuts:
                fake.fail("get pods/log", Fault(cut_after=position, piece=piece))
            found = texts(await logs.all(tail_lines=tail))
            assert (expected if tail is None else expected[-tail:]) == found

    async with bench(fake, client) as logs:
        cases: list[tuple[list[int], list[tuple[int, int]]]] = []

        @settings(max_examples=60, database=None, suppress_health_check=list(HealthCheck), deadline=None)
        @given(GAPS, CUTS)
        def collect(gaps: list[int], cuts: list[tuple[int, int]]) -> None:
            cases.append((gaps, cuts))

        collect()
        for gaps, cuts in cases:
            await check(logs, gaps, cuts)
    await client.close()


@pytest.mark.slow
async def test_a_cut_at_every_byte(fake: FakeCluster, tmp_path: Path) -> None:
    make_pod(fake, "true")
    await ended(fake)
    client = KubeClient(ConfigSource(kubeconfig=str(fake.kubeconfig(tmp_path / "config"))), clock=Clock())
    async with bench(fake, client) as logs:
        with written(fake, [1, SECOND // 2, 1]) as expected:
            for position in range(1, 3 * 39):
                fake.fail("get pods/log", Fault(cut_after=position))
                assert expected == texts(await logs.all())
    await client.close()
