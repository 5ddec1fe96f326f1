"""A daemon that tells what a real one once told, and what a scheduler makes of it."""

from __future__ import annotations

import json
import re
import socketserver
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from asyncsched.schedulers import Scheduler
from asyncsched.specs import AppDef, Role

KEYED = AppDef(
    "keyed",
    [Role("worker", "asyncsched-tests/busybox:1", entrypoint="sh", args=["-c", "echo once"], env={"COLOR": "red"})],
)
OPTIONS = {"grace_period": 3.0}


async def told(scheduler: Scheduler, app_ids: list[str]) -> dict[str, Any]:
    """Return what a scheduler tells of apps, and its list, as JSON has it."""
    described = await scheduler.describe_many(app_ids)
    rows = [asdict(row) for row in await scheduler.list()]
    found = {
        "described": {app_id: (found := described[app_id]) and asdict(found) for app_id in app_ids},
        "listed": sorted(rows, key=lambda row: str(row["app_id"])),
    }
    return dict(json.loads(json.dumps(found, default=str)))


@contextmanager
def old_daemon(answers: Any, path: Path) -> Iterator[list[str]]:
    """Listen on a socket, and answer as the daemon did; yields the requests that have come."""
    heard: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            heard.append(f"GET {self.path}")
            url = urllib.parse.urlsplit(self.path)
            where = re.sub(r"^/v[\d.]+", "", url.path)
            self._reply(_answer(answers, where, urllib.parse.parse_qs(url.query)))

        def do_POST(self) -> None:
            heard.append(f"POST {self.path}")
            self._reply(None)

        do_DELETE = do_POST  # noqa: N815 - the server looks for it by this name

        def _reply(self, body: Any) -> None:
            data = json.dumps({"message": "not frozen"} if body is None else body).encode()
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def address_string(self) -> str:
            return "unix"

        def log_message(self, *_: object) -> None:
            pass

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True

    with Server(str(path), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield heard
        finally:
            server.shutdown()
            serving.join()


def _answer(answers: Any, path: str, query: dict[str, list[str]]) -> Any:
    if path == "/version":
        return answers["version"]
    if path == "/containers/json":
        wanted = json.loads(query["filters"][0])["label"] if "filters" in query else []
        wanted = [label for label, on in wanted.items() if on] if isinstance(wanted, dict) else wanted
        return [entry for entry in answers["containers"] if all(_has(entry["Labels"], label) for label in wanted)]
    if found := re.fullmatch(r"/containers/([^/]+)/json", path):
        named = [each for each in answers["inspected"].values() if found[1] in (each["Id"], each["Name"].lstrip("/"))]
        return named[0] if named else None
    return None


def _has(labels: dict[str, str], label: str) -> bool:
    name, equals, value = label.partition("=")
    return name in labels and (not equals or labels[name] == value)
