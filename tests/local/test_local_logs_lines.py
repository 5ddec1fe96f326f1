"""Every line comes whole, once, in its order, whatever is written and however much."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from asyncsched.errors import LogStreamError
from asyncsched.logs import LogLine
from asyncsched.schedulers.local import LocalScheduler
from asyncsched.specs import AppState, Stream
from tests._support import eventually
from tests.local._local import app, app_directory, ended, first, python, read, shell, texts

NUMBERED = """
    import sys
    for number in range(20_000):
        print("out", number)
        print("err", number, file=sys.stderr)
"""

OURS = pytest.mark.guard(loop_step=False, reason="the test itself compares megabytes in a step")


def _numbers(lines: list[LogLine], word: str) -> list[str]:
    return [line.text for line in lines if line.startswith(word)]


def _expected(word: str) -> list[str]:
    return [f"{word} {number}" for number in range(20_000)]


@OURS
async def test_forty_thousand_lines_of_plain_prints_come_whole_and_in_order(scheduler: LocalScheduler) -> None:
    app_id = await scheduler.submit(app(python(NUMBERED)))

    live = await read(scheduler, app_id)

    assert 40_000 == len(live)
    assert _expected("out") == _numbers(live, "out") == [x.text for x in live if x.stream is Stream.STDOUT]
    assert _expected("err") == _numbers(live, "err") == [x.text for x in live if x.stream is Stream.STDERR]
    assert _expected("err") == await texts(scheduler, app_id, streams=Stream.STDERR)


@OURS
async def test_a_regex_that_matches_all_loses_none(scheduler: LocalScheduler) -> None:
    app_id = await scheduler.submit(app(python(NUMBERED)))

    live = await read(scheduler, app_id, regex=".")

    assert _expected("out") == _numbers(live, "out")
    assert _expected("err") == _numbers(live, "err")
    assert live == await read(scheduler, app_id, regex="^(out|err) [0-9]+$")


@OURS
async def test_merged_streams_keep_the_order_of_both(scheduler: LocalScheduler) -> None:
    app_id = await scheduler.submit(app(python(NUMBERED)), {"merge_streams": True})

    live = await texts(scheduler, app_id)

    assert [f"{word} {number}" for number in range(20_000) for word in ("out", "err")] == live


@pytest.mark.parametrize("stream", [Stream.STDOUT, Stream.STDERR])
async def test_merged_streams_cannot_be_told_apart(scheduler: LocalScheduler, stream: Stream) -> None:
    app_id = await scheduler.submit(app(shell("echo hello")), {"merge_streams": True})

    with pytest.raises(ValueError, match="merge_streams"):
        await read(scheduler, app_id, streams=stream)
    assert ["hello"] == await texts(scheduler, app_id, streams=Stream.COMBINED)


async def test_what_has_been_read_before_comes_before_on_either_stream(scheduler: LocalScheduler) -> None:
    code = """
        import os, sys, time
        here = os.path.dirname(os.environ["TORCHELASTIC_ERROR_FILE"])
        written = [0, 0]
        for number in range(50):
            stream = number % 2
            written[stream] += os.write(stream + 1, b"%d\\n" % number)
            while os.path.getsize(f"{here}/{('stdout', 'stderr')[stream]}.log") < written[stream]:
                time.sleep(0.0005)
    """
    app_id = await scheduler.submit(app(python(code)))

    assert [*map(str, range(50))] == await texts(scheduler, app_id)


@OURS
async def test_ten_megabytes_in_one_line_come_in_pieces(scheduler: LocalScheduler) -> None:
    app_id = await scheduler.submit(app(python("print('x' * 10_000_000); print('end')")))

    *pieces, end = await read(scheduler, app_id)

    assert "end\n" == end
    assert 10_000_001 == sum(map(len, pieces))
    assert {"x"} == set("".join(pieces[:-1]))
    assert all(piece.partial for piece in pieces[:-1])
    assert not pieces[-1].partial


async def test_nul_and_bytes_that_are_no_text_are_kept_in_their_lines(scheduler: LocalScheduler) -> None:
    raw = b"a\\0b\\n\\xff\\xfe\\n\\xe2\\x82\\n\\r\\x0b\\x0c\\xe2\\x80\\xa8\\nend"
    app_id = await scheduler.submit(app(python(f"import os; os.write(1, b'{raw.decode()}')")))

    lines = await read(scheduler, app_id)

    assert ["a\0b\n", "\ufffd\ufffd\n", "\ufffd\n", "\r\x0b\x0c\u2028\n", "end"] == list(lines)
    assert [False, False, False, False, True] == [line.partial for line in lines]


async def test_a_character_that_is_written_in_pieces_is_whole(scheduler: LocalScheduler) -> None:
    code = """
        import os, time
        for byte in "€uro\\n".encode():
            os.write(1, bytes([byte])); time.sleep(0.01)
    """
    app_id = await scheduler.submit(app(python(code)))

    assert ["€uro"] == await texts(scheduler, app_id)


async def test_reading_what_is_there_does_not_wait_for_more(scheduler: LocalScheduler) -> None:
    app_id = await scheduler.submit(app(shell("echo hello; printf unfinished; sleep 1000"), name="job"))

    async def has_written() -> bool:
        return ["hello", "unfinished"] == await texts(scheduler, app_id, should_tail=False)

    assert await eventually(has_written)
    found = await scheduler.describe(app_id)
    assert found is not None
    assert AppState.RUNNING is found.state


async def test_since_and_until_are_exact(scheduler: LocalScheduler) -> None:
    code = """
        import os, time
        log = os.path.dirname(os.environ["TORCHELASTIC_ERROR_FILE"]) + "/stdout.log"
        for number in range(10):
            print(number, flush=True)
            while os.path.getsize(log) < 2 * (number + 1):  # lines that are read at once have one time
                time.sleep(0.0005)
    """
    app_id = await scheduler.submit(app(python(code)))
    lines = await read(scheduler, app_id)
    third, sixth = lines[3].timestamp, lines[6].timestamp
    assert third is not None
    assert sixth is not None

    assert [*"3456789"] == await texts(scheduler, app_id, since=third - timedelta(microseconds=1))
    assert [*"012345"] == await texts(scheduler, app_id, until=sixth)
    assert [*"345"] == await texts(scheduler, app_id, since=third, until=sixth)
    assert [] == await texts(scheduler, app_id, until=lines[0].timestamp)


@OURS
async def test_a_flood_keeps_its_newest_output_and_tells_of_the_rest(scheduler: LocalScheduler, home: Path) -> None:
    limit = 400_000
    code = "for number in range(60_000): print('line', number)"
    app_id = await scheduler.submit(app(python(code)), {"max_log_bytes": limit})
    await ended(scheduler, app_id)

    gap, *lines = await read(scheduler, app_id)

    assert gap.gap is not None
    assert "max_log_bytes" in gap.gap.reason
    first_kept = int(lines[0].split()[1])
    assert 0 < first_kept < 59_000
    assert [f"line {number}\n" for number in range(first_kept, 60_000)] == lines
    assert limit >= sum(each.stat().st_size for each in app_directory(home, app_id).rglob("*.log"))
    with pytest.raises(LogStreamError, match="max_log_bytes"):
        await read(scheduler, app_id, gaps="raise")


async def test_a_named_directory_gets_a_readable_tree(scheduler: LocalScheduler, tmp_path: Path) -> None:
    script = "echo out; echo err >&2; echo again"
    logs = tmp_path / "my logs"
    app_id = await scheduler.submit(app(shell(script, num_replicas=2)), {"log_dir": str(logs)})
    await ended(scheduler, app_id)

    tree = logs / "session" / app_id / "main"
    assert ["0", "1"] == sorted(each.name for each in tree.iterdir())
    for k in range(2):
        assert "out\nagain\n" == (tree / str(k) / "stdout.log").read_text()
        assert "err\n" == (tree / str(k) / "stderr.log").read_text()
        assert ["again", "err", "out"] == sorted((tree / str(k) / "combined.log").read_text().splitlines())
    assert ["again", "err", "out"] == sorted(await texts(scheduler, app_id, k=1))
    found = await scheduler.describe(app_id)
    assert found is not None
    assert f"file://{logs}/session/{app_id}" == found.ui_url


async def test_a_tail_of_many_needs_no_thread_of_its_own(scheduler: LocalScheduler) -> None:
    before = {*threading.enumerate()}
    app_ids = [await scheduler.submit(app(shell("echo ready; exec sleep 1000", num_replicas=5))) for _ in range(4)]
    tails = [asyncio.create_task(first(scheduler, app_id, 5)) for app_id in app_ids]
    waiting = [asyncio.create_task(ended(scheduler, app_id)) for app_id in app_ids]
    assert [["ready"] * 5] * 4 == await asyncio.gather(*tails)

    # The loop's own executor lends a thread for a moment, however many there are.
    lent = ("asyncio_", "uvloop_")
    assert [] == [each.name for each in {*threading.enumerate()} - before if not each.name.startswith(lent)]

    for app_id in app_ids:
        await scheduler.kill(app_id)
    assert {AppState.CANCELLED} == {found.state for found in await asyncio.gather(*waiting)}
