from __future__ import annotations

import asyncsched.specs as specs


def test_all_is_sorted_and_complete() -> None:
    assert (
        sorted(specs.__all__, key=lambda name: (not name.isupper(), name.lower() == name, name))
        == specs.__all__
    )
    assert all(hasattr(specs, name) for name in specs.__all__)
