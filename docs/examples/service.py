"""A web service that runs jobs: submit, status, cancel, and one live stream of merged logs and state changes.

::

    pip install 'asyncsched[examples]'
    python service.py --port 8080

    curl localhost:8080/apps -d '{"name": "hello", "scheduler": "local_cwd", "entrypoint": "echo", "args": ["hi"]}'
    curl localhost:8080/apps/local_cwd/service/hello-x4c7wq0bnd1k2z
    curl -N 'localhost:8080/events?handle=local_cwd://service/hello-x4c7wq0bnd1k2z'

The stream is Server-Sent Events: ``state`` with an app's status, ``log`` with a line, ``end`` when every app has ended
and every line was sent. Each client has its own streams and its own pace: a slow client does not hold back others, and
one that disconnects leaves nothing open. The jobs outlive the service; those of ``local_cwd`` do if they are submitted
with ``"cfg": {"detach": true}``.

Everyone who can reach the port can run programs as you. The service listens only on this machine unless ``--host`` says
otherwise; add a login before you change that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Awaitable, Callable

from aiohttp import web

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

RUNNER = web.AppKey("runner", Runner)

routes = web.RouteTableDef()


@routes.post("/apps")
async def submit(request: web.Request) -> web.Response:
    """Launch an app of one role; with a `key`, repeating the request returns the same app."""
    try:
        asked = await request.json()
    except RecursionError as error:  # of thousands of brackets
        raise ValueError("the request is not JSON: it is nested too deeply") from error
    if not isinstance(asked, dict):
        raise ValueError("describe the app as a JSON object")
    role = Role(
        asked.get("role", "main"),
        image=asked.get("image", ""),
        entrypoint=asked["entrypoint"],
        args=asked.get("args", []),
        env=asked.get("env", {}),
        num_replicas=asked.get("replicas", 1),
    )
    app = AppDef(asked["name"], [role])
    handle = await request.app[RUNNER].run(app, asked["scheduler"], asked.get("cfg"), key=asked.get("key"))
    return web.json_response({"handle": handle}, status=201)


@routes.get("/apps")
async def list_apps(request: web.Request) -> web.Response:
    """Return the apps of every scheduler, and the schedulers that failed."""
    rows = await request.app[RUNNER].list()
    apps = [{"handle": row.app_handle, "state": row.state.name} for row in rows]
    return web.json_response({"apps": apps, "failures": {name: str(error) for name, error in rows.failures.items()}})


@routes.get("/apps/{scheduler}/{session}/{app_id}")
async def status(request: web.Request) -> web.Response:
    """Return the status of an app."""
    found = await request.app[RUNNER].status(_handle(request))
    if found is None:
        raise UnknownAppError(f"no app {_handle(request)}")
    return web.json_response(found.to_json())


@routes.delete("/apps/{scheduler}/{session}/{app_id}")
async def cancel(request: web.Request) -> web.Response:
    """Cancel an app."""
    await request.app[RUNNER].cancel(_handle(request))
    return web.Response(status=202)


@routes.get("/events")
async def events(request: web.Request) -> web.StreamResponse:
    """Stream the states and log lines of the apps in `handle` until all have ended."""
    activity = request.app[RUNNER].events(request.query.getall("handle", []))  # wrong handles raise here
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):  # the client has gone
        async with activity:
            try:
                async for item in activity:
                    if isinstance(item, LogLine):
                        await response.write(_event("log", item.to_dict()))
                    else:
                        state = {"handle": item.handle, "state": item.state.name, "gone": item.gone}
                        await response.write(_event("state", state))
            except AsyncSchedError as error:  # a service broke off, or this one is shutting down
                await response.write(_event("error", {"message": str(error)}))
            else:
                await response.write(_event("end", {}))
    return response


def _event(kind: str, data: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()


def _handle(request: web.Request) -> str:
    return "{scheduler}://{session}/{app_id}".format_map(request.match_info)


@web.middleware
async def tell_errors(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer errors of asyncsched, and of a wrong request, as JSON with a fitting status."""
    try:
        return await handler(request)
    except UnknownAppError as error:
        return web.json_response({"error": str(error)}, status=404)
    except ConflictError as error:
        return web.json_response({"error": str(error)}, status=409)
    except KeyError as error:
        return web.json_response({"error": f"the request has no {error}"}, status=400)
    except (ValueError, TypeError, UsageError) as error:  # ours for a wrong app, option or name are ValueErrors too
        return web.json_response({"error": str(error)}, status=400)
    except (InvalidRequestError, NotFoundError) as error:  # a program, an image or a queue does not exist, for example
        return web.json_response({"error": str(error)}, status=400)
    except AsyncSchedError as error:
        return web.json_response({"error": str(error)}, status=502)


def make_service(runner: Runner) -> web.Application:
    """Return the service; it closes the runner when it shuts down, which ends every stream."""

    async def close(app: web.Application) -> None:
        await runner.close()

    service = web.Application(middlewares=[tell_errors])
    service[RUNNER] = runner
    service.add_routes(routes)
    service.on_shutdown.append(close)
    return service


async def _make() -> web.Application:
    return make_service(Runner("service"))


def main() -> None:
    """Serve until Ctrl-C. Jobs keep running then, except local ones that were not detached."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    arguments = parser.parse_args()
    # A handler whose client has gone is cancelled, which closes its streams.
    web.run_app(_make(), host=arguments.host, port=arguments.port, handler_cancellation=True)


if __name__ == "__main__":
    main()
