"""What every test has: the guard, both loops, and a temporary home."""

from __future__ import annotations

pytest_plugins = ["tests._guard"]
