"""A Slurm cluster of the tests' own: a controller and several nodes on this machine, as root or as an ordinary user.

Needs Linux and Debian's ``munge``, ``slurmctld``, ``slurmd`` and ``slurm-client``; with accounts also ``slurmdbd`` and
``mariadb-server``. Everything listens on 127.0.0.1, on ports that are free, and lives below one directory. `stop` ends
the processes that `start` began, and no others; if this process ends without it, all is removed nevertheless.

From a shell: ``python -m tests.services.slurm up DIR`` prints the ``SLURM_CONF`` to use, and
``python -m tests.services.slurm down DIR`` ends it and removes the directory.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.services.lifeline import Lifeline
from tests.services.ports import Ports

NODES = 4
CPUS = 64
MEMORY_MB = 64_000
GPUS = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random")
"""Devices of every machine that are taken for a node's GPUs: no task opens them as such."""

_DEADLINE = 60.0
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel")
_ACCOUNTS = ("slurmdbd", "mariadbd", "mariadb-install-db", "sacctmgr")
_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"

_CONF = """\
ClusterName=asynctest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={munge},cred_expire={cred_expire}
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={at}/ctld
SlurmdSpoolDir={at}/spool/%n
SlurmctldPidFile={at}/run/slurmctld.pid
SlurmdPidFile={at}/run/slurmd-%n.pid
SlurmctldLogFile={at}/log/slurmctld.log
SlurmdLogFile={at}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,bf_hetjob_immediate,sched_interval=1,sched_min_interval=10000,default_queue_depth=1000
SelectType=select/cons_tres
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
DefMemPerCPU=100
ReturnToService=2
JobRequeue=1
KillWait=2
MinJobAge={min_job_age}
MaxJobCount=50000
SlurmctldTimeout=60
SlurmdTimeout=120
MessageTimeout=30
TCPTimeout=5
{accounts}
{nodes}
PartitionName=debug Nodes=n[1-{count}] Default=YES MaxTime=INFINITE State=UP PriorityTier=5 PreemptMode=OFF
PartitionName=low Nodes=n[1-{count}] MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=CANCEL
"""

_MEMORY_CONF = """\
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill"""

