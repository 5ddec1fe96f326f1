"""The HTTP API: list apps, describe and cancel them, stream all changes, and serve the page's files."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, TypeVar, cast

from aiohttp import web

from asyncsched.errors import (
    AsyncSchedError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    UnknownAppError,
    UsageError,
)
from asyncsched.runner.runner import Runner
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.encodable import half_character
from asyncsched.specs.handle import schedulers_of
from asyncsched.specs.to_plain import JsonValue
from asyncsched.views.apps import app_view
from asyncsched.web.events import StreamPlace, is_at_end, settle, stream
from asyncsched.web.hub import Full, Hub, OpenPage
from asyncsched.web.security import HEADERS, Gate
from asyncsched.web.selections import NotSelected
from asyncsched.web.wire import detail_of, encoded, safe

__all__ = ["LONGEST_HEAD", "Handler", "guarded", "make_application", "malformed", "read_files"]

_log = logging.getLogger("asyncsched.web")

MOST_AT_ONCE = 1000
"""The most apps that one request may cancel."""
LONGEST_HEAD = 1 << 17
"""Bytes of a request's first line, and of each of its headers."""
LONGEST_REQUEST = 1 << 20
"""Bytes of a request's body."""
SEND_BUFFER = 256 * 1024
"""Bytes that the operating system buffers for a page that does not read."""

STREAM = "/api/events"
FILES = {"app.js": "text/javascript", "style.css": "text/css", "index.html": "text/html"}
_OF_AN_APP = {"args", "cfg", "entrypoint", "env", "image", "key", "name", "replicas", "role", "scheduler"}
"""The fields of a request that launches an app."""

_MANY = "name many apps with POST api/selections"
_EXCHANGED = (
    b'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=./"><title>asyncsched</title>'
)
"""Forwards to the page without the token. A redirect would do, except after a link from another site."""

ValueT = TypeVar("ValueT")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def read_files() -> dict[str, bytes]:
    """Return the files of the page."""
    folder = files("asyncsched.web") / "static"
    return {name: (folder / name).read_bytes() for name in FILES}


