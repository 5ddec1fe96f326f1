"""The monitor in a terminal: a table of many apps, and the log of the selected ones.

It draws the rows of `asyncsched.views`, which a `MonitorSource` keeps up to date. Only `app`, `keys`, `panes`,
`screens` and `terminal` import textual; `run` imports them when a monitor starts.
"""

from __future__ import annotations
