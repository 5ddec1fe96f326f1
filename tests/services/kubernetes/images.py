"""Archives of the images on the node, made without a container engine.

``docker.io/library/busybox:1``  busybox with a link for each of its programs
``docker.io/local/python:3``     that, and this machine's Python with its standard library, the tests' stand-in for
                                 ``torchrun`` and a program whose ranks meet (``/job/meeting.py``)
``docker.io/local/pause:1``      what holds a pod's namespaces
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

BUSYBOX = "docker.io/library/busybox:1"
PYTHON = "docker.io/local/python:3"
PAUSE = "docker.io/local/pause:1"

_HOST_PYTHON = Path("/usr/bin/python3")
_STAND_INS = Path(__file__).parents[2] / "cli"
_NOT_NEEDED = {
    "__pycache__",
    "test",
    "tests",
    "idlelib",
    "lib2to3",
    "ensurepip",
    "tkinter",
    "turtledemo",
    "dist-packages",
}
_LIBRARY = re.compile(r"(/\S+\.so\S*)")

Content = bytes | Path | str
"""What a name of an image stands for: bytes, a file of this machine, or the target of a link."""


def make(cache: Path) -> None:
    """Make the archives in ``cache/images``, unless they are there and made from the same files."""
    folder = cache / "images"
    folder.mkdir(exist_ok=True)
    stamp = _stamp()
    kept = folder / "stamp"
    if kept.exists() and kept.read_text() == stamp:
        return
    busybox = cache / "root/bin/busybox"
    shell = _shell(busybox)
    _write(folder / "busybox.tar", BUSYBOX, shell, {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]})
    # The node's runtime ends it with KILL, and nothing is born in it.
    _write(folder / "pause.tar", PAUSE, {"bin/sleep": busybox}, {"Entrypoint": ["/bin/sleep", "2147483647"]})
    if _HOST_PYTHON.exists():
        _write(folder / "python.tar", PYTHON, {**shell, **_python()}, {"Env": ["PATH=/usr/bin:/bin"]})
    kept.write_text(stamp)


def _stamp() -> str:
    files = [Path(__file__), *_stand_ins().values()]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _shell(busybox: Path) -> dict[str, Content]:
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    return {
        "bin/busybox": busybox,
        **{f"bin/{name}": "busybox" for name in names if name != "busybox"},
        "etc/passwd": b"root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
        "etc/group": b"root:x:0:\n",
    }


def _stand_ins() -> dict[str, Path]:
    return {"usr/bin/torchrun": _STAND_INS / "torchrun.py", "job/meeting.py": _STAND_INS / "meeting.py"}


def _python() -> dict[str, Content]:
    program = _HOST_PYTHON.resolve()
    code = "import os; print(os.path.dirname(os.__file__))"
    told = subprocess.run([program, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    standard = list(_files_below(Path(told.stdout.strip())))
    shared = [path for path in standard if path.suffix == ".so"]
    needed = _libraries([program, *shared]) | set(program.parent.parent.glob("lib/*/libnss_*.so.2"))
    return {
        **{str(path)[1:]: path.resolve() for path in (program, *standard, *needed)},
        "usr/bin/python3": program.name,
        "usr/bin/python": program.name,
        "usr/bin/env": "../../bin/busybox",
        "etc/nsswitch.conf": b"hosts: files dns\n",
        **_stand_ins(),
    }


def _files_below(folder: Path) -> Iterable[Path]:
    for path in sorted(folder.iterdir()):
        if path.name in _NOT_NEEDED or path.name.startswith("config-"):
            continue
        if path.is_dir():
            yield from _files_below(path)
        elif path.is_file():
            yield path


def _libraries(programs: Iterable[Path]) -> set[Path]:
    """Return the shared libraries that the programs are linked with."""
    told = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    found = {
        match[1].rstrip(":") for line in told.splitlines() if line[0].isspace() and (match := _LIBRARY.search(line))
    }
    return {Path(path) for path in found}


def _write(path: Path, name: str, files: Mapping[str, Content], config: Mapping[str, object]) -> None:
    """Write an image of one layer as the archive that ``docker save`` writes."""
    layer = _layer(files)
    machine = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout
    described = {
        "architecture": machine.strip(),
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    content = json.dumps(described).encode()
    config_name = f"{hashlib.sha256(content).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": ["layer.tar"]}]
    parts = {"manifest.json": json.dumps(manifest).encode(), config_name: content, "layer.tar": layer}
    new = path.with_suffix(".new")
    with tarfile.open(new, "w") as tar:
        for part, data in parts.items():
            _add(tar, part, data)
    new.rename(path)


def _layer(files: Mapping[str, Content]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in sorted({"tmp", "root", "proc", "sys", "dev", "var/log", *_folders(files)}):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        for name, content in sorted(files.items()):
            _add(tar, name, content)
    return buffer.getvalue()


def _folders(files: Iterable[str]) -> set[str]:
    return {str(parent) for name in files for parent in Path(name).parents} - {"."}


def _add(tar: tarfile.TarFile, name: str, content: Content) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode = 0o755
    if isinstance(content, str):
        entry.type, entry.linkname = tarfile.SYMTYPE, content
        tar.addfile(entry)
        return
    data = content.read_bytes() if isinstance(content, Path) else content
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))
