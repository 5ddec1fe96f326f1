"""Who a container says it is: the labels that decide to which app it belongs and which replica of it it is.

Anybody may make containers with labels like ours. Where one of these labels is none that we would have written, the
container's part in an app is not known; where it is the app's id, the container is no part of any app.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from asyncsched.schedulers._common.untrusted import read_float, read_id, read_number, read_session, read_text, shown
from asyncsched.schedulers.docker import names

__all__ = ["Identity", "read_identity"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a container's labels say of its place.

    Attributes:
        app_id: The app's id; empty if no app can be named so.
        app_name: The name that the app was given.
        session: The session that submitted it.
        role: The role's name.
        role_index: The role's place among the app's roles.
        replica: The replica's number.
        max_retries: How often it may be started again.
        timeout: How many seconds one of its runs may take.
        remove_after: How many seconds after its end it may be removed.
        fault: Which label is none of ours, and why; empty if all can be ours.
    """

    app_id: str
    app_name: str
    session: str
    role: str
    role_index: int
    replica: int
    max_retries: int
    timeout: float
    remove_after: float
    fault: str


def read_identity(own: Mapping[str, object]) -> Identity:
    """Read a container's labels; a label that is missing, or none of ours, has its default."""
    faults: list[str] = []

    def read(label: str, reader: Callable[[object], T], default: T) -> T:
        if label not in own:
            return default
        try:
            return reader(own[label])
        except ValueError as error:
            faults.append(f"the label {label} {error}: {shown(own[label])}")
            return default

    return Identity(
        app_id=read(names.APP_ID, read_id, ""),
        app_name=read(names.APP_NAME, read_text, ""),
        session=read(names.SESSION, read_session, ""),
        role=read(names.ROLE, read_text, ""),
        role_index=read(names.ROLE_INDEX, read_number, 0),
        replica=read(names.REPLICA, read_number, 0),
        max_retries=read(names.RETRIES, read_number, 0),
        timeout=read(names.TIMEOUT, read_float, math.inf),
        remove_after=read(names.REMOVE_AFTER, read_float, math.inf),
        fault=faults[0] if faults else "",
    )
