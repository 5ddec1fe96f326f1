"""Run a verb's coroutine with a runner on a new event loop."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from typing import TextIO, TypeVar

from asyncsched._tasks import gather_bounded
from asyncsched._typing import override
from asyncsched.cli.console import Console
from asyncsched.cli.control_sequences import visible
from asyncsched.errors import ConfigError
from asyncsched.runner.runner import Runner

__all__ = ["SESSION", "answers", "next_event", "on_interrupt", "parameters", "parted", "run_with_runner", "warnings_to"]

_logger = logging.getLogger("asyncsched")

SESSION = "cli"
AT_ONCE = 64

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def run_with_runner(console: Console, work: Callable[[Runner], Awaitable[int]], session: str = SESSION) -> int:
    """Return the result of `work`; Ctrl-C cancels it and then raises KeyboardInterrupt.

    Args:
        console: Holds the common options, such as ``--debug``.
        work: Called with a runner, which is closed afterwards.
        session: The session that submitted apps belong to.
    """
    _show_warnings(console)

    async def main() -> int:
        _wake_on_signals()
        async with Runner(session, None, None, **parameters()) as runner:
            return await work(runner)

    return asyncio.run(main())


def _wake_on_signals() -> None:
    """Let any signal wake the running loop: one that arrives just before it waits would be seen at its next event.

    It watches for signals once it handles one of them. This one is ignored by default.
    """
    with suppress(RuntimeError, ValueError):  # Windows, where it always watches, or a thread, which gets no signals
        asyncio.get_running_loop().add_signal_handler(signal.SIGURG, lambda: None)


def parameters() -> dict[str, dict[str, object]]:
    """Return the configured parameters of schedulers, such as a Kubernetes context."""
    from asyncsched.runner.config import load_config

    try:
        return load_config().parameters()
    except ConfigError:
        return {}  # verbs that need the configuration report this, and so does `doctor`


async def answers(
    ask: Callable[[ItemT], Awaitable[ResultT]], items: Iterable[ItemT]
) -> dict[ItemT, ResultT | Exception]:
    """Call `ask` for all items concurrently, and return the answer or error of each, in order."""
    found: dict[ItemT, ResultT | Exception] = {}

    async def one(item: ItemT) -> None:
        try:
            found[item] = await ask(item)
        except Exception as error:  # noqa: BLE001 - one failure must not hide the other answers; all are shown
            found[item] = error

    items = list(dict.fromkeys(items))
    await gather_bounded(one, items, AT_ONCE)
    return {item: found[item] for item in items}


def parted(
    told: Mapping[ItemT, ResultT | Exception],
) -> tuple[dict[ItemT, ResultT], dict[ItemT, Exception]]:
    """Split results into answers and errors."""
    known = {item: answer for item, answer in told.items() if not isinstance(answer, Exception)}
    return known, {item: answer for item, answer in told.items() if isinstance(answer, Exception)}


async def next_event(events: AsyncIterator[ItemT], failed: Callable[[Exception], object]) -> ItemT | None:
    """Return the next event, None at the end; pass errors of schedulers to `failed` and continue with the others."""
    while True:
        try:
            return await anext(events)
        except StopAsyncIteration:
            return None
        except Exception as error:  # noqa: BLE001 - the other schedulers continue
            failed(error)


@contextmanager
def on_interrupt(pressed: Callable[[], object]) -> Generator[None]:
    """Call `pressed` on the running loop for each Ctrl-C. The command line may do so, as it owns its process."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, pressed)
    except NotImplementedError:  # as on Windows

        def tell(_number: int, _frame: object) -> None:
            loop.call_soon_threadsafe(pressed)

        before = signal.signal(signal.SIGINT, tell)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


class _Formatter(logging.Formatter):
    """Makes control characters visible, because a terminal would obey them."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


class _Handler(logging.StreamHandler[TextIO]):
    """Writes to stderr, after removing what is drawn there."""

    def __init__(self, console: Console) -> None:
        super().__init__(sys.stderr)
        self._console = console

    @override
    def emit(self, record: logging.LogRecord) -> None:
        if threading.current_thread() is threading.main_thread():  # drawing happens in this thread
            self._console.before_saying()
        super().emit(record)


def _show_warnings(console: Console) -> None:
    """Show the library's warnings; with ``--debug``, all its log messages."""
    handler = _Handler(console)
    form = "%(levelname)s %(name)s: %(message)s" if console.debug else "warning: %(message)s"
    handler.setFormatter(_Formatter(form))
    _logger.addHandler(handler)
    _logger.setLevel(logging.DEBUG if console.debug else logging.WARNING)


class _Noted(logging.Handler):
    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note
        self.setFormatter(_Formatter("warning: %(message)s"))

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self._note(" ".join(self.format(record).split()))


@contextmanager
def warnings_to(note: Callable[[str], None]) -> Generator[None]:
    """Pass the library's log messages to `note` instead of stderr, which would overwrite a drawn screen."""
    before = list(_logger.handlers)
    _logger.handlers[:] = [_Noted(note)]
    try:
        yield
    finally:
        _logger.handlers[:] = before
