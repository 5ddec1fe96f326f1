"""Output: whole, in order, bounded, and never the reason why something else stops."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from asyncsched.schedulers.local.supervisor.formats import (
    APPS,
    COMBINED,
    END,
    LINE_START,
    ROTATED,
    STATE,
    STDERR,
    STDOUT,
)
from tests._support import eventually_blocking
from tests.local.supervisor._client import Chunk, Log, RefusedError, Supervisor, python, shell

NUMBERS = """
import sys
for number in range(int(sys.argv[1])):
    print("out", number)
    print("err", number, file=sys.stderr)
"""


def numbered(name: str, count: int) -> bytes:
    return b"".join(f"{name} {number}\n".encode() for number in range(count))


def chunks(log: Log, kind: int, segment: int = 0) -> list[Chunk]:
    return [each for each in log.index(segment) if each["kind"] == kind]


def check_index(log: Log, segment: int = 0, *, at_line_start: bool = True) -> None:
    """Check that the records of a segment tell of all bytes in their order."""
    records = log.index(segment)
    assert [each["time_ns"] for each in records] == sorted(each["time_ns"] for each in records)
    for kind in {each["kind"] for each in records} - {END, ROTATED}:
        data, end = log.read(kind, segment), 0
        for each in chunks(log, kind, segment):
            assert end == each["offset"]
            if end or at_line_start:
                begins = not end or data[end - 1 : end] == b"\n"
                assert begins == bool(each["flags"] & LINE_START)
            end += each["length"]
        assert end == len(data)


def test_each_stream_is_whole_and_in_order(supervisor: Supervisor) -> None:
    supervisor.run(python(NUMBERS, "20000"))
    log = supervisor.log()

    assert numbered("out", 20000) == log.stdout
    assert numbered("err", 20000) == log.stderr
    check_index(log)


def test_merged_streams_are_in_order_of_writing(supervisor: Supervisor) -> None:
    supervisor.run(python(NUMBERS, "20000"), merge_streams=True)
    log = supervisor.log()

    expected = b"".join(f"out {number}\nerr {number}\n".encode() for number in range(20000))
    assert expected == log.read(COMBINED)
    assert {COMBINED, END} == {each["kind"] for each in log.index()}
    check_index(log)


def test_a_tree_of_logs_has_whole_lines_of_both(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.run(
        python(NUMBERS, "5000", logs=f"{tmp_path}/a/b"), shell("printf unfinished >&2", k=1, logs=f"{tmp_path}/a/c")
    )
    lines = (tmp_path / "a/b/combined.log").read_bytes().splitlines(keepends=True)

    assert numbered("out", 5000) == b"".join(line for line in lines if line.startswith(b"out"))
    assert numbered("err", 5000) == b"".join(line for line in lines if line.startswith(b"err"))
    assert numbered("out", 5000) == (tmp_path / "a/b/stdout.log").read_bytes()
    assert b"unfinished" == (tmp_path / "a/c/combined.log").read_bytes()


def test_bytes_are_bytes(supervisor: Supervisor) -> None:
    code = r"import os; os.write(1, bytes(range(256)) * 40000); os.write(1, b'x' * 10_000_000); os.write(1, b'\nend')"
    supervisor.run(python(code))

    assert bytes(range(256)) * 40000 + b"x" * 10_000_000 + b"\nend" == supervisor.log().stdout
    check_index(supervisor.log())


def test_order_between_streams_is_that_of_reading(supervisor: Supervisor) -> None:
    code = """
        import fcntl, os, termios, time

        def waiting():
            return any(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)) != bytes(4) for fd in (1, 2))

        for n in range(50):
            os.write(1 + n % 2, b"%d\\n" % n)
            while waiting():
                time.sleep(0.0005)
    """
    supervisor.run(python(dedent(code)))

    kinds = [each["kind"] for each in supervisor.log().index()]
    assert [STDOUT, STDERR] * 25 + [END] == kinds


def test_what_is_written_milliseconds_apart_keeps_its_order(supervisor: Supervisor) -> None:
    code = "import os, time\nfor n in range(10): os.write(1 + n % 2, b'%d\\n' % n); time.sleep(0.004)"
    found: list[list[int]] = []

    def keeps_it() -> bool:
        app_id = f"app{len(found)}"
        supervisor.run(python(code), app_id=app_id)
        found.append([each["kind"] for each in supervisor.log(app_id=app_id).index()])
        return [STDOUT, STDERR] * 5 + [END] == found[-1]

    # Where others take all of the machine, the worker may get its turn too late; not so each of many times.
    eventually_blocking(keeps_it)


# When a replica is over


@pytest.mark.slow
def test_what_is_written_after_the_exit_is_read(supervisor: Supervisor) -> None:
    # All of it takes longer than the silence that is the end, and no pause is near that, or needs a new process.
    code = """
        import os, time

        if os.fork() == 0:
            for n in range(40):
                time.sleep(0.05)
                os.write(1, b"%d\\n" % n)
        os._exit(0)
    """
    record = supervisor.run(python(dedent(code)), grace_period=60.0)

    assert b"".join(b"%d\n" % n for n in range(40)) == supervisor.log().stdout
    assert 0 == record["replicas"][0]["exit_code"]


def test_silence_after_the_exit_is_the_end(supervisor: Supervisor) -> None:
    began = time.monotonic()
    supervisor.run(shell("(sleep 1000; echo late) & echo early"))

    assert 1.0 <= time.monotonic() - began
    assert b"early\n" == supervisor.log().stdout


@pytest.mark.slow
def test_who_talks_for_ever_after_the_exit_is_ended(supervisor: Supervisor) -> None:
    supervisor.run(shell("(while :; do echo more; sleep 0.05; done) & exit 0"), grace_period=1.5)

    assert supervisor.log().stdout.startswith(b"more\n")


def test_what_runs_on_in_silence_is_ended(supervisor: Supervisor) -> None:
    supervisor.run(shell("sleep 1000 > /dev/null 2>&1 & echo $!"))
    pid = int(supervisor.log().stdout)

    assert not Path(f"/proc/{pid}").exists()


# Bounds


@pytest.mark.slow
def test_the_oldest_output_goes_beyond_the_bound(supervisor: Supervisor) -> None:
    bound = 1 << 20
    supervisor.submit(python(NUMBERS, "200000"), python(NUMBERS, "100000", k=1), max_log_bytes=bound)
    sizes: list[int] = []

    def is_over() -> bool:
        with supervisor.paused():
            sizes.append(supervisor.log(0).size() + supervisor.log(1).size())
        return supervisor.describe()["finished_ns"] is not None

    eventually_blocking(is_over)
    for k, count in ((0, 200000), (1, 100000)):
        log = supervisor.log(k)
        segments = log.segments()
        assert segments[0] > 0
        assert list(range(segments[0], segments[-1] + 1)) == segments
        for name, kind in (("out", STDOUT), ("err", STDERR)):
            kept = b"".join(log.read(kind, segment) for segment in segments)
            assert numbered(name, count).endswith(kept)
        assert [ROTATED] * (len(segments) - 1) + [END] == [log.index(segment)[-1]["kind"] for segment in segments]
        for segment in segments:
            check_index(log, segment, at_line_start=False)
    assert max(sizes) <= bound
    assert sizes[-1] > bound / 2


def test_a_tree_of_logs_keeps_to_the_bound_too(supervisor: Supervisor, tmp_path: Path) -> None:
    supervisor.run(python(NUMBERS, "50000", logs=f"{tmp_path}/logs"), max_log_bytes=400_000)
    log = Log(tmp_path / "logs")
    named = sorted(int(each.name.split(".")[1]) for each in (tmp_path / "logs").glob("combined.*.log"))

    assert supervisor.log().segments() == named
    assert log.size() + supervisor.log().size() <= 400_000
    # Either may be read last: two pipes keep no order between them.
    assert b"".join(log.read(COMBINED, each) for each in named).endswith((b"out 49999\n", b"err 49999\n"))


def test_the_log_keeps_to_a_limit_on_the_size_of_files(home: Path, leaves_nothing: None) -> None:
    with Supervisor(home, prefix=["/bin/sh", "-c", 'ulimit -f 256; exec "$@"', "sh"]) as supervisor:
        supervisor.run(python(NUMBERS, "30000"))
        log = supervisor.log()

        assert numbered("out", 30000) == b"".join(log.read(STDOUT, segment) for segment in log.segments())
        assert len(log.segments()) > 1


# What stands in the way


def _waiting(go: Path, *, after: str) -> str:
    """Return a shell program that says that it is ready, waits, does something, and then waits to be ended."""
    os.mkfifo(f"{go}.2")
    return f"echo ready; until [ -e {go} ]; do sleep 0.01; done; {after}; echo done > {go}; read line < {go}.2"


def test_a_removed_directory_of_logs_does_not_end_the_app(supervisor: Supervisor, tmp_path: Path) -> None:
    go = tmp_path / "go"
    supervisor.submit(shell(_waiting(go, after="head -c 1000000 /dev/zero")), max_log_bytes=1 << 20)
    supervisor.log().wait_for(b"ready\n")
    shutil.rmtree(supervisor.home / APPS / "app/role")
    go.touch()
    eventually_blocking(lambda: go.read_text() == "done\n")

    (record,) = supervisor.ask("describe", app_ids=["app"])["apps"]
    assert "its output could not be kept: No such file or directory" == record["replicas"][0]["reason"]
    Path(f"{go}.2").write_text("end\n")
    assert 0 == supervisor.until()["replicas"][0]["exit_code"]


def test_a_removed_record_is_written_anew_and_the_log_goes_on(supervisor: Supervisor, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(f"{go}.3")
    supervisor.submit(shell(_waiting(go, after="echo more")), shell(f"read line < {go}.3", k=1))
    supervisor.log().wait_for(b"ready\n")
    shutil.rmtree(supervisor.home / APPS / "app")
    Path(f"{go}.3").write_text("end\n")  # of which there is something to be saved
    eventually_blocking((supervisor.home / APPS / "app" / STATE).exists)

    assert "" == supervisor.saved()["ended_by"]
    eventually_blocking(lambda: supervisor.log().segments() == [1])
    go.touch()
    eventually_blocking(lambda: supervisor.log().read(STDOUT, 1) == b"more\n")
    Path(f"{go}.2").write_text("end\n")
    assert [0, 0] == [each["exit_code"] for each in supervisor.until()["replicas"]]
    assert ["app"] == [each.name for each in (supervisor.home / APPS).iterdir()]


def test_an_app_whose_record_cannot_be_written_anew_is_ended(supervisor: Supervisor, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(f"{go}.3")
    supervisor.submit(shell(_waiting(go, after="true")), shell(f"read line < {go}.3", k=1))
    supervisor.log().wait_for(b"ready\n")
    shutil.rmtree(supervisor.home / APPS)
    Path(f"{go}.3").write_text("end\n")
    eventually_blocking(lambda: supervisor.ask("describe", app_ids=["app"])["apps"] == [])

    with pytest.raises(RefusedError, match="No such file or directory"):
        supervisor.submit(shell("exit 0"))


def test_an_app_in_whose_place_there_is_another_one_is_ended(supervisor: Supervisor, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(f"{go}.3")
    supervisor.submit(shell(_waiting(go, after="true")), shell(f"read line < {go}.3", k=1))
    supervisor.log().wait_for(b"ready\n")
    with Supervisor(supervisor.home) as another:
        shutil.rmtree(supervisor.home / APPS / "app")
        another.submit(shell("read line"))
        Path(f"{go}.3").write_text("end\n")
        eventually_blocking(lambda: supervisor.ask("describe", app_ids=["app"])["apps"] == [])

        assert another.identity == another.saved()["supervisor"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    if os.geteuid() != 0:
        pytest.skip("a disk of our own takes root")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", place], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no disk of our own: {mounted.stderr.decode()}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.parametrize("merge_streams", [False, True])
def test_a_full_disk_holds_up_and_loses_nothing(small_disk: Path, *, merge_streams: bool) -> None:
    filler = small_disk / "filler"
    with Supervisor(small_disk / "home") as supervisor:
        filler.write_bytes(b"x" * (1900 << 10))
        supervisor.submit(python(NUMBERS, "20000"), merge_streams=merge_streams, max_log_bytes=1 << 30)
        eventually_blocking(lambda: supervisor.describe()["disk_full"])

        record = supervisor.describe()
        assert record["replicas"][0]["exit_code"] is None
        filler.unlink()
        record = supervisor.until()
        assert not record["disk_full"]
        assert 0 == record["replicas"][0]["exit_code"]
        log = supervisor.log()
        if merge_streams:
            expected = b"".join(f"out {number}\nerr {number}\n".encode() for number in range(20000))
            assert expected == log.read(COMBINED)
        else:
            assert numbered("out", 20000) == log.stdout
            assert numbered("err", 20000) == log.stderr
        check_index(log)
        assert END == log.index()[-1]["kind"]


def test_a_disk_that_is_full_again_and_again(small_disk: Path, tmp_path: Path) -> None:
    """Room comes a few bytes at a time, so that everything is cut somewhere: chunks, records, rotation."""
    filler = small_disk / "filler"
    with Supervisor(small_disk / "home") as supervisor:
        filler.write_bytes(b"x" * (1980 << 10))
        supervisor.submit(python(NUMBERS, "4000", logs=f"{small_disk}/logs"), max_log_bytes=1 << 18)
        size = 1980 << 10
        while supervisor.describe()["finished_ns"] is None:
            eventually_blocking(lambda: supervisor.describe()["disk_full"] or supervisor.describe()["finished_ns"])
            size = max(0, size - (8 << 10))
            os.truncate(filler, size)
        log, named = supervisor.log(), Log(small_disk / "logs")
        segments = log.segments()

        for name, kind in (("out", STDOUT), ("err", STDERR)):
            kept = b"".join(named.read(kind, segment) for segment in segments)
            assert numbered(name, 4000).endswith(kept)
            assert len(kept) > 10_000
        assert [ROTATED] * (len(segments) - 1) + [END] == [log.index(segment)[-1]["kind"] for segment in segments]


@pytest.mark.slow
def test_an_app_that_is_cancelled_does_not_wait_for_the_disk_for_ever(small_disk: Path) -> None:
    with Supervisor(small_disk / "home") as supervisor:
        (small_disk / "filler").write_bytes(b"x" * (1900 << 10))
        supervisor.submit(python(NUMBERS, "20000"))
        eventually_blocking(lambda: supervisor.describe()["disk_full"])
        supervisor.ask("cancel", app_id="app")

        (record,) = supervisor.ask("describe", app_ids=["app"])["apps"]
        while record["finished_ns"] is None:
            supervisor.sock.settimeout(60)
            supervisor.hear()
            (record,) = supervisor.ask("describe", app_ids=["app"])["apps"]
        assert "the end of its output could not be kept: no space left on the disk" == record["replicas"][0]["reason"]
        (small_disk / "filler").unlink()
        assert "cancel" == supervisor.until()["ended_by"]


def test_without_room_for_its_record_an_app_is_refused(small_disk: Path) -> None:
    with Supervisor(small_disk / "home") as supervisor:
        with pytest.raises(OSError, match="No space left"):
            (small_disk / "filler").write_bytes(b"x" * (4 << 20))

        with pytest.raises(RefusedError, match=r"[Nn]o space left on"):
            supervisor.submit(shell("exit 0"))
        (small_disk / "filler").unlink()
        assert [] == list((small_disk / "home" / APPS).iterdir())
        assert 0 == supervisor.run(shell("exit 0"))["replicas"][0]["exit_code"]
