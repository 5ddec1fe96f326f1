"""Each row of the table of answers, as the fake gives them: no line is lost, none comes twice, holes are told."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from asyncsched.logs.stream import LogStream
from asyncsched.schedulers.kubernetes.client import KubeClient
from asyncsched.schedulers.kubernetes.logs_source import BUFFER
from asyncsched.schedulers.kubernetes.status_replicas import STOPPED
from asyncsched.specs.state import AppState, FailureCause, ReplicaStatus
from asyncsched.specs.stream import Stream
from tests.kubernetes._logs import (
    APP,
    JOB,
    PATIENCE,
    Bench,
    Still,
    attempts,
    bench,
    ended,
    make_pod,
    pod_of,
    run_of,
    running,
    texts,
    until,
)
from tests.kubernetes_fake import FakeCluster, Fault, StatusError, expired, too_many
from tests.kubernetes_fake.errors import bad_request

pytestmark = pytest.mark.service("kubernetes-fake")

NAME = "job-x1-main-0"
ONE_RUN = "echo try; [ -e done ] && sleep 1000; until [ -e go ]; do sleep 0.01; done; rm go; "
"""A run that ends when a test lets it: see `go_on`."""
THREE_RUNS = "echo try; [ -e done ] && sleep 1000; [ -e two ] && touch done; touch two; exit 1"
REMOVED = f"GAP the node has removed the container of {NAME} before its log was read"
NOT_FOUND = bad_request(f'pod "{NAME}" cannot be found - no logs available')
NOT_AVAILABLE = bad_request(f'container "main" in pod "{NAME}" is not available')
SECOND = 1_000_000_000
T0 = 1_795_000_000 * SECOND  # where a test makes stamps up


@pytest.fixture
async def logs(fake: FakeCluster, client: KubeClient) -> AsyncIterator[Bench]:
    async with bench(fake, client) as made:
        yield made


def say(fake: FakeCluster, *lines: str, name: str = NAME) -> None:
    """Write lines to a container's log, now."""
    import time

    def write() -> None:
        for line in lines:
            run_of(fake, name).write("stdout", time.time_ns(), f"{line}\n".encode())

    fake.run(write)


def exit_now(fake: FakeCluster, name: str = NAME) -> None:
    """End a container from outside."""

    def end() -> None:
        process = pod_of(fake, name).main[0].process
        assert process is not None
        process.kill()

    fake.run(end)


def go_on(fake: FakeCluster) -> None:
    """Let what waits in a container for a file go on."""

    def touch() -> None:
        (pod_of(fake).directory / "go").touch()

    fake.run(touch)


def patiently_ended(fake: FakeCluster, script: str) -> None:
    """Make a pod that has all the time that it takes to end."""
    fake.pace.longest_grace = 600
    make_pod(fake, script, spec={"terminationGracePeriodSeconds": 600})


async def next_text(logs: Bench, stream: LogStream) -> str:
    return texts(await logs.read(stream, 1))[0]


async def followed(fake: FakeCluster, logs: Bench, *lines: str) -> LogStream:
    """Follow a pod that goes on; return the stream once these lines have been read."""
    make_pod(fake)
    await running(fake)
    say(fake, *lines)
    stream = logs.stream()
    assert [*lines] == texts(await logs.read(stream, len(lines)))
    return stream


# Before there are lines


async def test_a_pod_without_a_place_is_waited_for(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake, "echo placed; sleep 1000", spec={"nodeSelector": {"disk": "ssd"}})
    reading = asyncio.create_task(logs.read(logs.stream(), 1))
    await until(fake, lambda: "watch pods" in fake.traffic.calls)
    assert not reading.done()
    fake.run(lambda: fake.node_labels.update(disk="ssd"))

    assert ["placed"] == texts(await reading)


async def test_a_pod_that_kubelet_does_not_know_yet_is_asked_for_again(fake: FakeCluster, logs: Bench) -> None:
    fake.run(lambda: fake.kubelet.unknown.add(NAME))
    make_pod(fake, "echo known; sleep 1000")
    reading = asyncio.create_task(logs.read(logs.stream(), 1))
    await until(fake, lambda: fake.traffic.calls["get pods/log"] >= 2)
    fake.run(fake.kubelet.unknown.clear)

    assert ["known"] == texts(await reading)


