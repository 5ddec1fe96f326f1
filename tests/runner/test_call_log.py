"""Calls as OpenTelemetry spans, where the process uses that package; nothing otherwise."""

from __future__ import annotations

import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from asyncsched.errors import AuthError
from tests.runner.rig import Rig


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)  # once for the process: the package has it so
    return exporter


async def test_each_call_is_a_span_below_the_callers(rig: Rig, exporter: InMemorySpanExporter) -> None:
    exporter.clear()
    with trace.get_tracer("test").start_as_current_span("mine"):
        handle = await rig.run("push", env={"API_TOKEN": "hunter2"})
        rig.push.fail("describe", AuthError("no"))
        with pytest.raises(AuthError):
            await rig.runner.status(handle)
    run, status, mine = exporter.get_finished_spans()

    assert ["asyncsched.run", "asyncsched.status"] == [run.name, status.name]
    assert all(span.parent is not None and span.parent.span_id == mine.context.span_id for span in (run, status))
    assert {
        "asyncsched.session": "me",
        "asyncsched.scheduler": "push",
        "asyncsched.app_id": handle.app_id,
        "asyncsched.outcome": "ok",
    } == dict(run.attributes or {})
    assert "AuthError" == (status.attributes or {})["asyncsched.outcome"]
    assert "hunter2" not in run.to_json() + status.to_json()


def test_the_package_is_not_imported_for_those_who_do_not_use_it() -> None:
    script = """
import asyncio, sys
from asyncsched import Runner
from asyncsched.testing import FakeScheduler
async def main():
    async with Runner("me", {"fake": FakeScheduler("me")}) as runner:
        await runner.status("fake://me/x")
asyncio.run(main())
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert "[]\n" == done.stdout
