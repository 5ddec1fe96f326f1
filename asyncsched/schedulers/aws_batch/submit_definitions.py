"""Reuse job definitions with the same content, or remove them when their app has ended."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, cast

from asyncsched._tasks import BackgroundTasks
from asyncsched.errors import AsyncSchedError
from asyncsched.schedulers.aws_batch.client import AWSConnection
from asyncsched.schedulers.aws_batch.request import HASH_TAG, BatchJob, definition_to_wire, name_definition
from asyncsched.schedulers.aws_batch.status_rows import part

__all__ = ["Definitions"]

_log = logging.getLogger("asyncsched.schedulers.aws_batch")

MAX_REMOVED = 10_000
"""Deregistered definitions to remember, so that each is deregistered once."""


class Definitions:
    """Finds or registers the definition of a job.

    A reusable definition has a tag with a hash of its content. Each process looks for it once, and registers it only if
    it does not exist.
    """

    def __init__(self) -> None:
        self._revisions: dict[tuple[AWSConnection, str], str] = {}
        self._removed: OrderedDict[str, None] = OrderedDict()
        self._lock = asyncio.Lock()
        self._tidying = BackgroundTasks(_log)

    async def ensure(self, connection: AWSConnection, job: BatchJob) -> str:
        """Return the ARN of a definition for this job."""
        request = definition_to_wire(job)
        if not job.reuse:
            return await _register(connection, request)
        content = cast("dict[str, str]", request["tags"])[HASH_TAG]
        name = cast("str", request["jobDefinitionName"])
        key = connection, f"{name}/{content}"
        async with self._lock:  # A hundred concurrent submits of one app register one definition.
            if key not in self._revisions:
                found = await _find(connection, name, content)
                self._revisions[key] = found or await _register(connection, request)
            return self._revisions[key]

    def is_leftover(self, row: Mapping[str, Any]) -> bool:
        """Return whether an ended job leaves its own definition behind; True once per definition."""
        arn: str = row["jobDefinition"]
        name = arn.rpartition("/")[2].partition(":")[0]
        if name != name_definition(row["jobName"]) or arn in self._removed:
            return False
        self._removed[arn] = None
        if len(self._removed) > MAX_REMOVED:
            self._removed.popitem(last=False)
        return True

    def tidy(self, connection: AWSConnection, row: Mapping[str, Any]) -> None:
        """Deregister an ended job's own definition in a background task."""
        if self.is_leftover(row):  # The caller that happens to read the job first must not wait for this.
            self._tidying.start(self.deregister(connection, row["jobDefinition"]))

    async def aclose(self) -> None:
        """Wait a little for running tasks, then cancel them."""
        await self._tidying.close(5.0, patience=5.0)

    async def deregister(self, connection: AWSConnection, arn: str) -> None:
        """Deregister the definition of an ended app; log a failure."""
        try:
            await connection.call("batch", "DeregisterJobDefinition", jobDefinition=arn)
        except AsyncSchedError as error:
            _log.warning("the job definition %s could not be deregistered: %s", arn, error)

    def forget(self, arn: str) -> None:
        """Forget a definition that was deregistered elsewhere."""
        self._revisions = {key: value for key, value in self._revisions.items() if value != arn}


async def _find(connection: AWSConnection, name: str, content: str) -> str | None:
    request: dict[str, object] = {"jobDefinitionName": name, "status": "ACTIVE"}
    while True:
        answer = await connection.call("batch", "DescribeJobDefinitions", "jobDefinitions", **request)
        for row in cast("list[Mapping[str, Any]]", answer["jobDefinitions"]):
            if part(row, "tags").get(HASH_TAG) == content:
                return str(row["jobDefinitionArn"])
        if not answer.get("nextToken"):
            return None
        request["nextToken"] = answer["nextToken"]


async def _register(connection: AWSConnection, request: Mapping[str, object]) -> str:
    # A retry after a lost answer creates a second revision with the same content, which is harmless.
    answer = await connection.call("batch", "RegisterJobDefinition", "jobDefinitionArn", **request)
    return str(answer["jobDefinitionArn"])