async def test_a_pod_that_kubelet_cannot_find_yet_is_asked_for_again(fake: FakeCluster, logs: Bench) -> None:
    fake.fail("get pods/log", Fault(error=NOT_FOUND, times=2))
    make_pod(fake, "echo known; sleep 1000")

    assert ["known"] == texts(await logs.read(logs.stream(), 1))


@pytest.mark.parametrize("error", [NOT_FOUND, NOT_AVAILABLE], ids=["pod", "container"])
async def test_a_kubelet_that_has_just_started_is_asked_again_for_the_rest(
    fake: FakeCluster, logs: Bench, error: StatusError
) -> None:
    stream = await followed(fake, logs, "before")
    fake.fail("get pods/log", Fault(error=error, times=2))
    fake.cut("get pods/log")
    say(fake, "after")

    assert ["after"] == texts(await logs.read(stream, 1))


async def test_a_pod_that_kubelet_has_forgotten_before_the_server_has_is_read_to_its_end(
    fake: FakeCluster, logs: Bench
) -> None:
    patiently_ended(fake, 'trap "echo bye; exit 0" TERM; echo ready; while :; do sleep 0.01; done')
    stream = logs.stream()
    assert "ready" == await next_text(logs, stream)
    fake.fail("get pods/log", Fault(error=NOT_FOUND, times=-1))
    fake.run(lambda: fake.owners.delete("pods", fake.store.get("pods", "default", NAME)))
    logs.end(AppState.CANCELLED)

    assert ["bye"] == texts(await logs.read(stream))


async def test_a_container_that_is_created_is_waited_for(fake: FakeCluster, logs: Bench) -> None:
    fake.run(fake.kubelet.creates.clear)
    make_pod(fake, "echo made; sleep 1000")
    reading = asyncio.create_task(logs.read(logs.stream(), 1))
    await until(fake, lambda: fake.traffic.calls["get pods/log"])  # asked for before its status says that it runs
    fake.run(fake.kubelet.creates.set)

    assert ["made"] == texts(await reading)
    assert fake.traffic.calls["get pods/log"] >= 2


async def test_an_image_that_cannot_be_pulled_has_no_lines_and_no_gap(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake, container={"image": "missing"})
    stream = logs.stream()
    reading = asyncio.create_task(logs.read(stream))
    await until(fake, lambda: fake.traffic.calls["get pods/log"] >= 1)
    logs.end(AppState.FAILED)

    assert [] == texts(await reading)
    assert [] == texts(await logs.all())


async def test_a_pod_that_ended_before_its_container_could_start_has_no_gap(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake, container={"image": "missing"})
    await until(fake, lambda: fake.store.find("pods", "default", NAME) and pod_of(fake).placed)
    fake.run(lambda: pod_of(fake).evict())

    assert [] == texts(await logs.all())


async def test_a_container_of_another_name_is_an_error(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake, container={"name": "another"})
    await running(fake)

    with pytest.raises(Exception, match="container main is not valid for pod"):
        await logs.all()


# Ends


async def test_a_log_ends_with_its_container_though_the_status_comes_later(fake: FakeCluster, logs: Bench) -> None:
    fake.pace.eof, fake.pace.status = 0.1, 0.5
    make_pod(fake, "for i in 1 2 3; do echo $i; done; printf last")
    stream = logs.stream()

    assert ["1", "2", "3", "last"] == texts(await logs.read(stream, 4))
    logs.end()
    assert [] == texts(await logs.read(stream))


async def test_the_end_of_a_stream_is_not_the_end_while_the_container_runs(fake: FakeCluster, logs: Bench) -> None:
    stream = await followed(fake, logs, "before")
    fake.run(fake.kubelet.stop)  # its streams end as cleanly as any
    say(fake, "while it was down")
    await until(fake, lambda: fake.traffic.calls["get pods/log"] >= 3)
    fake.run(fake.kubelet.start)
    say(fake, "after")

    assert ["while it was down", "after"] == texts(await logs.read(stream, 2))
    exit_now(fake)
    logs.end()
    assert [] == texts(await logs.read(stream))


async def test_what_was_written_while_kubelet_was_down_comes_after_the_end(fake: FakeCluster, logs: Bench) -> None:
    stream = await followed(fake, logs, "before")

    def stop() -> None:  # in one piece: nobody sees the line before the container has ended
        fake.kubelet.stop()
        run_of(fake).write("stdout", run_of(fake).entries[-1].ns + 1, b"unseen\n")
        fake.kubelet.start()

    fake.run(stop)
    exit_now(fake)
    logs.end()

    assert ["unseen"] == texts(await logs.read(stream))


