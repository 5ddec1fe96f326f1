"""How apps are displayed: rows, groups of similar replicas, summaries, strips, ages and last lines.

These modules are pure: they compute views from events, statuses and lists, and take the time as an argument. The
terminal, the notebook and the web page only render the views.
"""

from __future__ import annotations
