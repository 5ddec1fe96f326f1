"""Watch growing files, with inotify or by polling."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import logging
import math
import os
import stat
import struct
import weakref
from collections.abc import Callable, Iterator
from typing import Protocol

from asyncsched.clock import Clock, TimerHandle
from asyncsched.logs.open_files import OpenFiles

__all__ = ["FileWatch", "Follower", "Inotify", "follower_of"]

_log = logging.getLogger("asyncsched.logs")

IN_MODIFY, IN_MOVED_TO, IN_CREATE, IN_Q_OVERFLOW = 0x2, 0x80, 0x100, 0x4000
NOTICE = struct.Struct("iIII")
NOTICES = 16 * 1024
"""Bytes of notices to read in one step of the loop."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.005, 0.25
"""Seconds between two polls of a file: after it has grown, and after a long time without changes."""

NEXT_TRY = 1.0
"""Seconds to wait after inotify refused, so that a thousand files do not all try in vain."""


class FileWatch(Protocol):
    """A watch, returned by `Follower.watch`."""

    def close(self) -> None:
        """Stop the calls; idempotent."""


class Inotify:
    """An inotify instance of the kernel, through the C library, because Python has no function for it.

    Raises:
        OSError: The system has no inotify (ENOSYS), or the user's limit is reached (EMFILE).
    """

    def __init__(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            self._add, self._remove, init = libc.inotify_add_watch, libc.inotify_rm_watch, libc.inotify_init1
        except AttributeError:
            raise OSError(errno.ENOSYS, "the C library has no inotify") from None
        self.fd = _checked(init(os.O_NONBLOCK | os.O_CLOEXEC))

    def add(self, fd: int, mask: int) -> int:
        """Request notices for the file of `fd`; return the watch's number, the same for the same inode."""
        # By descriptor, not by name, because another file may have the name by now.
        return _checked(self._add(self.fd, f"/proc/self/fd/{fd}".encode(), ctypes.c_uint32(mask)))

    def remove(self, number: int) -> None:
        """Remove a watch; the kernel may have removed it already, with the file."""
        self._remove(self.fd, number)

    def read(self) -> Iterator[tuple[int, int]]:
        """Yield the number and the mask of each waiting notice."""
        try:
            data = os.read(self.fd, NOTICES)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            number, mask, _, length = NOTICE.unpack_from(data, at)
            at += NOTICE.size + length
            yield number, mask

    def close(self) -> None:
        """Close the instance; a user has 128 by default."""
        os.close(self.fd)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


class Follower:
    """Watches growing files for one loop: with inotify, or by polling if inotify is not available.

    It has one inotify instance, which closes with the last watch.

    Args:
        clock: The time source for pauses.
        inotify: Creates the instance; None to never use one.
    """

    def __init__(self, *, clock: Clock | None = None, inotify: Callable[[], Inotify] | None = Inotify) -> None:
        self.open_files = OpenFiles()
        self._clock = clock if clock is not None else Clock()
        self._make = inotify
        self._inotify: Inotify | None = None
        self._notices: dict[int, set[_Notices]] = {}
        self._looks: set[_Looks] = set()  # those that hold a descriptor
        self._told = False
        self._not_before = -math.inf

    def watch(self, fd: int, changed: Callable[[], None]) -> FileWatch:
        """Call `changed` on the running loop when a file has grown, or an entry was created in a directory.

        It may be called without a change. Changes before this returns are not reported, so read the file after it.
        You may close the descriptor; the watch continues.
        """
        is_directory = stat.S_ISDIR(os.fstat(fd).st_mode)
        notices = self.notices(fd, changed, IN_CREATE | IN_MOVED_TO if is_directory else IN_MODIFY)
        if notices is not None:
            return notices
        return _Looks(fd if len(self._looks) < self.open_files.most else None, changed, self._clock, self._looks)

    def notices(
        self, fd: int, changed: Callable[[], None], mask: int = IN_CREATE | IN_MOVED_TO | IN_MODIFY
    ) -> FileWatch | None:
        """Watch like `watch`, and also writes to files in a directory; return None without inotify.

        All watches of one directory must use the same kind of notices.
        """
        now = self._clock.monotonic()
        if now >= self._not_before:
            try:
                return self._add(fd, mask, changed)
            except OSError as error:
                self._not_before = now + NEXT_TRY
                self._tell(error)
                self._close_if_unused()
        return None

    def _add(self, fd: int, mask: int, changed: Callable[[], None]) -> _Notices:
        if self._inotify is None:
            if self._make is None:
                raise OSError(errno.ENOSYS, "inotify is not to be used")
            self._inotify = self._make()
            asyncio.get_running_loop().add_reader(self._inotify.fd, self._read)
        notices = _Notices(self, self._inotify.add(fd, mask), changed)
        self._notices.setdefault(notices.number, set()).add(notices)
        return notices

    def _read(self) -> None:
        if self._inotify is None:
            return
        numbers: set[int] = set()
        for number, mask in self._inotify.read():
            numbers.add(number)
            if mask & IN_Q_OVERFLOW:
                numbers.update(self._notices)
        for number in numbers:
            for notices in tuple(self._notices.get(number, ())):
                notices.changed()

    def discard(self, notices: _Notices) -> None:
        """Remove one watch of a file."""
        watches = self._notices.get(notices.number)
        if watches is None or notices not in watches:
            return
        watches.remove(notices)
        if not watches:
            del self._notices[notices.number]
            if self._inotify is not None:
                self._inotify.remove(notices.number)
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if not self._notices and self._inotify is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._inotify.fd)
            inotify, self._inotify = self._inotify, None
            try:
                # The kernel may need 15 ms to close an instance, too long for the loop.
                loop.run_in_executor(None, inotify.close)
            except RuntimeError:  # the loop's thread pool was shut down
                inotify.close()

    def _tell(self, error: OSError) -> None:
        if not self._told and self._make is not None:
            self._told = True
            _log.info("log files are polled, there is no inotify for them: %s", error)

    def __repr__(self) -> str:
        return f"<Follower {len(self._notices)} files by {'inotify' if self._inotify is not None else 'polling'}>"


