"""Job definitions: reused by what is in them, or gone when their app is over."""

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
"""Definitions that have been deregistered, so that it is not done again at each look."""


class Definitions:
    """Finds or registers the definition that a job needs.

    A definition that other apps may use carries a hash of its content as a tag. Each process looks once, and registers
    only what nobody has registered before.
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
        async with self._lock:  # A hundred submits of one app at once register one definition.
            if key not in self._revisions:
                found = await _find(connection, name, content)
                self._revisions[key] = found or await _register(connection, request)
            return self._revisions[key]

    def is_leftover(self, row: Mapping[str, Any]) -> bool:
        """Tell whether a job that has ended leaves a definition behind that was its own; asked once for each."""
        arn: str = row["jobDefinition"]
        name = arn.rpartition("/")[2].partition(":")[0]
        if name != name_definition(row["jobName"]) or arn in self._removed:
            return False
        self._removed[arn] = None
        if len(self._removed) > MAX_REMOVED:
            self._removed.popitem(last=False)
        return True

    def tidy(self, connection: AWSConnection, row: Mapping[str, Any]) -> None:
        """Deregister the definition of a job that has ended, if it was its own, in a task that nobody waits for."""
        if self.is_leftover(row):  # Whoever happened to look first must not wait for this.
            self._tidying.start(self.deregister(connection, row["jobDefinition"]))

    async def aclose(self) -> None:
        """Give what is being deregistered a little time, then end it."""
        await self._tidying.close(5.0, patience=5.0)

    async def deregister(self, connection: AWSConnection, arn: str) -> None:
        """Deregister a definition whose app is over; a failure is told and left."""
        try:
            await connection.call("batch", "DeregisterJobDefinition", jobDefinition=arn)
        except AsyncSchedError as error:
            _log.warning("the job definition %s could not be deregistered: %s", arn, error)

    def forget(self, arn: str) -> None:
        """Look again next time: somebody else has deregistered it."""
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
    # A second try after a lost answer makes a second revision of the same content, which does no harm.
    answer = await connection.call("batch", "RegisterJobDefinition", "jobDefinitionArn", **request)
    return str(answer["jobDefinitionArn"])
