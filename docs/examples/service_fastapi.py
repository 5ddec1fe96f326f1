"""The same service with FastAPI: submit, status, cancel, and one live stream of merged logs and state changes.

::

    pip install asyncsched fastapi uvicorn
    uvicorn --factory service_fastapi:make_service --port 8080 --timeout-graceful-shutdown 1

At Ctrl-C uvicorn waits for open connections before it shuts the service down, and a client of ``/events`` keeps its
connection until its apps have ended. The option cuts such connections off after a second, without an ``error`` event;
uvicorn logs each as cancelled. Without it the service waits for these clients, however long.

Everyone who can reach the port can run programs as you. uvicorn listens only on this machine unless ``--host`` says
otherwise; add a login before you change that.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from asyncsched import (
    AppDef,
    AsyncSchedError,
    ConflictError,
    InvalidRequestError,
    LogLine,
    NotFoundError,
    Role,
    Runner,
    UnknownAppError,
    UsageError,
)
from asyncsched.runner import ActivityStream


class Asked(BaseModel):
    """An app of one role."""

    name: str
    scheduler: str
    entrypoint: str
    args: list[str] = []
    env: dict[str, str] = {}
    image: str = ""
    replicas: int = 1
    cfg: dict[str, Any] | None = None
    key: str | None = None


def make_service(runner: Runner | None = None) -> FastAPI:
    """Return the service; it closes the runner when it shuts down, after the last connection."""
    runner = runner or Runner("service")

    @asynccontextmanager
    async def lifespan(service: FastAPI) -> AsyncGenerator[None]:
        async with runner:
            yield

    service = FastAPI(lifespan=lifespan)

    @service.exception_handler(AsyncSchedError)
    async def tell(request: Request, error: AsyncSchedError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, _code(error))

    @service.post("/apps", status_code=201)
    async def submit(asked: Asked) -> dict[str, str]:
        role = Role(
            "main",
            image=asked.image,
            entrypoint=asked.entrypoint,
            args=asked.args,
            env=asked.env,
            num_replicas=asked.replicas,
        )
        return {"handle": await runner.run(AppDef(asked.name, [role]), asked.scheduler, asked.cfg, key=asked.key)}

    @service.get("/app")
    async def status(handle: str) -> dict[str, Any]:
        found = await runner.status(handle)
        if found is None:
            raise UnknownAppError(f"no app {handle}")
        return found.to_json()

    @service.delete("/app", status_code=202)
    async def cancel(handle: str) -> None:
        await runner.cancel(handle)

    @service.get("/events")
    async def events(handle: list[str] = Query(default=[])) -> StreamingResponse:  # noqa: B008 - FastAPI's way
        return StreamingResponse(_stream(runner.events(handle)), media_type="text/event-stream")

    return service


async def _stream(activity: ActivityStream) -> AsyncGenerator[str]:
    async with activity:  # a client that has gone closes this generator, and so the streams
        try:
            async for item in activity:
                if isinstance(item, LogLine):
                    yield _event("log", item.to_dict())
                else:
                    yield _event("state", {"handle": item.handle, "state": item.state.name, "gone": item.gone})
        except AsyncSchedError as error:
            yield _event("error", {"message": str(error)})
            return
    yield _event("end", {})


def _event(kind: str, data: object) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


def _code(error: AsyncSchedError) -> int:
    if isinstance(error, UnknownAppError):
        return 404
    if isinstance(error, ConflictError):
        return 409
    # Ours for a wrong app or option are ValueErrors; the other two tell of a program or an image that does not exist.
    return 400 if isinstance(error, (ValueError, UsageError, InvalidRequestError, NotFoundError)) else 502
