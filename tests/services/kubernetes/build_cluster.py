"""Build the programs of the cluster, once, into a cache outside the tree: ``tests/services/kubernetes/build``.

Kubernetes, etcd, Volcano and CoreDNS are built from Go modules (Go 1.24 or newer; a quarter of an hour on two cores,
more where all has to be downloaded); containerd, runc, the network plugins and busybox come out of Debian's packages.
The folder is named by the versions and by a hash of the files that build it, so that a second call takes seconds.
It may be deleted at any time. ``build --where`` prints it.

One module of Volcano, ``volcano.sh/apis``, is not on every proxy. ``ASYNCSCHED_GOMODULES`` names a folder that is
asked before the proxy. Anybody can make one: check out Volcano at the tag of `versions`, and put its folder
``staging/src/volcano.sh/apis`` into ``FOLDER/volcano.sh/apis/@v/`` in the form that Go downloads (``go help
goproxy``): ``list``, ``vVERSION.info``, ``vVERSION.mod``, and ``vVERSION.zip`` with all names below
``volcano.sh/apis@vVERSION/``.

Exit code 0: it is there. 3: Go or the modules cannot be had on this machine, and the last line says why; tests that
need the cluster are skipped. Anything else: it is there in part or not, and that is a fault.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.services.kubernetes import build_modules, build_packages, images, versions
from tests.services.kubernetes.build_modules import CannotBeHadError

CANNOT_BE_HAD = 3
COMMAND = "tests/services/kubernetes/build"


def main(arguments: list[str]) -> int:
    """Build what is missing; return the exit code."""
    cache = versions.cache()
    if arguments == ["--where"]:
        print(cache)
        return 0
    if arguments:
        print(f"usage: {COMMAND} [--where]", file=sys.stderr)
        return 2
    cache.mkdir(parents=True, exist_ok=True)
    try:
        _build(cache)
    except CannotBeHadError as error:
        _reason(cache).write_text(str(error))
        print(f"the Kubernetes cluster cannot be built here: {error}")
        return CANNOT_BE_HAD
    _reason(cache).unlink(missing_ok=True)
    print(f"the Kubernetes cluster is built, in {cache}")
    return 0


def why_not_built() -> tuple[str, bool]:
    """Say why there is no build, and whether that is because it cannot be had here; empty if it is there."""
    cache = versions.cache()
    if _is_whole(cache):
        return "", False
    if _reason(cache).exists():
        return _reason(cache).read_text(), True
    return f"not built: {COMMAND} builds it, once, in about a quarter of an hour", False


def _reason(cache: Path) -> Path:
    return cache / "cannot-be-had"


def _is_whole(cache: Path) -> bool:
    return all((cache / "bin" / name).exists() for name in build_modules.PROGRAMS) and (cache / "whole").exists()


def _build(cache: Path) -> None:
    if not _is_whole(cache):
        _build_programs(cache)
    if not (cache / "root").exists():
        _step("Debian's packages", lambda: build_packages.unpack(cache / "root"))
    _step("images", lambda: images.make(cache))


def _build_programs(cache: Path) -> None:
    go = build_modules.find_go()
    source, programs = cache / "src", cache / "bin"
    for folder in (source, programs):
        folder.mkdir(exist_ok=True)
    _step("modules", lambda: build_modules.fetch(go, source))
    for name in build_modules.PROGRAMS:
        if not (programs / name).exists():
            _step(name, partial(build_modules.build, go, source, name, programs / name))
    _copy_definitions(go, cache)
    (cache / "whole").touch()


def _copy_definitions(go: str, cache: Path) -> None:
    """Copy Volcano's custom resources; its controllers wait for ever for those of JobFlow, too."""
    module = build_modules.folder_of(go, cache / "src", "volcano.sh/volcano")
    folder = cache / "crds"
    folder.mkdir(exist_ok=True)
    for kind in ("volcano", "jobflow"):
        for path in (module / "config" / "crd" / kind / "bases").glob("*.yaml"):
            shutil.copyfile(path, folder / path.name)


def _step(what: str, do: Callable[[], object]) -> None:
    started = time.monotonic()
    print(f"{what} ...", flush=True)
    do()
    print(f"{what}: {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