async def test_a_server_that_restarts_loses_and_repeats_nothing(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake, "i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo $i; sleep 0.01; done")
    await running(fake)
    stream = logs.stream()
    lines = await logs.read(stream, 10)
    fake.run_async(fake.server.stop())
    fake.run_async(fake.server.start())
    logs_end = asyncio.create_task(ended(fake))
    lines += await logs.read(stream, 90)
    await logs_end
    logs.end()

    assert [str(i) for i in range(1, 101)] == texts([*lines, *await logs.read(stream)])


@pytest.mark.parametrize("error", ["429", "503"])
async def test_a_server_that_is_busy_is_asked_again(fake: FakeCluster, logs: Bench, error: str) -> None:
    make_pod(fake, "echo one")
    await ended(fake)
    for _ in range(3):
        fake.fail("get pods/log", too_many() if error == "429" else StatusError(503, "ServiceUnavailable", "starting"))

    assert ["one"] == texts(await logs.all())


# What kubelet says in between


async def test_a_node_without_watchers_is_asked_again_and_its_text_is_no_line(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake)
    await running(fake)
    say(fake, "old")
    fake.run(lambda: setattr(fake.kubelet, "watchers", 0))
    stream = logs.stream()
    assert "old" == await next_text(logs, stream)
    reading = asyncio.create_task(next_text(logs, stream))  # what nobody reads is not asked for
    await until(fake, lambda: fake.traffic.calls["get pods/log"] >= 3)
    say(fake, "new")
    assert "new" == await reading
    fake.run(lambda: setattr(fake.kubelet, "watchers", None))
    say(fake, "newest")

    assert "newest" == await next_text(logs, stream)


async def test_the_text_behind_a_line_without_newline_is_no_part_of_it(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake, "printf unfinished; sleep 1000")
    await running(fake)
    fake.run(lambda: run_of(fake).write("stdout", T0, b"unfinished"))
    fake.run(lambda: setattr(fake.kubelet, "watchers", 0))
    stream = logs.stream()
    reading = asyncio.create_task(logs.read(stream))
    await until(fake, lambda: fake.traffic.calls["get pods/log"] >= 2)
    logs.end()

    assert ["unfinished"] == texts(await reading)


@pytest.mark.parametrize("what", ["removed", "no_file"])
async def test_a_container_that_was_removed_is_a_gap(fake: FakeCluster, logs: Bench, what: str) -> None:
    make_pod(fake, "echo gone")
    await ended(fake)
    fake.run(lambda: setattr(run_of(fake), what, True))

    assert [REMOVED] == texts(await logs.all())


@pytest.mark.parametrize("what", ["removed", "no_file"])
async def test_a_container_that_is_removed_once_its_log_has_come_to_its_end_is_no_gap(
    fake: FakeCluster, client: KubeClient, what: str
) -> None:
    """Its status tells of its end in time: else the stream's end may have been the node's."""
    async with bench(fake, client, Still()) as logs:
        stream = await followed(fake, logs, "one", "two")
        fake.run(lambda: setattr(run_of(fake), what, True))  # an open stream goes on
        exit_now(fake)
        logs.end(AppState.CANCELLED)

        assert [] == texts(await logs.read(stream))


# Runs


async def test_runs_of_a_container_follow_each_other_with_their_numbers(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake, f"{ONE_RUN} [ -e two ] && touch done; touch two; exit 1", policy="OnFailure")
    stream = logs.stream()
    lines = await logs.read(stream, 1)
    for _ in range(2):
        go_on(fake)  # a node keeps two runs: the next one begins when this one has been read
        lines += await logs.read(stream, 1)

    assert ["try"] * 3 == texts(lines)
    assert [0, 1, 2] == attempts(lines)


async def test_the_run_before_is_read_and_those_before_it_are_a_gap(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake, THREE_RUNS, policy="OnFailure")
    await running(fake)
    await until(fake, lambda: run_of(fake).number == 2 and run_of(fake).entries)
    lines = await logs.all()

    assert [
        "GAP the node keeps only the last two runs of a container, and attempt 0 came earlier",
        "try",
        "try",
    ] == texts(lines)
    assert [0, 1, 2] == attempts(lines)
    assert ["try"] == texts(await logs.all(attempts=1))