_ACCOUNTS_CONF = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={port}
AccountingStoragePass={munge}
AccountingStorageEnforce=limits,qos"""

_DBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={munge}
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
LogFile={at}/log/slurmdbd.log
PidFile={at}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""


def why_it_cannot_run(*, accounts: bool = False) -> str:
    """Say what this machine lacks for a cluster of our own; empty when it lacks nothing."""
    if sys.platform != "linux":
        return "a Slurm cluster of the tests' own needs Linux"
    wanted = [*_PROGRAMS, *(_ACCOUNTS if accounts else ())]
    missing = [name for name in wanted if shutil.which(name, path=_PATH) is None]
    if missing:
        more = " slurmdbd mariadb-server" if accounts else ""
        packages = f"munge slurmctld slurmd slurm-client slurm-wlm-basic-plugins{more}"
        return f"not installed: {', '.join(missing)} (Debian: apt-get install {packages})"
    return ""


class SlurmCluster:
    """A cluster in a directory: start it, stop it, kill its controller, start that again.

    Args:
        directory: Where all of it is; made when it is not there, and removed by `remove`.
        accounts: Whether it keeps accounts.
        min_job_age: Seconds for which the controller remembers a job that has ended.
        ends_over_memory: Whether a step that takes more memory than it has asked for is ended, within a second or two.
        cred_expire: Seconds after which a node takes no step any more that it was sent, and the controller starts a job
            again that a node has lost.
        prolog: The script that a node runs before it begins a job, if there is one.
        outlives_us: Whether it stays when this process ends.
    """

    def __init__(
        self,
        directory: Path,
        *,
        accounts: bool = False,
        ends_over_memory: bool = False,
        min_job_age: int = 300,
        cred_expire: int = 120,
        prolog: str = "",
        outlives_us: bool = False,
    ) -> None:
        self.directory = directory
        self.conf = directory / "etc/slurm.conf"
        self._accounts = accounts
        self._ends_over_memory = ends_over_memory
        self._min_job_age = min_job_age
        self._cred_expire = cred_expire
        self._prolog = prolog
        self._outlives_us = outlives_us
        self._lifeline: Lifeline | None = None
        self._ports: Ports | None = None
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def environ(self) -> dict[str, str]:
        """What finds this cluster, and no other."""
        return {"SLURM_CONF": str(self.conf)}

    def start(self) -> None:
        """Start it, and wait until all nodes are idle."""
        for name in ("etc", "log", "pids", "run", "munge", "ctld", "spool", "db"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o755)
        if self._lifeline is None and not self._outlives_us:
            self._lifeline = Lifeline(sys.executable, "-m", "tests.services.slurm", "down", str(self.directory))
        if not self.conf.exists():
            self._configure()
        self._begin_munge()
        if self._accounts:
            self._begin_accounts()
        self.start_controller()
        for node in self._nodes():
            (self.directory / "spool" / node).mkdir(exist_ok=True)
            self._begin(f"slurmd-{node}", "slurmd", "-D", "-N", node, "-f", str(self.conf))
        self._until("the nodes are idle", lambda: self._idle() == NODES)

    def start_controller(self, *, forgetful: bool = False) -> None:
        """Start the controller, and wait until it answers; one that is forgetful knows no job of before."""
        self._begin("slurmctld", "slurmctld", "-D", "-f", str(self.conf), *(["-c"] if forgetful else []))
        self._until("slurmctld answers", lambda: self.answers("scontrol", "ping"))

    def save_state(self) -> None:
        """Wait until the controller has written down what it knows of its jobs: it does so some seconds later."""
        jobs, saved = self.run("squeue", "-h", "-t", "running", "-o", "%A").split(), self.directory / "ctld/job_state"
        now = time.time_ns()
        self.run("scontrol", "update", f"JobId={jobs[0]}", "Comment=changed")
        self._until("the state is saved", lambda: saved.exists() and saved.stat().st_mtime_ns > now)

    def kill_controller(self) -> None:
        """Kill the controller, as a machine that fails."""
        self._end("slurmctld", signal.SIGKILL)

    def kill_accounts(self) -> None:
        """Kill what keeps the accounts; `start` brings it back."""
        self._end("slurmdbd", signal.SIGKILL)

    def stop(self) -> None:
        """End what `start` began: jobs first, so that nothing of them outlives the nodes."""
        if self._is_alive("slurmctld"):
            jobs = self.run("squeue", "-h", "-o", "%A", check=False).split()
            if jobs:
                self.run("scancel", *dict.fromkeys(jobs), check=False)
                with contextlib.suppress(RuntimeError):
                    self._until("all jobs have ended", lambda: not self.run("squeue", "-h", check=False).strip(), 20)
        names = [path.stem for path in sorted((self.directory / "pids").glob("*.pid"))]
        for name in sorted(names, key=_order):
            self._end(name)

    def remove(self) -> None:
        """End it and remove its directory."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
        if self._lifeline is not None:
            self._lifeline.release()
        if self._ports is not None:
            self._ports.close()

    def clean(self) -> None:
        """End every job; one may end by itself meanwhile."""
        if jobs := self.run("squeue", "-h", "-o", "%A").split():
            self.run("scancel", *dict.fromkeys(jobs), check=False)

    def run(self, *argv: str, check: bool = True) -> str:
        """Run one of the cluster's commands and return what it writes."""
        done = subprocess.run(
            argv, env=self._environ(), capture_output=True, text=True, errors="replace", check=False, timeout=_DEADLINE
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(argv)}: {done.returncode} {done.stderr}")
        return done.stdout

    def answers(self, *argv: str) -> bool:
        """Tell whether a command succeeds, within a few seconds."""
        try:
            done = subprocess.run(argv, env=self._environ(), capture_output=True, check=False, timeout=5)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0 and b"DOWN" not in done.stdout

    # Its parts

    def _configure(self) -> None:
        at, user = self.directory, getpass.getuser()
        self._ports = Ports(NODES + 2)  # of which the controller's is bound again when it is back
        port, dbd, *ports = self._ports.numbers
        munge = at / "munge/munge.sock"
        nodes = "\n".join(
            f"NodeName=n{k} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={each} "
            f"CPUs={CPUS} RealMemory={MEMORY_MB} Gres=gpu:{len(GPUS)} State=UNKNOWN"
            for k, each in enumerate(ports, 1)
        )
        accounts = "AccountingStorageType=accounting_storage/none\n"
        accounts += _MEMORY_CONF if self._ends_over_memory else "JobAcctGatherType=jobacct_gather/none"
        if self._accounts:
            accounts = _ACCOUNTS_CONF.format(port=dbd, munge=munge)
            dbd_conf = at / "etc/slurmdbd.conf"
            dbd_conf.write_text(_DBD_CONF.format(port=dbd, munge=munge, user=user, at=at))
            dbd_conf.chmod(0o600)
        if self._prolog:
            accounts += f"\nProlog={at}/etc/prolog"
            (at / "etc/prolog").write_text(f"#!/bin/sh\n{self._prolog}\n")
            (at / "etc/prolog").chmod(0o755)
        self.conf.write_text(
            _CONF.format(
                at=at,
                host=socket.gethostname(),
                port=port,
                user=user,
                munge=munge,
                min_job_age=self._min_job_age,
                cred_expire=self._cred_expire,
                accounts=accounts,
                nodes=nodes,
                count=NODES,
            )
        )
        (at / "etc/cgroup.conf").write_text("")
        (at / "etc/gres.conf").write_text("".join(f"Name=gpu File={device}\n" for device in GPUS))

    def _begin_munge(self) -> None:
        at = self.directory / "munge"
        key = at / "munge.key"
        if not key.exists():
            key.touch(0o600)
            key.write_bytes(os.urandom(128))
        at.chmod(0o755)
        files = (f"--key-file={key}", f"--log-file={at}/munged.log", f"--pid-file={at}/munged.pid")
        seed = f"--seed-file={at}/munge.seed"
        self._begin("munged", "munged", "--foreground", "--force", f"--socket={at}/munge.sock", *files, seed)
        self._until("munged answers", lambda: self.answers("munge", "-n", "-S", f"{at}/munge.sock"))

    def _begin_accounts(self) -> None:
        at, user = self.directory / "db", getpass.getuser()
        if not (at / "data/mysql").exists():
            how = ("--no-defaults", f"--user={user}", f"--datadir={at}/data", "--skip-test-db")
            self.run("mariadb-install-db", *how, "--auth-root-authentication-method=normal")
        paths = (f"--datadir={at}/data", f"--socket={at}/my.sock", f"--pid-file={at}/my.pid")
        small = ("--skip-networking", "--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0")
        self._begin("mariadb", "mariadbd", "--no-defaults", f"--user={user}", *paths, *small, "--skip-log-bin")
        client = ("mariadb", "--no-defaults", "-uroot", f"--socket={at}/my.sock", "-e")
        self._until("mariadb answers", lambda: self.answers(*client, "select 1"))
        self.run(*client, "create database if not exists slurm_acct_db")
        self.run(*client, "create user if not exists slurm@localhost identified by 'slurm'")
        self.run(*client, "grant all on slurm_acct_db.* to slurm@localhost")
        # It connects to "localhost", which is the socket that was compiled in, or this one.
        self._begin("slurmdbd", "slurmdbd", "-D", MYSQL_UNIX_PORT=f"{at}/my.sock")
        self._until("slurmdbd answers", lambda: self.answers("sacctmgr", "-n", "-P", "show", "cluster"))
        if "asynctest" not in self.run("sacctmgr", "-n", "-P", "show", "cluster"):
            self.run("sacctmgr", "-i", "add", "cluster", "asynctest")
            self.run("sacctmgr", "-i", "add", "account", "tests")
            self.run("sacctmgr", "-i", "add", "qos", "narrow", "MaxJobsPerUser=1")
            self.run("sacctmgr", "-i", "add", "user", user_name := getpass.getuser(), "account=tests", check=False)
            self.run("sacctmgr", "-i", "modify", "user", user_name, "set", "qos+=narrow")

    def _nodes(self) -> Iterator[str]:
        return (f"n{k}" for k in range(1, NODES + 1))

    def _idle(self) -> int:
        told = self.run("sinfo", "-h", "-N", "-p", "debug", "-t", "idle,mix,alloc", "-o", "%N", check=False)
        return len({*told.split()})

    def _environ(self) -> dict[str, str]:
        return {**os.environ, **self.environ, "PATH": _PATH}

    # Processes

    def _begin(self, name: str, *argv: str, **environ: str) -> None:
        if self._is_alive(name):
            return
        with (self.directory / f"log/{name}.out").open("ab") as log:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**self._environ(), **environ},
                start_new_session=True,
                cwd="/",
            )
        self._processes[name] = process
        (self.directory / f"pids/{name}.pid").write_text(f"{process.pid} {_start_time(process.pid)}")

    def _is_alive(self, name: str) -> bool:
        process = self._processes.get(name)
        if process is not None:
            return process.poll() is None
        pid, started = self._recorded(name)
        return pid > 0 and _start_time(pid) == started

    def _recorded(self, name: str) -> tuple[int, str]:
        try:
            pid, started = (self.directory / f"pids/{name}.pid").read_text().split()
        except (OSError, ValueError):
            return 0, ""
        return int(pid), started

    def _end(self, name: str, sig: signal.Signals = signal.SIGTERM) -> None:
        """Signal a process that we have started, and kill it if it is still there at the deadline."""
        pid, _ = self._recorded(name)
        deadline = time.monotonic() + _DEADLINE / 2
        while self._is_alive(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sig)
            time.sleep(0.05)
            if time.monotonic() > deadline:
                sig = signal.SIGKILL
        self._processes.pop(name, None)
        (self.directory / f"pids/{name}.pid").unlink(missing_ok=True)

    def _until(self, what: str, condition: Callable[[], bool], seconds: float = _DEADLINE) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(_last_lines(path) for path in sorted((self.directory / "log").iterdir()))
                raise RuntimeError(f"waited in vain until {what}\n{logs}")
            time.sleep(0.05)