class _Notices:
    """One watch of a file by inotify; several watches of one file share the kernel's watch."""

    __slots__ = ("_follower", "changed", "number")

    def __init__(self, follower: Follower, number: int, changed: Callable[[], None]) -> None:
        self._follower = follower
        self.number = number
        self.changed = changed

    def close(self) -> None:
        self._follower.discard(self)


class _Looks:
    """One watch of a file by polling, less often while it does not change.

    If no descriptor is left, it calls `changed` on every poll, and the callee checks the file itself.
    """

    __slots__ = ("_changed", "_clock", "_fd", "_holders", "_pause", "_seen", "_timer")

    def __init__(self, fd: int | None, changed: Callable[[], None], clock: Clock, holders: set[_Looks]) -> None:
        self._changed = changed
        self._clock = clock
        self._fd = None if fd is None else _duplicate(fd)
        self._holders = holders
        if self._fd is not None:
            holders.add(self)
        self._seen = self._look()
        self._pause = SHORTEST_PAUSE
        self._timer: TimerHandle | None = clock.call_later(self._pause, self._on_time)

    def _on_time(self) -> None:
        seen = self._look()
        grown = seen is None or seen != self._seen
        self._seen = seen
        # Without a size to compare, `changed` is called every time, at a slower pace.
        self._pause = SHORTEST_PAUSE if grown and seen is not None else min(self._pause * 1.5, LONGEST_PAUSE)
        self._timer = self._clock.call_later(self._pause, self._on_time)
        if grown:
            self._changed()

    def _look(self) -> int | None:
        """Return a file's size; None for a directory, whose size says nothing, or without a descriptor."""
        if self._fd is None:
            return None
        found = os.fstat(self._fd)
        return None if stat.S_ISDIR(found.st_mode) else found.st_size

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._holders.discard(self)
            if self._fd is not None:
                os.close(self._fd)


def _duplicate(fd: int) -> int | None:
    try:
        return os.dup(fd)
    except OSError:  # no descriptor is left; polling works without one
        return None


# One entry per living loop, dropped with the loop.
_followers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Follower] = weakref.WeakKeyDictionary()


def follower_of(loop: asyncio.AbstractEventLoop) -> Follower:
    """Return the one follower of a loop."""
    follower = _followers.get(loop)
    if follower is None:
        follower = _followers[loop] = Follower()
    return follower
