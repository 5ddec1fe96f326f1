"""An interrupt is never lost.

Python raises KeyboardInterrupt in whatever Python code runs next. While the collector works, that is the guard's
callback in `gc.callbacks`, and what is raised there is only reported. So such an interrupt is sent once more, when the
report is over: raised in there, it would be lost too.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import pytest

_A_MOMENT = 0.01


@pytest.hookimpl(trylast=True)  # pytest sets a hook of its own, without a call of the one before
def pytest_configure() -> None:
    before = sys.unraisablehook

    def report(lost: sys.UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            before(lost)
            return
        over: list[bool] = []
        threading.Thread(target=send_again, args=[over], name="tests-interrupts", daemon=True).start()
        over.append(True)

    def send_again(over: list[bool]) -> None:
        while not over:
            time.sleep(_A_MOMENT)
        time.sleep(_A_MOMENT)
        os.kill(os.getpid(), signal.SIGINT)  # to the process: one to this thread would not wake the main one

    sys.unraisablehook = report
