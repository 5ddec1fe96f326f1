"""An interrupt is never lost.

Python raises KeyboardInterrupt in whatever Python code runs next. While the collector works, that is the guard's
callback in `gc.callbacks`, and what is raised there is only reported. So such an interrupt is sent once more, a moment
later.
"""

from __future__ import annotations

import signal
import sys
import threading

import pytest

_A_MOMENT = 0.01


@pytest.hookimpl(trylast=True)  # pytest sets a hook of its own, without a call of the one before
def pytest_configure() -> None:
    before = sys.unraisablehook

    def report(lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            threading.Timer(
                _A_MOMENT, signal.raise_signal, [signal.SIGINT]
            ).start()  # raised here, it would be lost too
        else:
            before(lost)

    sys.unraisablehook = report
