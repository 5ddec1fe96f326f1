"""A real kernel, spoken to as a notebook's page does."""

from __future__ import annotations

import os
import queue
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from traitlets.config import Config

WITHIN = 60.0


@dataclass
class Cell:
    """A cell that was sent to the kernel, and what came back so far."""

    request: str
    text: str = ""
    displays: list[dict[str, Any]] = field(default_factory=list)  # data of results, displays and updates, in order
    error: str = ""
    traceback: list[str] = field(default_factory=list)
    over: bool = False

    @property
    def html(self) -> str:
        return self.displays[-1].get("text/html", "") if self.displays else ""


class Kernel:
    """A kernel, and the cells that were sent to it."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self._manager = manager
        self._client = client
        self._cells: dict[str, Cell] = {}

    def start(self, code: str) -> Cell:
        """Send a cell without waiting for its end."""
        request = self._client.execute(code)
        cell = self._cells[request] = Cell(request)
        return cell

    def run(self, code: str) -> Cell:
        """Run a cell to its end; fails if it raises."""
        cell = self.finish(self.start(code))
        assert "" == cell.error
        return cell

    def finish(self, cell: Cell) -> Cell:
        self.until(lambda: cell.over)
        return cell

    def until(self, condition: Any) -> None:
        """Read what the kernel says until the condition holds."""
        deadline = time.monotonic() + WITHIN
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {WITHIN} s; the last cell is {list(self._cells.values())[-1]}")
            try:
                self._take(self._client.get_iopub_msg(timeout=0.5))
            except queue.Empty:
                continue

    def _take(self, message: dict[str, Any]) -> None:
        cell = self._cells.get(message["parent_header"].get("msg_id", ""))
        if cell is None:
            return
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            cell.text += content["text"]
        elif kind in ("display_data", "execute_result", "update_display_data"):
            cell.displays.append(content["data"])
        elif kind == "error":
            cell.error = f"{content['ename']}: {content['evalue']}"
            cell.traceback = content["traceback"]
        elif kind == "status" and content["execution_state"] == "idle":
            cell.over = True

    def interrupt(self) -> None:
        """Press the stop button."""
        self._manager.interrupt_kernel()
        # A page goes on talking to its kernel. A loop that sleeps sees a signal only when it is woken by something.
        self._client.kernel_info()


@contextmanager
def without_ports() -> Generator[Config]:
    """Let kernels listen on sockets in a folder: a port that was chosen may be taken before the kernel binds it."""
    with tempfile.TemporaryDirectory() as folder:
        yield Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}})


@contextmanager
def kernel(**environment: str) -> Generator[Kernel]:
    with without_ports() as config:
        manager = KernelManager(kernel_name="python3", config=config)
        manager.start_kernel(env={**os.environ, **environment})
        client = manager.blocking_client()
        try:
            client.start_channels()
            client.wait_for_ready(timeout=WITHIN)
            yield Kernel(manager, client)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