async def test_a_run_before_whose_container_is_gone_is_a_gap(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake, "echo try; [ -e two ] && sleep 1000; touch two; exit 1", policy="OnFailure")
    await running(fake)
    await until(fake, lambda: run_of(fake).number == 1 and run_of(fake).entries)
    fake.run(lambda: setattr(pod_of(fake).main[0].runs[0], "removed", True))

    assert [f"GAP the node has removed the container of {NAME} before its log was read", "try"] == texts(
        await logs.all()
    )


async def test_a_pod_that_replaces_another_of_its_name_is_the_next_attempt(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake, "echo first; exit 1")
    stream = logs.stream()
    assert "first" == await next_text(logs, stream)
    await ended(fake)
    fake.run(lambda: fake.owners.delete("pods", fake.store.get("pods", "default", NAME)))
    make_pod(fake, "echo second", attempt=1)
    lines = await logs.read(stream, 1)
    await ended(fake)
    logs.end()

    assert (["second"], [1]) == (texts(lines), attempts(lines))
    assert [] == texts(await logs.read(stream))


async def test_an_attempt_that_nobody_read_in_time_is_a_gap(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake, "echo third", attempt=2)
    await ended(fake)
    gap = "GAP the pod of the attempts 0 to 1 was deleted before its log was read, and the log with it"

    assert [gap, "third"] == texts(await logs.all())
    assert ["third"] == texts(await logs.all(attempts=2))
    assert [gap.replace("the attempts 0 to 1", "attempt 1")] == texts(await logs.all(attempts=1))
    assert ["third"] == texts(await logs.all(tail_lines=1))


async def test_pods_of_other_names_that_failed_are_read_in_their_order(fake: FakeCluster, logs: Bench) -> None:
    for number in range(3):
        make_pod(fake, f"echo {number}; exit 1", name=f"job-x1-0-abcd{number}", attempt=number)
        await ended(fake, f"job-x1-0-abcd{number}")
    lines = await logs.all()

    assert (["0", "1", "2"], [0, 1, 2]) == (texts(lines), attempts(lines))


async def test_a_pod_that_replaces_another_before_the_watch_tells_is_not_taken_for_it(
    fake: FakeCluster, logs: Bench
) -> None:
    make_pod(fake, "echo first; exit 1")
    await ended(fake)
    fake.run(lambda: setattr(fake.kubelet, "down", True))
    reading = asyncio.create_task(logs.read(logs.stream(), 2))
    await until(fake, lambda: fake.traffic.calls["get pods/log"] >= 2)
    fake.fail("watch pods", Fault(slow=1.0))
    fake.cut("watch pods")
    fake.run(lambda: fake.store.remove("pods", fake.store.get("pods", "default", NAME)))
    make_pod(fake, "echo second; sleep 1000", attempt=1)
    await running(fake)
    fake.run(fake.kubelet.start)
    lines = await reading

    assert [f"GAP the pod {NAME} was deleted before its log was read, and the log with it", "second"] == texts(lines)
    assert [0, 1] == attempts(lines)


# Pods of others


@pytest.mark.parametrize("owner", ["", "5a1e0000-0000-4000-8000-000000000002"], ids=["nobody's", "another job's"])
async def test_a_pod_with_our_labels_that_is_not_of_the_job_is_not_read(
    fake: FakeCluster, logs: Bench, owner: str
) -> None:
    make_pod(fake, "echo theirs", name="theirs", owner=owner)
    await ended(fake, "theirs")
    stream = logs.stream()
    reading = asyncio.create_task(logs.read(stream, 1))
    await until(fake, lambda: "watch pods" in fake.traffic.calls)
    make_pod(fake, "echo ours")
    await ended(fake)
    lines = await reading
    logs.end()

    assert ["ours"] == texts([*lines, *await logs.read(stream)])
    assert ["ours"] == texts(await logs.all())


@pytest.mark.parametrize("should_tail", [True, False])
async def test_where_no_pod_of_the_job_is_left_those_of_others_are_not_read(
    fake: FakeCluster, logs: Bench, *, should_tail: bool
) -> None:
    make_pod(fake, "echo theirs", name="theirs", owner="")
    await ended(fake, "theirs")
    logs.end()

    expected = ["GAP the pod was deleted, and its log with it"]
    assert expected == texts(await logs.read(logs.stream(should_tail=should_tail)))
    assert 0 == fake.traffic.calls["get pods/log"]


