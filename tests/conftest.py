"""What every test has: the guard on both loops, and word of missing services."""

from __future__ import annotations

pytest_plugins = ["tests._guard", "tests._services"]
