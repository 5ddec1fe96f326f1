"""Runs many command lines of asyncsched in the time of one start: each in a fork of a process that has loaded it.

Reads a JSON list of argument lists from stdin, and writes a list of ``[exit code, stdout, stderr]``.
"""

from __future__ import annotations

import asyncio  # noqa: F401 - every line needs it
import json
import os
import signal
import sys
import tempfile
from importlib.metadata import entry_points

import asyncsched.runner
from asyncsched import Runner

(_command,) = entry_points(group="console_scripts", name="asyncsched")
main = _command.load()
assert asyncsched.runner.Runner is Runner  # loaded before the forks


def run(line: list[str]) -> tuple[int, str, str]:
    """Run one command line."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            signal.alarm(40)  # one that hangs is not left behind
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.argv[1:] = line
            code = 70
            try:
                main()
            except SystemExit as end:
                code = int(end.code or 0)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        return os.waitstatus_to_exitcode(status), out.read().decode(), err.read().decode()


if __name__ == "__main__":
    json.dump([run(line) for line in json.load(sys.stdin)], sys.stdout)
