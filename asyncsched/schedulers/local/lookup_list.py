"""The list of all apps of a state directory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from asyncsched.schedulers.local.lookup import Apps, FoundApp, LookupResult
from asyncsched.schedulers.local.state_dir import StateDir
from asyncsched.schedulers.local.status import list_row
from asyncsched.schedulers.local.status_record import BACKEND
from asyncsched.schedulers.responses import ListAppResponse
from asyncsched.specs.handle import make_app_handle
from asyncsched.specs.state import AppState

__all__ = ["list_rows"]

_log = logging.getLogger("asyncsched.schedulers.local")

ROWS_AT_ONCE = 100


async def list_rows(home: StateDir, apps: Apps) -> list[ListAppResponse]:
    """Return a row for each app, newest first."""
    rows: list[ListAppResponse] = []
    app_ids = await asyncio.to_thread(home.app_ids)
    for start in range(0, len(app_ids), ROWS_AT_ONCE):
        found = await apps.find(app_ids[start : start + ROWS_AT_ONCE])
        rows += await asyncio.to_thread(_rows, found)
    rows.sort(key=lambda row: row.created_at.timestamp() if row.created_at else 0.0, reverse=True)
    return rows


def _rows(found: Mapping[str, LookupResult]) -> list[ListAppResponse]:
    return [row for app_id, each in found.items() if (row := _row(app_id, each)) is not None]


def _row(app_id: str, found: LookupResult) -> ListAppResponse | None:
    if isinstance(found, FoundApp):
        return list_row(found.record, found.supervisor_state)
    if found is None:
        return None
    _log.warning("%s", found)
    return ListAppResponse(app_id, AppState.UNKNOWN, make_app_handle(BACKEND, "", app_id))
