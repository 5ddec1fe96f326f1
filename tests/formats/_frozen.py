"""Reads what a release has left behind: its files, its answers, and the release itself."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RELEASES = sorted(path.name for path in HERE.iterdir() if (path / "COMMIT").exists())
"""Every frozen release, oldest first: what reads one of them reads all."""

HOME = "@HOME@"
"""Stands in frozen files for the state directory, which lies elsewhere in each test."""

KEYS = "order-42"
"""The key of each frozen app that was submitted with one."""


def frozen(release: str, name: str) -> Any:
    """Return what a frozen JSON file holds."""
    return json.loads((HERE / release / name).read_text())


def unpack_package(release: str, folder: Path) -> Path:
    """Unpack the package as it was, and return the folder to be put first on the path."""
    with tarfile.open(HERE / release / "asyncsched.tar.xz") as archive:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # not in the first releases of 3.11
        archive.extractall(folder, **safely)  # type: ignore[arg-type]  # no other argument is meant
    return folder


def here() -> dict[str, str]:
    """Return what a record says of the machine that it was written on, for this machine as it runs now."""
    return {
        "host": os.uname().nodename,
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "pid_namespace": str(Path("/proc/self/ns/pid").readlink()),
    }


def install_home(release: str, home: Path, *, place: dict[str, str] | None = None) -> Path:
    """Copy the frozen state directory to where a test wants it, with the modes that git does not keep.

    Args:
        release: Whose it is.
        home: Where it is to be.
        place: The machine that its apps shall have run on, in place of the frozen one.
    """
    shutil.copytree(HERE / release / "local" / "home", home)
    (home / "supervisors").mkdir(exist_ok=True)
    for path in [home, *home.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    for record in home.glob("apps/*/state.json"):
        rewrite(record, home, place)
    return home


def rewrite(record: Path, home: Path, place: dict[str, str] | None = None) -> None:
    """Put into a record where it lies, and on which machine."""
    state = json.loads(record.read_text().replace(HOME, str(home)))
    state["place"] = place or state["place"]
    record.write_text(json.dumps(state, separators=(",", ":")))


def lost(then: Any, now: Any, at: str = "$") -> Iterator[str]:
    """Tell what readers of the frozen document miss in the present one: keys, items of lists, and types.

    More keys are fine. Null goes with anything: it says that something is not known at that moment.
    """
    if then is None or now is None:
        return
    if isinstance(then, dict) and isinstance(now, dict):
        for key, value in then.items():
            if key in now:
                yield from lost(value, now[key], f"{at}.{key}")
            else:
                yield f"{at}.{key} is missing"
    elif isinstance(then, list) and isinstance(now, list):
        if then and not now:
            yield f"{at} has no items"
        for number, value in enumerate(now):
            if then:
                yield from lost(then[min(number, len(then) - 1)], value, f"{at}[{number}]")
    elif _kind(then) != _kind(now):
        yield f"{at} was {_kind(then)}, and is {_kind(now)}"


def _kind(value: Any) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__


PROSE = frozenset({"msg", "reason", "help", "summary", "detail", "what", "why", "fix", "done"})
"""Fields for people: they are there, and are texts; their words may be chosen anew."""


def changed(then: Any, now: Any, at: str = "$") -> Iterator[str]:
    """Tell where the present document says something else than the frozen one; more keys and new prose are fine."""
    if isinstance(then, dict) and isinstance(now, dict):
        for key, value in then.items():
            if key not in now:
                yield f"{at}.{key} is missing"
            elif key in PROSE:
                yield from lost(value, now[key], f"{at}.{key}")
            else:
                yield from changed(value, now[key], f"{at}.{key}")
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for number, (value, other) in enumerate(zip(then, now, strict=True)):
            yield from changed(value, other, f"{at}[{number}]")
    elif then != now:
        yield f"{at} was {then!r}, and is {now!r}"
