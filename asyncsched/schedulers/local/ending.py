"""Removing apps that ended long ago."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from asyncsched.schedulers.hooks import TERMINAL
from asyncsched.schedulers.local.lookup import Apps, Finding, Found
from asyncsched.schedulers.local.state_dir import Home, Stored
from asyncsched.schedulers.local.status import describe_app
from asyncsched.specs.state import AppState

__all__ = ["prune"]

AT_ONCE = 100


async def prune(
    home: Home, apps: Apps, older_than: timedelta, *, keep: int = 0, states: Collection[AppState] = TERMINAL
) -> list[str]:
    """Remove apps that ended in these states longer ago than this; return their ids.

    Args:
        home: The state directory.
        apps: Tells what has ended.
        older_than: How long ago.
        keep: How many of the newest ended ones stay, whatever their age.
        states: The ends that count.
    """
    limit = time.time() - older_than.total_seconds()
    app_ids = await asyncio.to_thread(_worth_a_look, home, limit, keep)
    await asyncio.to_thread(apps.remove_drafts)
    ended: list[tuple[float, Stored]] = []
    for start in range(0, len(app_ids), AT_ONCE):
        found = await apps.find(app_ids[start : start + AT_ONCE])
        ended += await asyncio.to_thread(_ends, found, states)
        for app_id in [app_id for app_id, each in found.items() if each is None]:
            await asyncio.to_thread(apps.remove_draft, app_id)
    ended.sort(key=lambda each: (each[0], each[1].app_id), reverse=True)
    removed = [stored for end, stored in ended[keep:] if end <= limit]
    for stored in removed:
        await asyncio.to_thread(home.remove, stored)
    return [stored.app_id for stored in removed]


def _worth_a_look(home: Home, limit: float, keep: int) -> list[str]:
    """Return all apps, or none if none can be old enough: nothing changes of one that has ended."""
    app_ids = home.app_ids()
    if len(app_ids) <= keep:
        return []
    changed = [home.changed_at(app_id) for app_id in app_ids]
    return app_ids if any(at is not None and at <= limit for at in changed) else []


def _ends(found: Mapping[str, Finding], states: Collection[AppState]) -> list[tuple[float, Stored]]:
    return [end for app_id, each in found.items() if isinstance(each, Found) for end in _end(app_id, each, states)]


def _end(app_id: str, found: Found, states: Collection[AppState]) -> list[tuple[float, Stored]]:
    described = describe_app(found.record, found.standing, found.is_alive)
    if described.state not in states:
        return []
    end: datetime | None = described.finished_at or described.created_at
    return [(end.timestamp() if end else 0.0, Stored(app_id, found.record))]
