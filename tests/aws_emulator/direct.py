"""Clients that call a cloud without a network: the same methods, validation and errors as aiobotocore's."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Awaitable, Callable
from typing import Any

from botocore.exceptions import ClientError, ConnectionClosedError, ParamValidationError
from botocore.validate import ParamValidator

from tests.aws_emulator import shapes
from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.errors import ApiError
from tests.aws_emulator.traffic import DroppedError


class DirectClient:
    """What ``session.create_client(service)`` would give, bound to a `Cloud` in this process.

    Args:
        sleep: Waits for the time that each call takes.
        latency: That time, in seconds.
    """

    def __init__(
        self,
        cloud: Cloud,
        service: str,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        latency: float = 0.0,
    ) -> None:
        self._cloud, self._service = cloud, service
        self._sleep, self._latency = sleep, latency

    def __getattr__(self, name: str) -> Callable[..., Awaitable[dict[str, Any]]]:
        operation = re.sub("_", "", name)
        if operation not in shapes.operations(self._service):
            raise AttributeError(name)

        async def call(**request: Any) -> dict[str, Any]:
            return await self._call(operation, request)

        return call

    async def _call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        model = shapes.operations(self._service)[operation]
        report = ParamValidator().validate(request, model.input_shape)
        if report.has_errors():
            raise ParamValidationError(report=report.generate_report())
        await self._sleep(self._latency)
        try:
            answer = self._cloud.call(self._service, operation, copy.deepcopy(request))
        except DroppedError:
            raise ConnectionClosedError(endpoint_url="direct://") from None
        except ApiError as error:
            if error.code == "garbage":
                return {}  # What botocore makes of half an answer.
            response = {
                "Error": {"Code": error.code, "Message": error.message},
                "ResponseMetadata": {"HTTPStatusCode": error.status},
            }
            raise ClientError(response, model.name) from None
        return answer
