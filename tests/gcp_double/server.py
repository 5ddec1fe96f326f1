"""The double on a port of the loopback, with a loop and a thread of its own."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from aiohttp import web
from google.cloud import batch_v1
from google.longrunning import operations_pb2

from tests._support import all_accepted
from tests.gcp_double import discovery
from tests.gcp_double.checks import MAX_JOB_BYTES, check_request_id
from tests.gcp_double.jobs import Jobs
from tests.gcp_double.logs import LogStore
from tests.gcp_double.runs import Played, Runs
from tests.gcp_double.tokens import Tokens
from tests.gcp_double.wire import Refusal, parse, to_dict

PROJECT = "proj-1"
ACCOUNTS = "/v1/projects/-/serviceAccounts/"
LOCATIONS = ("us-central1", "europe-west1")
LARGEST_JUDGED = 64 << 10
"""Bytes of an answer up to which it is judged: of a large page the first ones have told enough."""
ResultT = TypeVar("ResultT")


@dataclass
class Fault:
    """What goes wrong with some requests.

    Attributes:
        kind: A status such as ``503``, ``disabled`` for a service that is not enabled, ``held`` until `gate` lets it
            go, ``stall`` for an answer that stops half-way, or ``reset``: the answer is lost of what took effect.
        path: Found in the path of those that it befalls.
        method: Their method.
        times: How many are left; all if it is negative.
        gate: What one that is held waits for.
    """

    kind: str
    path: str = ""
    method: str = "POST"
    times: int = 1
    gate: Callable[[], Awaitable[None]] | None = None


class Double:
    """Batch and Cloud Logging of one project.

    Args:
        runs: What runs tasks; played if None.
        lag: Seconds until a log entry can be read.
        quota: Reads of log entries in a minute.
        now_ns: Tells the time.
    """

    def __init__(
        self,
        runs: Runs | None = None,
        *,
        lag: Callable[[], float] = lambda: 0.0,
        quota: int | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.logs = LogStore(PROJECT, now_ns=now_ns, lag=lag, quota=quota)
        self.played = Played()
        self.jobs = Jobs(runs or self.played, self.logs, now_ns)
        self.tokens = Tokens(PROJECT, now_ns)
        self.faults: list[Fault] = []
        self.calls: Counter[str] = Counter()
        self.headers: list[dict[str, str]] = []
        self.bodies: list[Any] = []
        self.request_ids: list[str] = []
        self.unreachable: list[str] = []
        self.lists_everywhere = True
        self.largest_page = 1000
        self.begins_with_nothing = False
        self.problems: list[str] = []
        self.knobs: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        self._operations: dict[str, Any] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self.url = ""

    # Its thread

    def __enter__(self) -> Self:
        ready = threading.Event()
        app = self._application()  # here, where it is not a step of a loop
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(app, ready)), name="gcp double")
        self._thread.start()
        assert ready.wait(60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._stop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(60)

    def do(self, work: Callable[[], ResultT]) -> ResultT:
        """Do something to the double on its own loop."""

        async def done() -> ResultT:
            return work()

        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(60)

    def _application(self) -> web.Application:
        app = web.Application(middlewares=[self._middleware], client_max_size=4 << 20)
        app.add_routes(self._routes())
        return app

    async def _serve(self, app: web.Application, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}"
        ready.set()
        try:
            await self._stop.wait()
        finally:
            await self.jobs.close()
            await all_accepted()
            await runner.cleanup()

    def _routes(self) -> list[web.RouteDef]:
        jobs = "/v1/projects/{project}/locations/{location}/jobs"
        return [
            *([web.post("/double/{knob}", self.knobs)] if self.knobs is not None else []),
            web.post("/token", self.tokens.exchange),
            web.get("/subject", self.tokens.subject),
            web.get("/computeMetadata/v1/{rest:.*}", self.tokens.metadata),
            web.post("/accounts/{account}:generateAccessToken", self.tokens.impersonate),
            web.post(f"{ACCOUNTS}{{account}}:generateAccessToken", self.tokens.impersonate),
            web.get("/v1/projects/{project}/locations", self._list_locations),
            web.post(jobs, self._create),
            web.get(jobs, self._list),
            web.post(jobs + "/{job}:cancel", self._cancel),
            web.get(jobs + "/{job}", self._get),
            web.delete(jobs + "/{job}", self._delete),
            web.get(jobs + "/{job}/taskGroups/group0/tasks", self._list_tasks),
            web.get(jobs + "/{job}/taskGroups/group0/tasks/{task}", self._get_task),
            web.get("/v1/projects/{project}/locations/{location}/operations/{operation}", self._operation),
            web.post("/v2/entries:list", self._entries),
        ]

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if not request.path.startswith(("/v1/", "/v2/")) or request.path.startswith(ACCOUNTS):
            return await handler(request)
        self.calls[_kind(request)] += 1
        self.headers.append(dict(request.headers))
        if request.method == "POST" and request.path.endswith("/jobs"):
            self.request_ids.append(request.query.get("requestId", ""))
        fault = self._fault(request)
        try:
            self._check_token(request)
            if fault is not None and fault.kind.isdigit():
                raise Refusal(int(fault.kind), f"injected: {fault.kind}")
            if fault is not None and fault.kind == "disabled":
                raise _disabled()
            if fault is not None and fault.gate is not None:
                await fault.gate()
            answer = await handler(request)
        except Refusal as refusal:
            headers = {"Retry-After": "0.1"} if refusal.code == 429 and not refusal.details else {}
            return web.json_response(refusal.body, status=refusal.code, headers=headers)
        await self._judge(request, answer)
        if fault is not None and fault.kind == "stall":
            return await _stalled(request, answer)
        if fault is not None and fault.kind == "reset" and request.transport is not None:
            request.transport.abort()
        return answer

    async def _judge(self, request: web.Request, answer: web.Response) -> None:
        """Have Google's discovery documents judge a call that was answered.

        Google's own client writes numbers for enums, which these documents do not have.
        """
        if "$alt" in request.query:
            return
        sent, told = await request.read(), answer.body
        assert isinstance(told, bytes)
        self.problems += discovery.problems(
            request.method,
            request.path,
            request.query,
            json.loads(sent) if sent else None,
            json.loads(told) if len(told) <= LARGEST_JUDGED else None,
        )

    def _fault(self, request: web.Request) -> Fault | None:
        for fault in self.faults:
            if fault.times and fault.method == request.method and fault.path in request.path:
                fault.times -= 1
                return fault
        return None

    def _check_token(self, request: web.Request) -> None:
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens.good:
            raise Refusal(401, "Request had invalid authentication credentials.")
        project = request.match_info.get("project", PROJECT)
        if project != PROJECT:
            raise Refusal(403, f"Permission denied on resource project {project}.")

    # Batch

    async def _create(self, request: web.Request) -> web.Response:
        query, body = _query(request, "jobId", "requestId"), await request.read()
        if len(body) > MAX_JOB_BYTES:
            raise Refusal(400, "the job definition is larger than 1 MB")
        ints = "enum-encoding=int" in request.query.get("$alt", "")  # Google's own client writes numbers
        self.bodies.append(json.loads(body))
        job = parse(batch_v1.Job.pb(batch_v1.Job()), body, ints=ints)
        job_id = query.get("jobId") or f"j-{uuid.uuid4().hex[:20]}"
        made = self.jobs.create(_parent(request), job_id, query.get("requestId", ""), job)
        return web.json_response(to_dict(made))

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(to_dict(self.jobs.find(_name(request)).job))

    async def _list(self, request: web.Request) -> web.Response:
        query = _query(request, "filter", "orderBy", "pageSize", "pageToken")
        everywhere = request.match_info["location"] == "-"
        if everywhere and not self.lists_everywhere:
            raise Refusal(400, "location '-' is not supported")
        folder = f"projects/{PROJECT}/locations/" + ("" if everywhere else f"{request.match_info['location']}/")
        jobs = [made.job for name, made in self.jobs.jobs.items() if name.startswith(folder)]
        jobs = [job for job in jobs if not any(f"/{place}/" in job.name for place in self.unreachable)]
        order = query.get("orderBy", "")
        if order not in ("", "name", "name desc", "create_time", "create_time desc"):
            raise Refusal(400, f"order_by {order!r} is not supported")
        key = (lambda job: job.name) if "name" in order else (lambda job: job.create_time.ToNanoseconds())
        jobs.sort(key=key, reverse=order.endswith("desc"))
        answer = self._page("jobs", jobs, query)
        if everywhere and self.unreachable:
            answer["unreachable"] = [f"projects/{PROJECT}/locations/{place}" for place in self.unreachable]
        return web.json_response(answer)

    async def _cancel(self, request: web.Request) -> web.Response:
        name = _name(request)
        body = json.loads(await request.read() or b"{}")
        parse(batch_v1.CancelJobRequest.pb(batch_v1.CancelJobRequest()), body)
        check_request_id(body.get("requestId", ""))
        self.jobs.cancel(name)
        return web.json_response(self._made_operation(name, "cancel"))

    async def _delete(self, request: web.Request) -> web.Response:
        check_request_id(_query(request, "reason", "requestId").get("requestId", ""))
        self.jobs.delete(_name(request))
        return web.json_response(self._made_operation(_name(request), "delete"))

    async def _list_tasks(self, request: web.Request) -> web.Response:
        query = _query(request, "filter", "pageSize", "pageToken")
        tasks = self.jobs.find(_name(request)).tasks
        if query.get("filter"):
            found = re.fullmatch(r"State=(\w+)", query["filter"])
            if found is None or found[1] not in batch_v1.TaskStatus.State.__members__:
                raise Refusal(400, "the filter cannot be read")
            wanted = batch_v1.TaskStatus.State.__members__[found[1]]
            tasks = [task for task in tasks if task.status.state == wanted]
        return web.json_response(self._page("tasks", tasks, query))

    def _page(self, name: str, rows: list[Any], query: dict[str, str]) -> dict[str, Any]:
        if self.begins_with_nothing and not query.get("pageToken"):
            return {"nextPageToken": "0"}
        return _page(name, rows, query, self.largest_page)

    async def _get_task(self, request: web.Request) -> web.Response:
        name = f"{_name(request)}/taskGroups/group0/tasks/{request.match_info['task']}"
        tasks = [task for task in self.jobs.find(_name(request)).tasks if task.name == name]
        if not tasks:
            raise Refusal(404, f"Resource '{name}' was not found")
        return web.json_response(to_dict(tasks[0]))

    async def _list_locations(self, request: web.Request) -> web.Response:
        rows = [{"name": f"projects/{PROJECT}/locations/{each}", "locationId": each} for each in LOCATIONS]
        return web.json_response({"locations": rows})

    def _made_operation(self, target: str, verb: str) -> dict[str, Any]:
        told = batch_v1.OperationMetadata.pb(batch_v1.OperationMetadata(target=target, verb=verb, api_version="v1"))
        name = f"{target.partition('/jobs/')[0]}/operations/operation-{uuid.uuid4().hex}"
        operation = operations_pb2.Operation(name=name)
        operation.metadata.Pack(told)
        self._operations[name] = operation
        return to_dict(operation)

    async def _operation(self, request: web.Request) -> web.Response:
        name = f"{_parent(request)}/operations/{request.match_info['operation']}"
        if name not in self._operations:
            raise Refusal(404, f"Resource '{name}' was not found")
        return web.json_response(to_dict(self._operations[name]))

    # Logging

    async def _entries(self, request: web.Request) -> web.Response:
        return web.json_response(self.logs.list_entries(await request.read()))


async def _stalled(request: web.Request, answer: web.Response) -> web.StreamResponse:
    """Send half of an answer, and nothing more."""
    body = answer.body
    assert isinstance(body, bytes)
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(body))})
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    await asyncio.Event().wait()  # the end of the double puts an end to it
    return response


def _disabled() -> Refusal:
    service = "batch.googleapis.com"
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "SERVICE_DISABLED",
        "domain": "googleapis.com",
        "metadata": {"service": service, "consumer": f"projects/{PROJECT}"},
    }
    return Refusal(403, f"Batch API has not been used in project {PROJECT} before or it is disabled.", [info])


def _query(request: web.Request, *known: str) -> dict[str, str]:
    for name in set(request.query) - {*known, "$alt", "alt", "prettyPrint"}:
        raise Refusal(400, f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter.')
    return dict(request.query)


def _parent(request: web.Request) -> str:
    return f"projects/{request.match_info['project']}/locations/{request.match_info['location']}"


def _name(request: web.Request) -> str:
    return f"{_parent(request)}/jobs/{request.match_info['job']}"


def _kind(request: web.Request) -> str:
    path = re.sub(r"/(jobs|locations|operations|projects)/[^/:]+", r"/\1/*", request.path)
    return f"{request.method} {path}"


def _page(name: str, rows: list[Any], query: dict[str, str], largest: int) -> dict[str, Any]:
    size, start = min(largest, int(query.get("pageSize") or 100)), int(query.get("pageToken") or 0)
    shown = [to_dict(row) for row in rows[start : start + size]]
    answer: dict[str, Any] = {name: shown} if shown else {}
    if start + size < len(rows):
        answer["nextPageToken"] = str(start + size)
    return answer
