"""Run a command on a kernel without some calls: ``_without.py NAME=ERRNO... -- COMMAND...``.

The kernel itself refuses them (seccomp), in the command and in all that it starts, as it would where they are
missing or used up. Nothing of what is tested is changed for it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER_MODE = 38, 22, 2
LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06  # of the kernel's packet filters: a word, a jump, an end
ALLOW, REFUSE = 0x7FFF0000, 0x00050000

NUMBERS = {
    "x86_64": {"pidfd_open": 434, "inotify_init1": 294, "inotify_add_watch": 254},
    "aarch64": {"pidfd_open": 434, "inotify_init1": 26, "inotify_add_watch": 27},
}
CALLS = NUMBERS.get(platform.machine(), {})


class Program(ctypes.Structure):
    """What the kernel is handed: a number of instructions, and where they are."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse(calls: dict[str, int]) -> None:
    """Have the kernel answer these calls with an error from now on."""
    steps = [struct.pack("HBBI", LOAD, 0, 0, 0)]
    for name, error in calls.items():
        steps.append(struct.pack("HBBI", IF_EQUAL, 0, 1, CALLS[name]))
        steps.append(struct.pack("HBBI", RETURN, 0, 0, REFUSE | error))
    steps.append(struct.pack("HBBI", RETURN, 0, 0, ALLOW))
    program = Program(len(steps), b"".join(steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, FILTER_MODE, ctypes.byref(program)):
        raise OSError(ctypes.get_errno(), "this kernel has no filters")


if __name__ == "__main__":
    split = sys.argv.index("--")
    wanted = (word.split("=") for word in sys.argv[1:split])
    refuse({name: getattr(errno, error) for name, error in wanted})
    os.execvp(sys.argv[split + 1], sys.argv[split + 1 :])
