"""HTTP in front of a cluster: paths, discovery, rights, streams, and the faults that a test asks for."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import socket
import ssl
import traceback
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests._support import all_accepted
from tests.kubernetes_fake.api import Call, Reply, UnknownPath, answer, understood, unknown_path
from tests.kubernetes_fake.errors import (
    Json,
    StatusError,
    forbidden,
    no_such_path,
    path_forbidden,
    unauthorized,
)
from tests.kubernetes_fake.faults import Fault
from tests.kubernetes_fake.logs import LogRead, NoContent
from tests.kubernetes_fake.resources import Resource
from tests.kubernetes_fake.watches import Watch

if TYPE_CHECKING:
    from tests.kubernetes_fake.cluster import FakeCluster


class Server:
    """The API server of a cluster; stopping and starting again keeps the port."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.authority_data = ""
        self._runner: web.AppRunner | None = None
        self._held: socket.socket | None = None  # keeps the port from others while the server is stopped
        self._streams: dict[int, tuple[str, web.BaseRequest]] = {}
        self._context: ssl.SSLContext | None = None
        self._ready_at = 0.0

    async def start(self) -> None:
        if self.cluster.tls and self._context is None:
            from tests.kubernetes_fake.certificates import server_context

            self._context, authority = server_context()
            self.authority_data = base64.b64encode(authority).decode()
        application = web.Application(client_max_size=64 * 1024 * 1024)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, handler_cancellation=True, access_log=None, shutdown_timeout=0.0)
        await self._runner.setup()
        if self._held is None:
            self._held = _bound(0)
            self.cluster.port = self._held.getsockname()[1]
        sock = _bound(self.cluster.port)
        await web.SockSite(self._runner, sock, ssl_context=self._context, backlog=2048).start()

    async def stop(self) -> None:
        """Refuse new connections and cut the open ones."""
        self.cut(".*")
        if self._runner is not None:
            await all_accepted()
            await self._runner.cleanup()
            self._runner = None

    def close(self) -> None:
        """Let others have the port."""
        if self._held is not None:
            self._held.close()

    def cut(self, what: str) -> int:
        """Abort the connections of open streams."""
        pattern = re.compile(what)
        count = 0
        for name, request in list(self._streams.values()):
            if pattern.fullmatch(name) and request.transport is not None:
                request.transport.abort()
                count += 1
        return count

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        traffic = self.cluster.traffic
        traffic.requests.append((request.method, request.path_qs))
        traffic.agents[request.headers.get("User-Agent", "")] += 1
        try:
            return await self._answer(request)
        except StatusError as error:
            return _refusal(error)
        except ConnectionError:
            raise
        except Exception:
            traffic.problems.append(traceback.format_exc())
            raise

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        if parts == ["readyz"]:
            return self._readyz(request)
        if self.cluster.starting:
            self.cluster.starting -= 1
            self._ready_at = asyncio.get_running_loop().time() + 0.5  # it knows them long before it calls itself ready
            raise unauthorized() if self.cluster.starting % 2 else forbidden("alice", "list", "pods", "default")
        user = self.cluster.rights.user(request.headers.get("Authorization"))
        if (told := self._discovery(parts, user)) is not None:
            self.cluster.traffic.calls[f"discover /{'/'.join(parts)}"] += 1
            if (fault := self.cluster.traffic.fault(f"discover /{'/'.join(parts)}")) is not None:
                await self._fail(request, fault)
            return _json(200, told)
        if not parts or parts[0] not in ("api", "apis") or len(parts) < (3 if parts[0] == "api" else 4):
            raise no_such_path()
        if parts[-1] == "selfsubjectaccessreviews" and request.method == "POST":
            return _json(201, self._review(user, json.loads(await request.read())))
        query = dict(request.query)
        try:
            verb, resource, namespace, name, sub = understood(self.cluster, request.method, parts, query)
        except UnknownPath as unknown:
            verbs = {"GET": "get" if unknown.name else "list", "POST": "create", "PUT": "update"}
            verb = verbs.get(request.method, request.method.lower())
            raise unknown_path(self.cluster, user, verb, unknown) from None
        call = Call(
            user=user,
            verb=verb,
            resource=resource,
            namespace=namespace,
            name=name,
            sub=sub,
            query=query,
            accept=request.headers.get("Accept", ""),
            content_type=request.headers.get("Content-Type", ""),
            body=await request.read(),
        )
        self.cluster.traffic.calls[call.what] += 1
        self.cluster.rights.check(user, verb, resource, namespace, name, sub)
        fault = self.cluster.traffic.fault(call.what)
        if fault is not None and not fault.after:
            await self._fail(request, fault)
        return await self._perform(request, call, fault)

    def _readyz(self, request: web.Request) -> web.Response:
        """Tell whether it is ready: while roles are not known, nobody has the one by which everybody may ask."""
        authorization = request.headers.get("Authorization")
        if self.cluster.starting:
            if authorization and self.cluster.starting % 2:
                raise unauthorized()
            raise path_forbidden("alice" if authorization else "system:anonymous", "/readyz")
        user = self.cluster.rights.user(authorization)
        if not self.cluster.rights.readyz_is_open:
            raise path_forbidden(user, "/readyz")
        is_ready = asyncio.get_running_loop().time() >= self._ready_at
        return web.Response(text="ok") if is_ready else web.Response(status=500, text="[-]rbac failed")

    async def _perform(self, request: web.Request, call: Call, fault: Fault | None) -> web.StreamResponse:
        if call.sub == "log":
            try:
                read = LogRead(self.cluster, call.namespace or "", call.name, call.query)
            except NoContent:
                return web.Response(status=204, headers=_headers())
            return await self._stream(request, call, "text/plain", read.pieces(), fault)
        reply = answer(self.cluster, call)
        if fault is not None and fault.after:
            await self._fail(request, fault)
        if isinstance(reply, Watch):
            return await self._stream(request, call, "application/json;stream=watch", reply.lines(), fault)
        return await self._whole(request, reply, fault)

    async def _fail(self, request: web.Request, fault: Fault) -> None:
        if fault.slow:
            await asyncio.sleep(fault.slow)
        fault.meanwhile()
        if fault.error is not None:
            raise fault.error
        if fault.cut_after == 0:
            self._abort(request)

    def _abort(self, request: web.BaseRequest) -> None:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("cut on purpose")

    async def _whole(self, request: web.Request, reply: Reply, fault: Fault | None) -> web.StreamResponse:
        headers = _headers()
        body = json.dumps(reply.body, separators=(",", ":")).encode()
        if fault is not None and fault.body is not None:
            body = fault.body
        response = web.Response(body=body, status=reply.code, content_type="application/json", headers=headers)
        for warning in reply.warnings:
            response.headers.add("Warning", warning)
        if fault is None or (fault.cut_after is None and not fault.pause):
            return response
        slow = web.StreamResponse(status=reply.code, headers={**headers, "Content-Type": "application/json"})
        slow.content_length = len(body)
        await slow.prepare(request)
        await self._send(request, slow, body, fault)
        await slow.write_eof()
        return slow

    async def _send(self, request: web.Request, response: web.StreamResponse, data: bytes, fault: Fault) -> None:
        """Send bytes as a fault wants it: slowly, or not to their end."""
        end = len(data) if fault.cut_after is None else min(fault.cut_after, len(data))
        piece = fault.piece or max(end, 1)
        for at in range(0, end, piece):
            await response.write(data[at : min(at + piece, end)])
            if fault.pause:
                await asyncio.sleep(fault.pause)
        if fault.cut_after is not None:
            fault.cut_after -= end
            if fault.cut_after <= 0:
                # What was written is to arrive: a reset would overtake it.
                transport = request.transport
                if transport is not None:
                    transport.close()
                raise ConnectionResetError("cut on purpose")

    async def _stream(
        self, request: web.Request, call: Call, kind: str, pieces: AsyncIterator[bytes], fault: Fault | None
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=200, headers={**_headers(), "Content-Type": kind})
        response.enable_chunked_encoding()
        self._streams[id(request)] = (call.what, request)
        self.cluster.traffic.opened(call.what)
        try:
            await response.prepare(request)
            async with aclosing(pieces) as source:  # type: ignore[type-var] # each of them is a generator
                async for piece in source:
                    if fault is not None and fault.end_after is not None:
                        piece = piece[: fault.end_after]
                        fault.end_after -= len(piece)
                    if fault is not None:
                        await self._send(request, response, piece, fault)
                    else:
                        await response.write(piece)
                    if fault is not None and fault.end_after == 0:
                        break
            await response.write_eof()
        except ConnectionError:
            pass  # whoever read it has gone, or it was cut on purpose
        finally:
            del self._streams[id(request)]
            self.cluster.traffic.closed(call.what)
        return response

    # Discovery

    def _discovery(self, parts: list[str], user: str) -> Json | None:
        if parts == ["version"]:
            major, minor = self.cluster.version
            return {"major": str(major), "minor": str(minor), "gitVersion": f"v{major}.{minor}.4", "platform": "linux"}
        if not parts or parts[0] not in ("api", "apis") or len(parts) > 3 or (parts[0] == "api" and len(parts) > 2):
            return None
        if user == "system:anonymous":
            raise path_forbidden(user, "/" + "/".join(parts))
        if parts == ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        resources = self.cluster.resources()
        if parts == ["apis"]:
            groups = sorted({each.group for each in resources if each.group})
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [self._group(each) for each in groups]}
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2] if len(parts) == 3 else "")
        found = [each for each in resources if each.group == group and version in ("", each.version)]
        if not found:
            raise no_such_path()
        if not version:
            return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}
        listed = [line for each in found for line in _listed(each)]
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": found[0].api_version,
            "resources": listed,
        }

    def _group(self, group: str) -> Json:
        versions = sorted({each.version for each in self.cluster.resources() if each.group == group})
        told = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
        return {"name": group, "versions": told, "preferredVersion": told[0]}

    def _review(self, user: str, body: Json) -> Json:
        asked = body.get("spec", {}).get("resourceAttributes", {})
        plural = asked.get("resource", "") + (f"/{asked['subresource']}" if asked.get("subresource") else "")
        allowed = self.cluster.rights.allows(
            user, asked.get("verb", ""), asked.get("group", ""), plural, asked.get("namespace")
        )
        return {**body, "status": {"allowed": allowed}}


def _listed(resource: Resource) -> list[Json]:
    """Return the lines of discovery on a kind."""
    line = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    }
    below = [
        {
            **line,
            "name": f"{resource.plural}/{sub}",
            "singularName": "",
            "verbs": ["get"] if sub == "log" else ["get", "patch", "update"],
        }
        for sub in resource.subresources
    ]
    return [line, *below]


def _bound(port: int) -> socket.socket:
    """Return a socket on a port of 127.0.0.1; several may have it as long as one of them listens."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock


def _headers() -> dict[str, str]:
    return {
        "Audit-Id": str(uuid.uuid4()),
        "Cache-Control": "no-cache, private",
        "X-Kubernetes-Pf-Flowschema-Uid": str(uuid.UUID(int=1)),
    }


def _json(code: int, body: Any) -> web.Response:
    return web.Response(
        body=json.dumps(body).encode(), status=code, content_type="application/json", headers=_headers()
    )


def _refusal(error: StatusError) -> web.Response:
    headers = _headers()
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    if error.text:
        return web.Response(text=error.message, status=error.code, headers=headers)
    return web.Response(
        body=json.dumps(error.body()).encode(), status=error.code, content_type="application/json", headers=headers
    )
