"""A saved notebook, executed by nbclient and exported to HTML, can be read without a kernel."""

from __future__ import annotations

import html
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

from tests.notebook.kernel import without_ports

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
CELLS = [
    """
from asyncsched import AppDef, Role, Runner
from asyncsched.testing import FakeScheduler
runner = Runner("me", {"fake": FakeScheduler("me")})
app = AppDef("job", [Role("main", "image", entrypoint="sh", args=["-c", "exit 3"], env={"API_TOKEN": "hunter2"})])
""",
    "await runner.dryrun(app, 'fake')",
    "handle = await runner.run(app, 'fake')",
    "await runner.monitor(handle)",
    "handle",
    "await runner.wait(handle)",
    "await runner.list()",
    "await runner.close()",
]


def execute(notebook: nbformat.NotebookNode, path: Path) -> None:
    place = {"metadata": {"path": str(path)}}
    with without_ports() as config:
        NotebookClient(notebook, timeout=60, kernel_name="python3", config=config, resources=place).execute()


def words(notebook: nbformat.NotebookNode) -> str:
    """Return what a reader of the exported page sees, tags left out."""
    page, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))


def test_an_exported_notebook_holds_handle_and_state_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in CELLS])
    execute(notebook, tmp_path)
    text = words(notebook)
    handles = set(re.findall(r"fake://me/job-\w+", text))

    assert 2 == len(handles)  # the dry-run's, and the app's
    assert 4 <= text.count("● FAILED")  # the table, the handle, the status, the list
    assert "exited with code 3" in text
    assert "API_TOKEN: '***'" in text or "API_TOKEN: ***" in text
    assert 1 == str(notebook).count("hunter2")  # in the cell that says it


def test_the_quickstart_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("ASYNCSCHED_HOME", str(tmp_path / "home"))
    notebook = nbformat.read(ROOT / "docs" / "quickstart.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "it is stored without output"
    execute(notebook, tmp_path)
    text = words(notebook)

    for expected in ("worker/0 hello from 0", "worker/1 done", "● SUCCEEDED", "● FAILED", "dry-run of hello-"):
        assert expected in text
