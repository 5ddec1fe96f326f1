"""The command lines whose JSON is frozen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

PREFIX = "local_cwd://session/"
NAMES = ("finished", "cancelled", "killed", "merged", "rotated", "stopped", "kept", "closed")
ENDED = [f"{PREFIX}{name}-0123456789abc" for name in NAMES]
EVERY = [*ENDED, f"{PREFIX}order-42-zsgn4xw4r6vdc2", f"{PREFIX}detached-0123456789abc"]
FIRST, MERGED = ENDED[0], f"{PREFIX}merged-0123456789abc"
UNKNOWN = f"{PREFIX}nobody-0123456789abc"

READING: Mapping[str, list[str]] = {
    "list": ["list", "-s", "local_cwd", "-o", "json"],
    "status": ["status", "-o", "json", *EVERY],
    "status of one role": ["status", "-o", "json", FIRST, "--roles", "server"],
    "status of an unknown app": ["status", "-o", "json", FIRST, UNKNOWN],
    "describe": ["describe", "-o", "json", *EVERY],
    "wait": ["wait", "-o", "json", *ENDED],
    "wait for an unknown app": ["wait", "-o", "json", FIRST, UNKNOWN],
    "monitor": ["monitor", "-o", "json", *ENDED],
    **{f"log of {app}": ["log", "-o", "jsonl", app] for app in EVERY},
    "log of one replica": ["log", "-o", "jsonl", "--streams", "stderr", f"{FIRST}/trainer/1"],
    "log of the last lines": ["log", "-o", "jsonl", "--tail", "2", ENDED[4]],
    "cancel": ["cancel", "-o", "json", FIRST],
    "cancel of an unknown app": ["cancel", "-o", "json", FIRST, UNKNOWN],
    "delete": ["delete", "-o", "json", MERGED],
    "builtins": ["builtins", "-o", "json"],
    "runopts": ["runopts", "-o", "json"],
}
"""On the frozen state directory, in this order; what they tell stays."""

RUNNING: Mapping[str, list[str]] = {
    "run": ["run", "-o", "json", "utils.echo", "--msg", "hi"],
    "run, in lines": ["run", "-o", "jsonl", "utils.echo", "--msg", "hi"],
    "run, detached": ["run", "-o", "json", "--detach", "--", "true"],
    "run, dry": ["run", "-o", "json", "--dryrun", "--key", "order-42", "--", "echo", "hi"],
    "doctor": ["doctor", "-o", "json"],
}
"""Whose answers are new in each run; their keys and types stay."""


class Told(NamedTuple):
    """What a command line has told: its exit code, its JSON (the items of a list, or lines), and its messages."""

    code: int
    out: Any
    err: str


def tell(lines: Mapping[str, list[str]], home: Path) -> dict[str, Told]:
    """Run command lines on a state directory."""
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("ASYNCSCHED_", "AWS_", "DOCKER"))},
        "ASYNCSCHED_HOME": str(home),
        "ASYNCSCHED_SCHEDULERS": "local_cwd",
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("_many_lines.py"))],
        input=json.dumps([*lines.values()]), capture_output=True, text=True, cwd=home, env=env, check=False, timeout=50,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    answers = zip(lines.items(), json.loads(done.stdout), strict=True)
    return {name: Told(code, _parsed(line, out), err) for (name, line), (code, out, err) in answers}


def _parsed(line: list[str], out: str) -> Any:
    if "jsonl" not in line:
        told = json.loads(out or "null")
        # Ends come in any order; a list is told newest first.
        return sorted(told, key=lambda row: str(row.get("handle"))) if line[0] in ("wait", "monitor") else told
    rows = [json.loads(each) for each in out.splitlines()]
    # Lines of one replica have an order, those of several that were written together have none.
    return sorted(rows, key=lambda row: (row["role"], row["replica"])) if line[0] == "log" else rows
