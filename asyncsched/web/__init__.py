"""The page of `asyncsched web`: a live table of apps and their logs in a browser, and the HTTP API behind it.

``security`` decides who has access, ``wire`` turns apps and lines into JSON, ``board`` and ``tail`` store them within
bounds, ``hub`` fills both from one watch, ``events`` streams them to a page, and ``api`` and ``server`` do the HTTP.
"""

from __future__ import annotations