def make_application(
    runner: Runner, hub: Hub, pages: Mapping[str, bytes], *, allow_submit: bool = False
) -> web.Application:
    """Return the application; only `guarded` requests may get to it.

    Args:
        runner: Runs the requests.
        hub: The content of the pages; it must be started.
        pages: The page's files.
        allow_submit: Whether apps may be launched and deleted.
    """

    async def prepare(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(HEADERS)

    api = _Api(runner, hub, allow_submit=allow_submit)
    application = web.Application(client_max_size=LONGEST_REQUEST)
    application.on_response_prepare.append(prepare)
    for name, body in pages.items():
        application.router.add_get("/" if name == "index.html" else f"/{name}", _file(body, FILES[name]))
    application.add_routes(
        [
            web.get("/api/apps", api.apps),
            web.post("/api/apps", api.submit),
            web.get("/api/app", api.app),
            web.delete("/api/app", api.delete),
            web.post("/api/cancel", api.cancel),
            web.post("/api/selections", api.select),
            web.get(STREAM, api.events, allow_head=False),
        ]
    )
    return application


def guarded(gate: Gate, answer: Handler) -> Handler:
    """Return a handler that checks the access to a request before anything else; a refused request gets no information.

    Args:
        gate: Checks access.
        answer: Answers a request that may be answered.
    """

    async def guard(request: web.Request) -> web.StreamResponse:
        is_stream = request.path == STREAM
        if not gate.is_our_host(request.headers.get("Host", "")):
            return _nothing(403)
        if request.path == "/" and request.method == "GET" and "token" in request.query:
            secret = gate.exchange(request.query["token"])
            if secret is None and not gate.is_let_in(request.cookies):
                return _nothing(401)
            leading_on = web.Response(body=_EXCHANGED, content_type="text/html", headers=HEADERS)
            if secret is not None:
                leading_on.set_cookie(gate.cookie, secret, httponly=True, samesite="Strict", path="/")
            return leading_on
        if not gate.is_let_in(request.cookies):
            return _nothing(401)
        if not gate.is_our_page(request.method, request.headers, stream=is_stream):
            return _nothing(403)
        return await _told(request, answer)

    return guard


async def _told(request: web.Request, answer: Handler) -> web.StreamResponse:
    """Answer a request; an error becomes JSON with a fitting status."""
    try:
        return await answer(request)
    except web.HTTPException as error:  # aiohttp's own
        return _refused(request, error)
    except UnknownAppError as error:
        return _error(404, error)
    except NotSelected as error:
        return _error(404, error)
    except ConflictError as error:
        return _error(409, error)
    except Full as error:
        return _error(503, error)
    except (ValueError, UsageError, InvalidRequestError, NotFoundError) as error:
        # The caller's: a wrong app, option or name is a ValueError; a program, an image or a queue may not exist.
        return _error(400, error)
    except AsyncSchedError as error:
        return _error(502, error)


def _refused(request: web.Request, error: web.HTTPException) -> web.Response:
    """Return our answer for a request that aiohttp refuses."""
    about = {
        404: f"nothing is at {request.path}",
        405: f"{request.path} does not take {request.method}",
        413: f"the request must be at most {LONGEST_REQUEST} bytes",
        417: "Expect must be 100-continue",
    }
    refusal = _error(error.status, ValueError(about.get(error.status, error.reason)))
    if "Allow" in error.headers:
        refusal.headers["Allow"] = error.headers["Allow"]
    return refusal


def malformed(status: int, error: BaseException | None) -> web.Response:
    """Return the answer to a request that could not be read, or whose handler has failed.

    Args:
        status: The status that aiohttp chose.
        error: What has gone wrong, if that is known. Nothing of it is told: nobody's access has been checked.
    """
    if status < 500:
        longest = f"its first line or a header is longer than {LONGEST_HEAD} bytes"
        told = _error(status, ValueError(f"the request is not HTTP/1.1 with one Host header, or {longest}; {_MANY}"))
    else:
        _log.error("a request to the page failed", exc_info=error)
        told = _error(status, ValueError("the request failed; the log of the server says why"))
    told.force_close()
    return told


def _nothing(status: int) -> web.Response:
    return web.Response(status=status, headers=HEADERS)


def _error(status: int, error: Exception) -> web.Response:
    return _json({"error": safe(str(error), 2000)}, status)


def _json(value: JsonValue, status: int = 200) -> web.Response:
    return web.Response(body=encoded(value), content_type="application/json", status=status, headers=HEADERS)


def _file(body: bytes, kind: str) -> Handler:
    async def serve(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8")

    return serve


class _Api:
    def __init__(self, runner: Runner, hub: Hub, *, allow_submit: bool) -> None:
        self._runner = runner
        self._hub = hub
        self._allow_submit = allow_submit

    async def apps(self, request: web.Request) -> web.Response:
        """Return the rows of all apps, and their summary."""
        await self._hub.refresh()
        rows = self._hub.board.since(0, self._hub.limits.apps).rows
        notes = encoded([*self._hub.notes])
        body = b'{"apps":[%s],"all":%s,"notes":%s}' % (b",".join(rows), self._hub.board.overview(), notes)
        return web.Response(body=body, content_type="application/json")

    async def app(self, request: web.Request) -> web.Response:
        """Return one app's details."""
        handle = _handle(request)
        status = await self._runner.status(handle)
        if status is None:
            raise UnknownAppError(f"no app {handle}")
        return _json(detail_of(app_view(handle, status), datetime.now(UTC)))

    async def cancel(self, request: web.Request) -> web.Response:
        """Cancel apps; answer with those that could not be cancelled, and why."""
        handles = await _handles(request, MOST_AT_ONCE)
        told = await self._runner.cancel_all(handles)
        failed: dict[str, JsonValue] = {
            str(handle): safe(str(error)) for handle, error in told.items() if error is not None
        }
        return _json({"asked": len(told) - len(failed), "failed": failed}, 202)

    async def select(self, request: web.Request) -> web.Response:
        """Give a short name to many apps, by which the stream shows their logs."""
        handles = await _handles(request, self._hub.limits.selected)
        known = await self._runner.scheduler_backends()
        if unknown := schedulers_of(handles) - {*known}:  # a wrong handle raises
            raise ValueError(f"handles must be of apps on {', '.join(known)}, got one on {min(unknown)!r}")
        return _json({"selection": self._hub.selections.add(handles)}, 201)

    async def submit(self, request: web.Request) -> web.Response:
        """Launch an app of one role, if allowed; with a `key`, repeating the request returns the same app."""
        if not self._allow_submit:
            return _not_allowed()
        asked = await _object(request)
        if unknown := asked.keys() - _OF_AN_APP:
            raise ValueError(
                f"the request has an unknown field {min(unknown)!r}; known are {', '.join(sorted(_OF_AN_APP))}"
            )
        role = Role(
            _given(asked, "role", str, "main"),
            image=_given(asked, "image", str, ""),
            entrypoint=_given(asked, "entrypoint", str),
            args=_given(asked, "args", list, []),
            env=_given(asked, "env", dict, {}),
            num_replicas=_given(asked, "replicas", int, 1),
        )
        app = AppDef(_given(asked, "name", str), [role])
        scheduler, cfg, key = (cast("Any", asked.get(name)) for name in ("scheduler", "cfg", "key"))
        handle = await self._runner.run(app, scheduler, cfg, key=key)  # checks scheduler, cfg and key
        self._hub.look_again()
        return _json({"handle": handle}, 201)

    async def delete(self, request: web.Request) -> web.Response:
        """Remove an app that has ended, if allowed."""
        if not self._allow_submit:
            return _not_allowed()
        await self._runner.delete(_handle(request))
        self._hub.look_again()
        return web.Response(status=204)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Stream the changes of all apps, and the lines of the apps of `selection` and of those named by `log`."""
        hub, handles = self._hub, {*request.query.getall("log", [])}
        for name in request.query.getall("selection", []):
            handles |= hub.selections.handles(name)
        if len(handles) > hub.limits.selected:
            raise ValueError(f"log and selection must name at most {hub.limits.selected} apps, got {len(handles)}")
        transport = request.transport
        if transport is None:
            return web.Response(status=204)
        told = request.headers.get("Last-Event-ID") or request.query.get("after", "")
        page, place = OpenPage(transport.abort), StreamPlace.read(told, hub.name)
        hub.join(page, handles)
        try:
            anew = settle(page, place)
            if place.serial and is_at_end(hub, page, place):
                return web.Response(status=204)
            listening: socket.socket = transport.get_extra_info("socket")
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            try:
                await stream(hub, page, place, response.write, anew=anew)
            except (TimeoutError, ConnectionError):
                transport.abort()  # the page does not read, or has gone; it may come back for the rest
            return response
        finally:
            hub.leave(page)


def _handle(request: web.Request) -> str:
    if "handle" not in request.query:
        raise ValueError("the request has no handle; write ?handle=scheduler://session/app_id")
    return request.query["handle"]


async def _handles(request: web.Request, most: int) -> list[str]:
    handles = cast("list[object]", _given(await _object(request), "handles", list))
    if not handles or not all(isinstance(each, str) for each in handles):
        raise ValueError("handles must be a list of at least one handle")
    if half := next(filter(None, (half_character(cast("str", each)) for each in handles)), ""):
        raise ValueError(f"handles must be text that UTF-8 can encode: {half}")
    if len(handles) > most:
        raise ValueError(f"handles must name at most {most} apps, got {len(handles)}")
    return cast("list[str]", handles)


async def _object(request: web.Request) -> Mapping[str, object]:
    if request.content_type != "application/json":
        raise ValueError(f"the request must be application/json, got {request.content_type}")
    if "Content-Encoding" in request.headers:
        raise ValueError(f"the request must not be compressed, got {request.headers['Content-Encoding']}")
    try:
        asked: object = json.loads(await request.read())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the request is not JSON: {error}") from error
    except web.RequestPayloadError as error:  # chunks that cannot be read
        raise ValueError("the body of the request is malformed") from error
    if not isinstance(asked, dict):
        raise ValueError("the request must be a JSON object")
    return cast("Mapping[str, object]", asked)


def _given(asked: Mapping[str, object], name: str, kind: type[ValueT], default: ValueT | None = None) -> ValueT:
    """Return a field of a request; raise ValueError if it is missing without a default, or has another type."""
    value = asked.get(name, default)
    if value is None:
        raise ValueError(f"the request has no {name}")
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name} must be of the type {kind.__name__}, got {value!r}")
    return value


def _not_allowed() -> web.Response:
    return _json(
        {"error": "this server cannot launch or delete apps, because it was started without allow_submit"}, 403
    )
