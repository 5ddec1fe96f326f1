"""HTTP in front of a cloud: its own operations, the knobs below ``/emulator``, and moto for the rest."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import struct
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from tests.aws_emulator.cloud import Cloud
from tests.aws_emulator.control import Control
from tests.aws_emulator.errors import ApiError
from tests.aws_emulator.traffic import DroppedError

Environ = dict[str, Any]
StartResponse = Callable[..., Any]


class Server:
    """Serves a cloud on a port of 127.0.0.1; stopping and starting again keeps the data and the port."""

    def __init__(self, cloud: Cloud, port: int = 0, host: str = "127.0.0.1") -> None:
        self.cloud, self.host, self.port = cloud, host, port
        self.control = Control(cloud, self)
        self._moto: Any = None
        self._server: BaseWSGIServer | None = None
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()
        self._reserved: socket.socket | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def start(self) -> None:
        self._over.clear()
        if self._reserved is None:
            # It never listens, and keeps the port from others while the server is away.
            self._reserved = socket.socket()
            self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._reserved.bind((self.host, self.port))
            self.port = self._reserved.getsockname()[1]
        self._server = make_server(self.host, self.port, self, threaded=True, request_handler=_Handler)
        self._server.daemon_threads = True  # type: ignore[attr-defined] # of the threaded kind
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(0.02,), name="emulator", daemon=True),
            threading.Thread(target=self._tick, name="emulator-clock", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Refuse new connections and cut the open ones."""
        assert self._server is not None
        self._over.set()
        _Handler.cut(self._server)
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cloud.stop_everything()
        self.stop()
        if self._reserved is not None:
            self._reserved.close()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path.startswith(("/emulator/", "/moto-api/plus/")):
            return self.control(environ, start_response)
        service, key = _signer(environ)
        operation = _operation(service, environ)
        if not self.cloud.handles(service, operation):
            return self._pass_on(environ, start_response, operation)
        try:
            return self._answer(environ, start_response, service, operation, key)
        except DroppedError as error:
            _Handler.drop(environ, resets=error.resets)
            return []

    def _answer(
        self, environ: Environ, start_response: StartResponse, service: str, operation: str, key: str
    ) -> Iterable[bytes]:
        request = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)) or b"{}")
        if environ["PATH_INFO"].startswith(_TAGS):
            request["resourceArn"] = environ["PATH_INFO"].removeprefix(_TAGS)
        status, headers = "200 OK", [("Content-Type", "application/json")]
        try:
            payload = json.dumps(self.cloud.call(service, operation, request, key)).encode()
            if operation in self.cloud.traffic.held:
                self.cloud.traffic.held[operation].wait()
        except ApiError as error:
            status = f"{error.status} {error.code}"
            headers.append(("x-amzn-errortype", error.code))
            payload = json.dumps({"__type": error.code, "message": error.message}).encode()
            if error.code == "garbage":
                payload = payload[: len(payload) // 2]
        headers.append(("Content-Length", str(len(payload))))
        start_response(status, headers)
        return [payload]

    def _pass_on(self, environ: Environ, start_response: StartResponse, operation: str) -> Iterable[bytes]:
        self.cloud.traffic.calls[operation] += 1
        if self._moto is None:
            from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

            self._moto = DomainDispatcherApplication(create_backend_app)
        answer: Iterable[bytes] = self._moto(environ, start_response)
        return answer

    def _tick(self) -> None:
        """Let things happen also while nobody asks: containers start, and time limits pass."""
        while not self._over.wait(0.05):
            self.cloud.timeline.catch_up()


class _Handler(WSGIRequestHandler):
    """Keeps connections open, writes no log, and remembers the sockets that a test may want cut."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    _open: ClassVar[set[tuple[BaseWSGIServer, Any]]] = set()

    def setup(self) -> None:
        super().setup()
        self._open.add((self.server, self.connection))

    def finish(self) -> None:
        self._open.discard((self.server, self.connection))
        with contextlib.suppress(OSError):
            super().finish()

    def connection_dropped(self, error: BaseException, environ: Environ | None = None) -> None:
        self.close_connection = True
        # Werkzeug looks for the rest of a request with a selector that it leaves open when the client has gone.
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if (selector := frame.f_locals.get("selector")) is not None:
                selector.close()

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - the parent's name for it
        pass

    @classmethod
    def cut(cls, server: BaseWSGIServer) -> None:
        for owner, connection in list(cls._open):
            if owner is server:
                with contextlib.suppress(OSError):
                    connection.shutdown(2)

    @staticmethod
    def drop(environ: Environ, *, resets: bool) -> None:
        connection: socket.socket = environ["werkzeug.socket"]
        with contextlib.suppress(OSError):
            if resets:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                os.close(connection.detach())  # now: the server would send a proper end first
            else:
                connection.shutdown(2)
        raise ConnectionResetError("cut on purpose")


_TAGS = "/v1/tags/"
_SCOPE = re.compile(r"Credential=([^/,]+)/\d+/[^/]+/([^/]+)/aws4_request")


def _signer(environ: Environ) -> tuple[str, str]:
    """The service that a request is signed for, and the access key that signed it."""
    found = _SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
    return (found[2], found[1]) if found else ("", "")


def _operation(service: str, environ: Environ) -> str:
    target: str = environ.get("HTTP_X_AMZ_TARGET", "")
    if target:
        return target.rpartition(".")[2].lower()
    path: str = environ["PATH_INFO"]
    if path.startswith(_TAGS):
        return {"POST": "tagresource", "GET": "listtagsforresource"}.get(environ["REQUEST_METHOD"], path)
    return path.rpartition("/")[2].lower() if service == "batch" else path


@contextlib.contextmanager
def serving(cloud: Cloud | None = None) -> Iterator[Server]:
    """Serve a cloud for as long as the block lasts."""
    with Server(cloud or Cloud()) as server:
        yield server


def restart(server: Server, down: float) -> None:
    """Be away for a while, with all connections cut, and come back with the same data."""
    server.stop()
    time.sleep(down)
    server.start()
