"""The tests' cluster as a guest of the machine: what is seen of it while it runs, and that nothing is left of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests._support import eventually_blocking
from tests.services.kubernetes.api import Api
from tests.services.kubernetes.build_cluster import why_not_built
from tests.services.kubernetes.cluster import Cluster, cgroups, new_directory, why_it_cannot_run
from tests.services.kubernetes.tenant import Tenant

pytestmark = pytest.mark.service("cluster")

ROOT = Path(__file__).parents[2]
LISTENS = "0A"
"""The state of a socket that listens, in the kernel's tables."""


def processes() -> Iterator[Path]:
    yield from Path("/proc").glob("[0-9]*")


def namespace(process: Path, kind: str) -> str:
    try:
        return str((process / "ns" / kind).readlink())
    except OSError:
        return ""  # it has ended, or is another's


OURS = {kind: namespace(Path("/proc/self"), kind) for kind in ("pid", "net", "mnt")}


def members(cluster: Cluster) -> list[Path]:
    """Return the processes of a cluster, as the machine sees them."""
    inner = Path(
        f"/proc/{(cluster.directory / 'run' / 'unshare').read_text().split()[0]}/ns/pid_for_children"
    ).readlink()
    return [process for process in processes() if namespace(process, "pid") == str(inner)]


def mounts() -> set[str]:
    return {line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()}


def links() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def listeners() -> set[str]:
    """Return the addresses other than loopback's on which anything listens in the machine's network."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()[1:]]
    loopback = ("0100007F", "00000000000000000000000001000000")
    return {row[1] for row in rows if row[3] == LISTENS and not row[1].startswith(loopback)}


def settings() -> dict[str, str]:
    names = ("net/ipv4/ip_forward", "vm/overcommit_memory", "kernel/panic", "kernel/keys/root_maxkeys")
    return {name: Path("/proc/sys", name).read_text() for name in names}


def traces(directory: Path) -> list[str]:
    """Return what the machine has of a cluster; others may come and go meanwhile."""
    named = str(directory)
    found = [f"mount {mount}" for mount in mounts() if mount.startswith(named)]
    found += [f"cgroup {path}" for path in cgroups(_cgroup_of(directory)) if path.exists()]
    found += ["a bridge"] if "pods" in links() else []
    for process in processes():
        with suppress(OSError):
            command = (process / "cmdline").read_text()
            found += (
                [f"process {process.name}: {command}"] if named in command and os.getpid() != int(process.name) else []
            )
    return found + ([named] if directory.exists() else [])


def _cgroup_of(directory: Path) -> str:
    """Return the name of a cluster's cgroup, also when its directory has gone."""
    with suppress(OSError):
        _CGROUPS[directory] = (directory / "run" / "cgroup").read_text()
    return _CGROUPS[directory]


_CGROUPS: dict[Path, str] = {}


def test_the_machine_sees_one_socket_of_it_on_loopback(own_cluster: Cluster) -> None:
    found = members(own_cluster)

    assert {"kubelet", "containerd"} <= {(process / "comm").read_text().strip() for process in found}
    for kind, ours in OURS.items():
        assert ours not in {namespace(process, kind) for process in found}
    assert "pods" not in links()
    assert not [line for line in mounts() if line.startswith(str(own_cluster.directory))]
    port = f":{Api(own_cluster.kubeconfig).server.port:04X}"
    assert not [address for address in listeners() if address.endswith(port)]


def test_a_program_is_stopped_and_started_again(own_cluster: Cluster) -> None:
    before = own_cluster.running()
    own_cluster.stop("scheduler")
    stopped = own_cluster.running()
    own_cluster.start("scheduler")

    assert "scheduler" in before
    assert before.keys() - {"scheduler"} == stopped.keys()
    assert before.keys() == own_cluster.running().keys()


def test_the_plain_user_has_the_role_and_no_more(tenant: Tenant) -> None:
    user = Api(tenant.user)

    assert user.answers(tenant.path("pods"))
    assert user.answers(tenant.path("jobs", "/apis/batch.volcano.sh/v1alpha1"))
    assert not user.answers(tenant.path("secrets"))
    assert not user.answers("/api/v1/namespaces/default/pods")


@pytest.fixture
def built() -> None:
    why = why_not_built()[0]
    if why:
        pytest.skip(why)


@pytest.mark.parametrize("without", ["sys_admin", "net_admin"])
def test_a_machine_that_refuses_namespaces_is_told_before_anything_is_made(without: str) -> None:
    if why := why_it_cannot_run():
        pytest.skip(why)
    code = "from tests.services.kubernetes.cluster import why_it_cannot_run; print(why_it_cannot_run())"
    drop = ["setpriv", "--bounding-set", f"-{without}", "--inh-caps", f"-{without}"]
    done = subprocess.run([*drop, sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    assert done.stdout.startswith("this machine refuses what every pod needs")
    assert "Operation not permitted" in done.stdout


@pytest.mark.heavy("kubernetes")
@pytest.mark.usefixtures("built")
def test_nothing_is_left_after_it_is_taken_down() -> None:
    before = settings()
    made = Cluster(new_directory())
    made.up()
    networks = {namespace(process, "net") for process in members(made)}

    assert traces(made.directory)
    made.down()
    assert [] == traces(made.directory)
    eventually_blocking(lambda: not networks & {namespace(process, "net") for process in processes()})
    assert before == settings()


@pytest.mark.heavy("kubernetes")
@pytest.mark.usefixtures("built")
def test_nothing_is_left_when_the_process_that_brought_it_up_is_killed() -> None:
    code = (
        "import sys, time; from pathlib import Path; from tests.services.kubernetes.cluster import Cluster\n"
        "Cluster(Path(sys.argv[1])).up(); print('up', flush=True); time.sleep(600)"
    )
    directory = new_directory()
    parent = subprocess.Popen([sys.executable, "-c", code, str(directory)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        assert "up\n" == parent.stdout.readline()
        assert traces(directory)
        parent.kill()
    eventually_blocking(lambda: not traces(directory), within=120)
