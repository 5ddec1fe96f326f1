from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.runner.rig import Rig


@pytest.fixture
async def rig() -> AsyncGenerator[Rig]:
    async with Rig() as rig:
        yield rig