async def test_pods_of_a_job_that_is_made_later_for_another_role_are_read(
    fake: FakeCluster, logs: Bench, client: KubeClient
) -> None:
    logs.roles = 2
    stream = logs.stream()
    reading = asyncio.create_task(logs.read(stream, 1))
    await until(fake, lambda: "watch pods" in fake.traffic.calls)
    labels = {"asyncsched/app": APP, "asyncsched/role": "main"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": APP, "uid": JOB}
    container = {"name": "main", "image": "busybox", "command": ["echo", "other"]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{APP}-other", "labels": labels, "ownerReferences": [owner]},
        "spec": {
            "completionMode": "Indexed",
            "completions": 1,
            "parallelism": 1,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    await client.request("POST", "/apis/batch/v1/namespaces/default/jobs", body=job)

    assert ["other"] == texts(await reading)
    await stream.aclose()


# Pods that are deleted


async def test_what_a_pod_writes_while_it_is_ended_comes_too(fake: FakeCluster, logs: Bench) -> None:
    patiently_ended(fake, 'trap "echo bye; exit 0" TERM; echo ready; while :; do sleep 0.01; done')
    stream = logs.stream()
    assert "ready" == await next_text(logs, stream)
    fake.run(lambda: fake.owners.delete("pods", fake.store.get("pods", "default", NAME)))

    assert "bye" == await next_text(logs, stream)
    await until(fake, lambda: fake.store.find("pods", "default", NAME) is None)
    logs.end(AppState.CANCELLED)
    assert [] == texts(await logs.read(stream))


@pytest.mark.parametrize("breaks", [False, True])
async def test_what_a_pod_writes_after_the_apps_end_comes_too(fake: FakeCluster, logs: Bench, *, breaks: bool) -> None:
    """With on_failure=stop the app has failed at once, and the pods of the others are ended after that."""
    patiently_ended(fake, 'trap "sleep 0.7; echo bye; exit 0" TERM; echo ready; while :; do sleep 0.01; done')
    stream = logs.stream()
    assert "ready" == await next_text(logs, stream)
    fake.run(lambda: fake.owners.delete("pods", fake.store.get("pods", "default", NAME)))
    logs.end(AppState.CANCELLED)
    if breaks:
        fake.cut("get pods/log")

    assert ["bye"] == texts(await logs.read(stream))


async def test_a_log_is_not_followed_past_its_time_because_its_pod_is_ended(fake: FakeCluster, logs: Bench) -> None:
    patiently_ended(fake, 'trap "" TERM; echo ready; while :; do sleep 0.01; done')
    stream = logs.stream(until=timedelta(seconds=-1000))
    assert "ready" == await next_text(logs, stream)
    fake.run(lambda: fake.owners.delete("pods", fake.store.get("pods", "default", NAME)))
    logs.over.set()  # as it is done once `until` has come

    assert [] == texts(await logs.read(stream))
    assert fake.run(lambda: fake.store.find("pods", "default", NAME)) is not None


async def test_a_pod_that_is_gone_when_a_broken_stream_is_to_go_on_is_a_gap(fake: FakeCluster, logs: Bench) -> None:
    stream = await followed(fake, logs, "read")

    def cut_and_remove() -> None:
        fake.server.cut("get pods/log")
        fake.store.remove("pods", fake.store.get("pods", "default", NAME))

    fake.run(cut_and_remove)
    logs.end(AppState.CANCELLED)
    lines = await logs.read(stream)

    assert [f"GAP the pod {NAME} was deleted before the rest of its log was read, and the log with it"] == texts(lines)
    gap = lines[0].gap
    assert gap is not None
    assert gap.after is not None


@pytest.mark.parametrize(
    ("reason", "why"),
    [("", "when the app was cancelled"), (STOPPED, "after another replica failed")],
    ids=["app", "stopped"],
)
async def test_a_replica_whose_pod_was_deleted_tells_so_when_it_is_read(logs: Bench, reason: str, why: str) -> None:
    logs.reason = reason
    logs.state = AppState.CANCELLED

    expected = [f"GAP the pod was deleted {why}, and its log, if any, with it"]
    assert expected == texts(await logs.all())
    logs.end(AppState.CANCELLED)
    assert expected == texts(await logs.read(logs.stream()))


async def test_a_replica_that_was_followed_and_never_began_has_lost_nothing(fake: FakeCluster, logs: Bench) -> None:
    logs.first = AppState.PENDING
    reading = asyncio.create_task(logs.read(logs.stream()))
    await until(fake, lambda: "watch pods" in fake.traffic.calls)
    logs.end(AppState.CANCELLED)

    assert [] == texts(await reading)


async def test_a_replica_that_may_have_begun_unseen_has_a_gap(fake: FakeCluster, logs: Bench) -> None:
    logs.first = AppState.PENDING
    reading = asyncio.create_task(logs.read(logs.stream()))
    await until(fake, lambda: "watch pods" in fake.traffic.calls)
    fake.fail("watch pods", expired("too old resource version"))
    fake.cut("watch pods")
    await until(fake, lambda: fake.traffic.calls["list pods"] >= 2)  # what was there in between nobody has seen
    await until(fake, lambda: fake.traffic.open["watch pods"])
    logs.end(AppState.CANCELLED)

    assert ["GAP"] == [text.partition(" ")[0] for text in texts(await reading)]


async def test_a_replica_that_never_had_a_pod_has_no_gap(logs: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    never = ReplicaStatus(0, AppState.FAILED, "main", "", cause=FailureCause.UNSCHEDULABLE)
    monkeypatch.setattr(logs, "statuses", lambda _: [never])

    assert [] == texts(await logs.all())


# Rotation


async def test_a_rotation_while_nobody_was_connected_is_a_gap(fake: FakeCluster, logs: Bench) -> None:
    stream = await followed(fake, logs, "one")

    def rotate() -> None:
        fake.server.cut("get pods/log")
        run = run_of(fake)
        for text in ("lost", "kept"):
            run.write("stdout", run.entries[-1].ns + 1, f"{text}\n".encode())
        run.rotate(keep=1)

    fake.run(rotate)
    lines = await logs.read(stream, 2)

    said, kept = texts(lines)
    assert said.startswith("GAP the log was rotated while it was not being read")
    assert "kept" == kept


async def test_a_rotation_that_took_nothing_is_told_as_what_is_known(fake: FakeCluster, logs: Bench) -> None:
    """Whether something was written behind the last line, before the file was closed, nobody can tell any more."""
    stream = await followed(fake, logs, "one")

    def rotate() -> None:
        fake.server.cut("get pods/log")
        run = run_of(fake)
        run.rotate(keep=0)
        run.write("stdout", run.entries[-1].ns + 1 if run.entries else 10**18, b"two\n")

    fake.run(rotate)
    lines = await logs.read(stream, 2)

    assert "after the last line that was read, if any, are lost" in texts(lines)[0]
    gap = lines[0].gap
    assert gap is not None
    assert gap.before is not None
    assert "two" == texts(lines)[1]


async def test_a_follower_crosses_a_rotation(fake: FakeCluster, logs: Bench) -> None:
    stream = await followed(fake, logs, "one")
    fake.run(lambda: run_of(fake).rotate())
    say(fake, "two")
    exit_now(fake)
    logs.end()

    assert ["two"] == texts(await logs.read(stream))


# What is asked for


async def test_the_last_lines_are_asked_for_and_no_more(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake)
    await running(fake)
    say(fake, *map(str, range(1000)))

    assert ["998", "999"] == texts(await logs.all(tail_lines=2))
    assert any("tailLines=2" in path for _, path in fake.traffic.requests)
    assert [] == texts(await logs.all(tail_lines=0))


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_the_last_lines_come_once_and_then_the_new_ones(fake: FakeCluster, logs: Bench, count: int) -> None:
    make_pod(fake)
    await running(fake)
    say(fake, *map(str, range(100)))  # all in one second, which the server sends again
    stream = logs.stream(tail_lines=count)
    first = asyncio.create_task(logs.read(stream, count + 1))
    await until(fake, lambda: any("follow=true" in path for _, path in fake.traffic.requests))
    say(fake, "new")

    assert [*map(str, range(100 - count, 100)), "new"] == texts(await first)


async def test_times_are_exact_though_the_server_cuts_them(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake)
    await running(fake)
    say(fake, "a", "b", "c")
    lines = await logs.all()
    middle = lines[1].timestamp
    assert middle is not None
    fine = [text for text, line in zip("abc", lines, strict=True) if (line.timestamp or middle) >= middle]

    assert fine == texts(await logs.all(since=middle))
    assert [text for text in "abc" if text not in fine] == texts(await logs.all(until=middle))
    assert [] == texts(await logs.all(since=timedelta(hours=-1)))
    assert any(re.search(r"sinceTime=[0-9T%A:-]+Z", path) for _, path in fake.traffic.requests)


async def test_a_run_that_ended_long_before_is_not_asked_for(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake, "echo old")
    await ended(fake)
    before = fake.traffic.calls["get pods/log"]

    assert [] == texts(await logs.all(since=timedelta(hours=-1)))
    assert before == fake.traffic.calls["get pods/log"]


@pytest.mark.parametrize("gate", ["off", "old"])
async def test_streams_that_the_cluster_does_not_tell_apart_are_refused(
    fake: FakeCluster, logs: Bench, gate: str
) -> None:
    fake.stream_gate = gate
    fake.version = (1, 34) if gate == "off" else (1, 29)
    make_pod(fake, "echo x")
    await ended(fake)

    with pytest.raises(ValueError, match=r"cannot separate stdout .*use streams=Stream.COMBINED"):
        await logs.all(streams=Stream.STDOUT)
    assert ["x"] == texts(await logs.all())


async def test_streams_are_told_apart_where_the_gate_is_on(fake: FakeCluster, logs: Bench) -> None:
    fake.stream_gate = "on"
    make_pod(fake, "echo out; echo err >&2; echo out2")
    await ended(fake)

    lines = await logs.all(streams=Stream.STDERR)
    assert [("err", Stream.STDERR)] == [(line.text, line.stream) for line in lines]
    assert ["out2"] == texts(await logs.all(streams=Stream.STDOUT, tail_lines=1))


@pytest.mark.parametrize("version", [(1, 29), (1, 34)])
async def test_bytes_are_delivered_as_they_were_written(
    fake: FakeCluster, logs: Bench, version: tuple[int, int]
) -> None:
    fake.version = version
    make_pod(fake)
    run = await running(fake)
    written = [
        b"  spaces  \n",
        b"\r50%\r100%\n",
        b"nul\0nul\n",
        b"bad \xff utf\n",
        b"x" * 40_000 + b"\n",
        b"\n",
        b"end",
    ]
    fake.run(lambda: [run.add(T0 + n, data) for n, data in enumerate(written)])

    assert [data.decode(errors="replace") for data in written] == await logs.all()


async def test_an_overlong_line_comes_in_pieces(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake)
    run = await running(fake)
    fake.run(lambda: [run.add(T0, b"a\n"), run.add(T0 + 1, b"x" * (5 << 19) + b"\n"), run.add(T0 + 2, b"b\n")])
    lines = await logs.all()

    assert ["a", "x" * (1 << 20), "x" * (1 << 20), "x" * (1 << 19), "b"] == texts(lines)
    assert [False, True, True, False, False] == [line.partial for line in lines]


# Load


async def test_a_reader_that_stalls_keeps_little(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake)
    run = await running(fake)
    fake.run(lambda: [run.add(T0 + n, b"y" * 999 + b"\n") for n in range(20_000)])  # 20 MB
    stream = logs.stream()
    await logs.read(stream, 1)
    for _ in range(100):
        await asyncio.sleep(0.005)

    assert logs.sources[0]._held <= 2 * BUFFER
    assert 19_999 == len(await logs.read(stream, 19_999))


@pytest.mark.usefixtures("many_files")
async def test_calls_are_answered_while_hundreds_of_logs_are_open(
    fake: FakeCluster, logs: Bench, client: KubeClient
) -> None:
    make_pod(fake)
    await running(fake)
    say(fake, "hello")
    streams = [logs.stream() for _ in range(500)]
    try:
        assert ["hello"] * 500 == [
            text
            for lines in await asyncio.gather(*(logs.read(stream, 1) for stream in streams))
            for text in texts(lines)
        ]
        assert 500 == fake.traffic.open["get pods/log"]
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(client.request("GET", "/api/v1/namespaces/default/pods") for _ in range(20)))
        assert 1 == fake.traffic.calls["watch pods"]  # one reflector for all of them
    finally:
        await asyncio.gather(*(stream.aclose() for stream in streams))


async def test_a_cut_in_the_middle_of_a_line_tears_nothing(fake: FakeCluster, logs: Bench) -> None:
    make_pod(fake, "echo one; echo two; echo three")
    await ended(fake)
    for cut in (3, 31, 34, 37, 50, 71):
        fake.fail("get pods/log", Fault(cut_after=cut))

    assert ["one", "two", "three"] == texts(await logs.all())
