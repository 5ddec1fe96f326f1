"""Ports of the loopback for programs that cannot be handed a socket, so that a number is chosen before it is bound.

A number that the kernel has just given out is free for a moment only: any connection, of any process, may be given it
next. So these come from below the range of which the kernel gives numbers out, and are taken once: by the name of an
abstract socket, which is free again when the process that has it closes it or ends.
"""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterator
from pathlib import Path

_LOWEST, _BEYOND = 10_000, 20_000
_GIVEN_OUT = Path("/proc/sys/net/ipv4/ip_local_port_range")


class Ports:
    """So many free ports of 127.0.0.1, which no other of the tests' processes takes until `close`."""

    def __init__(self, count: int) -> None:
        self._marks: list[socket.socket] = []
        self.numbers: list[int] = []
        for number in _candidates():
            if self._take(number) and len(self.numbers) == count:
                return
        self.close()
        raise RuntimeError(f"no {count} ports of 127.0.0.1 are free")

    def close(self) -> None:
        """Let others take them."""
        while self._marks:
            self._marks.pop().close()

    def _take(self, number: int) -> bool:
        mark = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError), socket.socket() as probe:  # somebody has it
            mark.bind(f"\0asyncsched-tests-port-{number}")
            probe.bind(("127.0.0.1", number))
            self._marks.append(mark)
            self.numbers.append(number)
            return True
        mark.close()
        return False


def _candidates() -> Iterator[int]:
    lowest_given_out = int(_GIVEN_OUT.read_text().split()[0])
    usual = range(_LOWEST, min(_BEYOND, max(lowest_given_out, _LOWEST + 1000)))
    return iter(random.sample(usual, len(usual)))


@contextlib.contextmanager
def refusing_port() -> Iterator[int]:
    """A port at which nobody listens, and which nobody else can have meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen: a connection is refused
        yield int(taken.getsockname()[1])
