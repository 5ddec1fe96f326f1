"""What scripts read from ``-o json`` stays: for the same apps every field is there and says the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.formats._frozen import HOME, changed, frozen, install_home, lost
from tests.formats._lines import READING, RUNNING, tell

GROWS = ("builtins", "runopts")
"""Lists to which a release adds."""


def test_the_frozen_apps_are_told_as_they_were(release: str, tmp_path: Path) -> None:
    home = install_home(release, tmp_path / "home")
    before = json.loads(json.dumps(frozen(release, "cli/reading.json")).replace(HOME, str(home)))

    told = tell(READING, home)

    faults: dict[str, list[str]] = {}
    for name, then in before.items():
        now = told[name].out
        if name in GROWS:
            now = _of_then(then["out"], now)
        faults[name] = [*changed(then["out"], now)]
        if then["code"] != told[name].code:
            faults[name].append(f"the exit code was {then['code']}, and is {told[name].code}: {told[name].err}")
    assert {} == {name: found for name, found in faults.items() if found}


def _of_then(then: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of now that were there then."""
    names = [_name(row) for row in then]
    rows = {_name(row): row for row in now}
    return [rows[name] for name in names if name in rows]


def _name(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(row.get(key, "") for key in ("scheduler", "option", "component"))


def test_what_a_run_tells_has_the_fields_that_it_had(release: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)

    told = tell(RUNNING, home)

    before = frozen(release, "cli/running.json")
    ran = [name for name in before if name != "doctor"]  # which tells of the machine
    assert [before[name]["code"] for name in ran] == [told[name].code for name in ran]
    assert {} == {name: found for name, then in before.items() if (found := [*lost(then["out"], told[name].out)])}
