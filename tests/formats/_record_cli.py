"""Freezes what the command line tells of the frozen state directory."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.formats._frozen import HOME, install_home
from tests.formats._lines import READING, RUNNING, tell


def record_cli(target: Path) -> None:
    """Run every frozen command line and write what it tells."""
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="asyncsched-formats-") as name:
        home = install_home(target.parent.name, Path(name, "home"))
        for file, lines in (("reading.json", READING), ("running.json", RUNNING)):
            told = {name: {"code": each.code, "out": each.out} for name, each in tell(lines, home).items()}
            if "doctor" in told:
                told["doctor"]["out"] = [{**row, "detail": ""} for row in told["doctor"]["out"][:3]]  # no machine's own
                told["run, dry"]["out"]["request"] = {}  # a Python value, made readable
            rows = ",\n".join(f" {json.dumps(name)}: {json.dumps(each)}" for name, each in told.items())
            text = f"{{\n{rows}\n}}\n".replace(str(home), HOME)
            (target / file).write_text(text)


if __name__ == "__main__":
    import sys

    record_cli(Path(sys.argv[1]).absolute() / "cli")
