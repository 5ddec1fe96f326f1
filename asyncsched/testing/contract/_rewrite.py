"""Let pytest tell the values of a contract's assertions: it does so for test files by itself, and for no other module.

This has to be imported before the modules that it names.
"""

from __future__ import annotations

import pytest

__all__ = ["REWRITTEN"]

REWRITTEN = tuple(
    f"asyncsched.testing.contract.{module}" for module in ("endings", "logs", "rig", "states", "submitting")
)

pytest.register_assert_rewrite(*REWRITTEN)
