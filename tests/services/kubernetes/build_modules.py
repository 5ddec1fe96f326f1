"""Go, and one Go module that holds everything of the cluster, so that all its programs share one compile cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.services.kubernetes import versions

PROGRAMS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "relay": "./relay",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubelet": "k8s.io/kubernetes/cmd/kubelet",
    "vc-controller-manager": "volcano.sh/volcano/cmd/controller-manager",
    "vc-scheduler": "volcano.sh/volcano/cmd/scheduler",
    "vc-webhook-manager": "volcano.sh/volcano/cmd/webhook-manager",
    "coredns": "./coredns",
}
"""The package that each program is built from."""

_MODULES = {
    "k8s.io/kubernetes": versions.KUBERNETES,
    "go.etcd.io/etcd/server/v3": versions.ETCD,
    "volcano.sh/volcano": versions.VOLCANO,
    "volcano.sh/apis": versions.VOLCANO,
    "github.com/coredns/coredns": versions.COREDNS,
}

_BAD_MODULE = re.compile(r"checksum mismatch|SECURITY ERROR|invalid version|ambiguous import")
"""What Go says of a module that could be had and is wrong."""


class CannotBeHadError(Exception):
    """Go, or the modules, cannot be had on this machine: that is no fault of the build."""


def find_go() -> str:
    """Return the Go on PATH.

    Raises:
        CannotBeHadError: There is none, or it is too old.
    """
    wanted = f"Go {'.'.join(map(str, versions.GO))} or newer is needed on PATH"
    go = shutil.which("go")
    if go is None:
        raise CannotBeHadError(f"{wanted}, and there is none")
    told = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout.strip()
    numbers = re.match(r"go(\d+)\.(\d+)", told)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < versions.GO:
        raise CannotBeHadError(f"{wanted}, and {go} is {told or 'broken'}")
    return go


def environment(go: str) -> dict[str, str]:
    """Return the environment for Go: nothing of the user's workspace, and the folder of modules before the proxy."""
    private = ",".join(filter(None, ("volcano.sh/apis", os.environ.get("GONOSUMDB"))))
    more = {
        "GOFLAGS": "-mod=mod -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
        "GONOSUMDB": private,
    }
    folder = os.environ.get("ASYNCSCHED_GOMODULES")
    if folder:
        usual = subprocess.run([go, "env", "GOPROXY"], capture_output=True, text=True, check=True).stdout.strip()
        more["GOPROXY"] = f"file://{Path(folder).resolve()},{usual}"
    return {**os.environ, **more}


def fetch(go: str, folder: Path) -> None:
    """Make the module in `folder` and download what its programs are built from.

    Raises:
        CannotBeHadError: A module cannot be downloaded.
    """
    for name in ("coredns", "relay"):
        shutil.copytree(versions.HERE / "go" / name, folder / name, dirs_exist_ok=True)
    theirs = run(go, folder, "mod", "download", "-json", f"k8s.io/kubernetes@v{versions.KUBERNETES}")
    described = re.search(r'"GoMod": "(.*)"', theirs)
    assert described is not None, theirs
    (folder / "go.mod").write_text(_go_mod(Path(described[1]).read_text()))
    run(go, folder, "list", "-deps", *PROGRAMS.values())


def _go_mod(theirs: str) -> str:
    """Write our go.mod.

    Kubernetes requires its own libraries at v0.0.0 and replaces them by folders of its repository; what a dependency
    replaces does not count, so the published versions of these libraries are named here.
    """
    libraries = re.findall(r"^\s*(k8s\.io/\S+) => \./staging", theirs, re.MULTILINE)
    version = versions.KUBERNETES.replace("1.", "0.", 1)
    return "\n".join(
        [
            "module asyncsched.test/cluster",
            *re.findall(r"^(?:go|godebug) .*$", theirs, re.MULTILINE),
            *(f"require {name} v{version}" for name, version in _MODULES.items()),
            *(f"replace {name} => {name} v{version}" for name in libraries),
            "",
        ]
    )


def build(go: str, folder: Path, name: str, target: Path) -> None:
    """Build one program; `target` is there only once it is whole."""
    where = "k8s.io/component-base/version"
    major, minor, _ = versions.KUBERNETES.split(".")
    told = {"gitVersion": f"v{versions.KUBERNETES}", "gitMajor": major, "gitMinor": minor}
    flags = ["-s", "-w", *(f"-X {where}.{key}={value}" for key, value in told.items())]
    flags.append(f"-X k8s.io/client-go/pkg/version.gitVersion=v{versions.KUBERNETES}")
    new = target.with_suffix(".new")
    subprocess.run(
        [go, "build", "-trimpath", "-ldflags", " ".join(flags), "-o", str(new), PROGRAMS[name]],
        cwd=folder,
        env=environment(go),
        check=True,
    )
    new.rename(target)


def folder_of(go: str, folder: Path, module: str) -> Path:
    """Return where the source of a module is."""
    return Path(run(go, folder, "list", "-m", "-f", "{{.Dir}}", module).strip())


def run(go: str, folder: Path, *arguments: str) -> str:
    """Run a command of Go that downloads."""
    done = subprocess.run(
        [go, *arguments], cwd=folder, env=environment(go), capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return done.stdout
    said = "\n".join(line for line in done.stderr.splitlines() if not line.startswith("go: downloading"))
    if _BAD_MODULE.search(said):
        raise RuntimeError(f"go {' '.join(arguments)}: {said}")
    hint = "" if os.environ.get("ASYNCSCHED_GOMODULES") else " (ASYNCSCHED_GOMODULES may name a folder of modules)"
    raise CannotBeHadError(f"the Go modules cannot be had{hint}: {said.strip()[-500:]}")
