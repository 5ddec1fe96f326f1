"""A large app is described in a thread, also if only its note, which anybody may write, calls it large."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from asyncsched.schedulers.kubernetes import lookup
from asyncsched.schedulers.kubernetes.lookup import LARGE, described
from asyncsched.schedulers.kubernetes.status import Description
from asyncsched.schedulers.kubernetes.status_jobs import JobRecord, job_record


def volcano(replicas: int, *, noted: int) -> JobRecord:
    tasks: list[dict[str, Any]] = [{"name": "main", "replicas": replicas}] if replicas else []
    record = job_record(
        {
            "metadata": {
                "name": "app",
                "namespace": "default",
                "uid": "1",
                "labels": {"asyncsched/app": "app"},
                "annotations": {
                    "asyncsched/request": "digest",
                    "asyncsched/roles": json.dumps({"roles": [{"name": "main", "num_replicas": noted}]}),
                },
            },
            "spec": {"tasks": tasks},
            "status": {},
        },
        "volcano",
    )
    assert record is not None
    return record


@pytest.mark.parametrize(
    ("replicas", "noted", "described_replicas"), [(3, 3, 3), (2 * LARGE, 1, 2 * LARGE), (0, 999_999_999, 100_000)]
)
async def test_an_app_that_is_large_in_any_way_does_not_hold_the_loop(
    replicas: int, noted: int, described_replicas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    whole = Description.described

    def noting(self: Description) -> Any:
        threads.append(threading.current_thread())
        return whole(self)

    monkeypatch.setattr(Description, "described", noting)
    found = await described([volcano(replicas, noted=noted)], [])

    assert found is not None
    assert described_replicas == sum(len(status.replicas) for status in found.roles_statuses)
    assert [described_replicas <= lookup.LARGE] == [thread is threading.main_thread() for thread in threads]
