"""What every test has: the guard on both loops, and word of missing services."""

from __future__ import annotations

from hypothesis import settings

pytest_plugins = ["tests._guard", "tests._services", "tests.services.fixtures"]

# A busy machine is not a wrong result.
settings.register_profile("patient", deadline=None)
settings.register_profile("quick", settings.get_profile("patient"), max_examples=20)  # of `tests/run --fast`
settings.load_profile("patient")
