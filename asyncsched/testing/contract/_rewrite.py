"""Make pytest show the values in the contract's assertions, as it does by default only in test files.

Import this before the modules that it names.
"""

from __future__ import annotations

import pytest

__all__ = ["REWRITTEN"]

REWRITTEN = tuple(
    f"asyncsched.testing.contract.{module}" for module in ("endings", "logs", "rig", "states", "submitting")
)

pytest.register_assert_rewrite(*REWRITTEN)
