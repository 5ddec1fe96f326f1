"""The page of `asyncsched web`: a live table of apps and their logs in a browser, and the HTTP API behind it.

``security`` says who may ask, ``wire`` writes what is shown, ``board`` and ``tail`` keep it within bounds, ``hub``
fills both from one watch, ``events`` streams them to a page, and ``api`` and ``server`` are the HTTP around it.
"""

from __future__ import annotations
