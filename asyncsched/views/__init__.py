"""How apps are shown: rows, groups of equal replicas, summaries, strips, ages and last lines.

All of it is pure: it is made of events, statuses and rows of lists, and takes the time as an argument. A terminal, a
notebook and a page render it, and compute nothing themselves.
"""

from __future__ import annotations