def _order(name: str) -> int:
    """Return when a process is to be ended: nodes, then who they talk to."""
    order = ("slurmd-", "slurmctld", "slurmdbd", "mariadb", "munged")
    return next(number for number, start in enumerate(order) if name.startswith(start))


def _start_time(pid: int) -> str:
    """Return when a process was started, in the kernel's ticks; nothing if it is not there, or only its entry."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _last_lines(path: Path) -> str:
    return f"{path.name}:\n" + "\n".join(path.read_text(errors="replace").splitlines()[-10:])


@contextlib.contextmanager
def new_cluster(**how: Any) -> Iterator[SlurmCluster]:
    """A cluster, gone with all that is its own afterwards; `how` is what `SlurmCluster` takes."""
    cluster = SlurmCluster(Path(tempfile.mkdtemp(prefix="ass-", dir="/tmp")), **how)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


def main(arguments: Sequence[str]) -> None:
    verb, directory = arguments
    cluster = SlurmCluster(Path(directory).resolve(), outlives_us=True)
    if verb == "up":
        cluster.start()
        sys.stdout.write(f"{cluster.conf}\n")
    elif verb == "down":
        cluster.remove()
    else:
        raise SystemExit("usage: python -m tests.services.slurm up|down DIRECTORY")


if __name__ == "__main__":
    main(sys.argv[1:])
