"""The monitor in a terminal: a table of many apps and the log of those that are chosen.

It draws what `asyncsched.views` makes, and asks a `MonitorSource` for it. Only `app`, `panes`, `screens` and `terminal`
know textual, and `run` imports them when a monitor starts.
"""

from __future__ import annotations
