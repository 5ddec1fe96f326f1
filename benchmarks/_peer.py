"""The peer to compare with: one environment for all benchmarks, and scripts that measure it when they are told to."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

PEER = Path(os.environ.get("ASYNCSCHED_PEER_VENV", "/tmp/asyncsched-peer"))
"""A virtual environment with the peer: made on first use, kept for the next. Those of other peers stand beside it."""


class Environment(NamedTuple):
    """A virtual environment with a peer: where it is, and what is installed there."""

    at: Path
    wanted: Sequence[str]


TORCHX = Environment(PEER, ["torchx[kubernetes,gcp_batch]==0.7.0", "docker", "setuptools<81"])
SUBMITIT = Environment(PEER.with_name(f"{PEER.name}-submitit"), ["submitit==1.5.3"])

# Whatever the peer prints goes to where its errors go: the answers have the standard output for themselves.
_SERVE = """
import json, os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
{script}
try:
    for _ in sys.stdin:
        answers.write(json.dumps(measure()) + chr(10))
        answers.flush()
finally:
    finish()
answers.close()
os._exit(0)
"""


class Peer:
    """A script in the peer's environment: its function `measure` is called once for each `measure` here."""

    def __init__(self, process: subprocess.Popen[str], errors: IO[str]) -> None:
        self._process = process
        self._errors = errors

    async def measure(self) -> list[float]:
        """Let it measure once and return what that has given; the loop is free meanwhile."""
        return await asyncio.to_thread(self._ask)

    async def measure_one(self) -> float:
        """Let it measure once and return the only number of that."""
        (value,) = await self.measure()
        return value

    def _ask(self) -> list[float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the missing answer says more
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._errors.seek(0)
            raise RuntimeError(f"the peer has ended: {self._errors.read()[-2000:]}")
        return [float(value) for value in json.loads(answer)]


@contextmanager
def peer(script: str, of: Environment = TORCHX) -> Iterator[Peer]:
    """Start a script that defines `measure()`, which returns a list of numbers, and `finish()`, which cleans up."""
    command = [str(installed(of) / "bin/python"), "-W", "ignore", "-c", _SERVE.format(script=script)]
    pipe = subprocess.PIPE
    # All that it writes goes with the directory, however it ends.
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        env = {**os.environ, "TMPDIR": folder}
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True, env=env) as process:
            try:
                yield Peer(process, errors)
            except BaseException:
                _end(process)
                raise


def _end(process: subprocess.Popen[str]) -> None:
    """Let it end its own jobs, which have sessions of their own, before it is killed."""
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()


def installed(what: Environment = TORCHX) -> Path:
    """Return the environment with a peer, and make it where it is not there yet."""
    with Path(f"{what.at}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two benchmarks may come for the first time together
        made_for = what.at / "made-for"
        if not made_for.exists() or made_for.read_text() != str(what.wanted):
            venv.create(what.at, with_pip=True)
            command = [str(what.at / "bin/python"), "-m", "pip", "install", "-q", *what.wanted]
            subprocess.run(command, check=True, stdout=sys.stderr)
            made_for.write_text(str(what.wanted))
    return what.at
