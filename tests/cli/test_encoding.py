"""Output that the encoding of stdout cannot hold: nothing is lost, and JSON stays JSON."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
from pathlib import Path

import pytest

from asyncsched.cli.log_printer import LinePrinter, print_lines
from asyncsched.logs.line import LogOrigin, label
from asyncsched.logs.source import QueueSource
from tests.cli._cli import WITHIN, Cli
from tests.logs._fakes import stream_of

ENCODINGS = {
    "utf-8": {"PYTHONIOENCODING": "utf-8"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "the C locale": {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}
TEXT = "caf\xe9 \u20ac \U0001f600"
NAME = f"n{TEXT} \udcff"


@pytest.fixture(params=list(ENCODINGS))
def encoded(request: pytest.FixtureRequest, cli: Cli) -> Cli:
    cli.environment |= ENCODINGS[request.param]
    return cli


def run(cli: Cli, *args: str) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        cli.command(*args), cwd=cli.folder, env=cli.env, stdin=subprocess.DEVNULL, capture_output=True,
        timeout=WITHIN, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def as_given(name: str, cli: Cli) -> str:
    """Return how a process reads what stands in its environment: in the C locale, bytes above ASCII are surrogates."""
    is_plain = "PYTHONIOENCODING" not in cli.env
    return name.encode(errors="surrogateescape").decode("ascii", "surrogateescape") if is_plain else name


def in_encoding(text: str, cli: Cli) -> bytes:
    return text.encode(cli.env.get("PYTHONIOENCODING", "ascii").partition(":")[0], "backslashreplace")


@pytest.mark.slow
def test_lines_that_cannot_be_encoded_are_written_with_backslashes(encoded: Cli) -> None:
    code, out, err = run(encoded, "run", "-s", "stage", "--log", "utils.sh", f"echo a\necho {TEXT}\necho last")

    assert (0, b"") == (code, b"".join(line for line in err.splitlines() if b"SUCCEEDED" not in line))
    assert [b"sh/0 a", in_encoding(f"sh/0 {TEXT}", encoded), b"sh/0 last"] == out.splitlines()[1:]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_json_is_the_same_in_every_encoding(encoded: Cli, form: str) -> None:
    encoded.environment |= {"STAGE_APPS": "1", "STAGE_NAME": NAME}
    _, out, err = run(encoded, "list", "-o", form)
    rows = json.loads(out)

    assert ([as_given(NAME, encoded)], b"") == ([row["name"] for row in (rows if form == "json" else [rows])], err)
    _, out, _ = run(encoded, "run", "-s", "stage", "--log", "-o", "jsonl", "utils.sh", f"echo {TEXT}")

    assert [TEXT] == [row["text"] for row in map(json.loads, out.splitlines()) if "text" in row]


@pytest.mark.slow
def test_a_name_that_no_encoding_holds_does_not_end_the_list(encoded: Cli) -> None:
    encoded.environment |= {"STAGE_APPS": "12", "STAGE_NAME": NAME, "STAGE_ROLE": NAME, "STAGE_REASON": NAME}
    most = {("list",): 13, ("status", "train-*"): 13, ("status", "train-003"): 8, ("describe", "train-003"): 5}
    for args, lines in most.items():
        code, out, err = run(encoded, *args)

        assert (0, b"") == (code, err)
        assert lines <= len(out.splitlines())
        assert in_encoding(as_given(NAME[:4], encoded), encoded) in out or args[0] == "describe"
    code, out, err = run(encoded, "log", "train-003")

    assert (0, in_encoding(f"{as_given(NAME, encoded)}/0 hello from the stage\n", encoded), b"") == (code, out, err)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [1, 2])
def test_a_closed_stream_does_not_matter_in_any_locale(cli: Cli, closed: int) -> None:
    cli.environment |= ENCODINGS["the C locale"]
    done = subprocess.run(
        cli.command("run", "-s", "stage", "--log", "-o", "json", "utils.sh", f"echo {TEXT}"),
        cwd=cli.folder, env=cli.env, timeout=WITHIN, check=False, preexec_fn=lambda: os.close(closed),
    )  # fmt: skip

    assert 0 == done.returncode


@pytest.mark.slow
def test_an_exit_code_does_not_need_stderr(cli: Cli) -> None:
    for args, code in (("run", "-s", "stage", "--log", "utils.sh", "exit 1"), 1), (("status", "stage://x/nothing"), 4):
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                cli.command(*args), cwd=cli.folder, env=cli.env, timeout=WITHIN, stderr=full, check=False,
            )  # fmt: skip

        assert code == done.returncode


class Full(io.StringIO):
    """A file whose every write fails, in whatever way."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("closed"), LookupError("codec")])
@pytest.mark.parametrize("end", [True, False], ids=["at the end", "while it runs"])
async def test_whatever_fails_when_lines_are_written_is_raised(error: Exception, end: bool) -> None:
    source = QueueSource(role="main", replica=0, room=10)
    source.put(label(["a\n"], LogOrigin(app_id="a", role="main"), 1))
    if end:
        source.end()
    with pytest.raises(type(error)) as caught:
        async with asyncio.timeout(WITHIN):
            await print_lines(stream_of(source), LinePrinter(Full(error)))

    assert error is caught.value
