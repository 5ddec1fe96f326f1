"""Components for small jobs: print a message, run a command or a script, copy a file, try a scheduler."""

from __future__ import annotations

import inspect
from types import ModuleType

from asyncsched.components.images import default_image
from asyncsched.errors import ComponentError
from asyncsched.specs.app import AppDef, Resource, Role
from asyncsched.specs.mounts import parse_mounts
from asyncsched.specs.resources import resource

__all__ = ["binary", "booth", "copy", "echo", "python", "sh", "touch"]

# On Debian, `python` exists only in virtual environments.
PYTHON = "python3"


def echo(msg: str = "hello world", image: str | None = None, num_replicas: int = 1) -> AppDef:
    """Print a message.

    Args:
        msg: What to print.
        image: The image to run in.
        num_replicas: How many replicas print it.
    """
    return _app("echo", image, entrypoint="echo", args=[msg], num_replicas=num_replicas, resource=_small())


def touch(file: str, image: str | None = None) -> AppDef:
    """Create an empty file, or set its time to now.

    Args:
        file: The file's path.
        image: The image to run in.
    """
    return _app("touch", image, entrypoint="touch", args=[file], resource=_small())


def sh(
    *args: str,
    image: str | None = None,
    num_replicas: int = 1,
    cpu: int = 1,
    gpu: int = 0,
    memMB: int = 1024,  # noqa: N803 - the documents' name
    h: str | None = None,
    env: dict[str, str] | None = None,
    max_retries: int = 0,
    mounts: list[str] | None = None,
    entrypoint: str = "sh",
) -> AppDef:
    """Run a command in a shell: a single argument is a shell command line, several are words that it does not expand.

    Args:
        args: The command and its arguments, or one command line such as 'cd /data && ls | wc -l'.
        image: The image to run in.
        num_replicas: How many replicas run it.
        cpu: Processors per replica.
        gpu: GPUs per replica.
        memMB: Memory per replica in MB.
        h: A named resource, instead of cpu, gpu and memMB.
        env: Environment variables.
        max_retries: How often to restart after a failure.
        mounts: What to mount, as in type=bind,src=/host,dst=/job,readonly.
        entrypoint: The shell.
    """
    if not args:
        raise ComponentError("utils.sh needs a command", fix="write it at the end: utils.sh -- ls -l")
    import shlex  # imported late: `echo` and the other components do not need it

    return _app(
        "sh",
        image,
        entrypoint=entrypoint,
        args=["-c", args[0] if len(args) == 1 else shlex.join(args)],
        env=env,
        num_replicas=num_replicas,
        max_retries=max_retries,
        resource=resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h),
        mounts=mounts,
    )


def python(
    *args: str,
    m: str | None = None,
    c: str | None = None,
    script: str | None = None,
    image: str | None = None,
    name: str = "python",
    cpu: int = 1,
    gpu: int = 0,
    memMB: int = 1024,  # noqa: N803 - the documents' name
    h: str | None = None,
    num_replicas: int = 1,
    env: dict[str, str] | None = None,
) -> AppDef:
    """Run a Python module, a line of Python, or a script.

    Args:
        args: The program's arguments (sys.argv).
        m: A module to run.
        c: A program, as source code.
        script: A file to run.
        image: The image to run in.
        name: The job's name.
        cpu: Processors per replica.
        gpu: GPUs per replica.
        memMB: Memory per replica in MB.
        h: A named resource, instead of cpu, gpu and memMB.
        num_replicas: How many replicas run it.
        env: Environment variables.
    """
    given = [option for option in (m and ["-m", m], c and ["-c", c], script and [script]) if option]
    if len(given) != 1:
        raise ComponentError(
            f"utils.python needs exactly one of -m, -c and --script, got {len(given)}",
            fix="write for example -m my.module, or --script train.py",
        )
    return _app(
        name,
        image,
        entrypoint=PYTHON,
        args=[*given[0], *args],
        env=env,
        num_replicas=num_replicas,
        resource=resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h),
    )


def binary(
    *args: str,
    entrypoint: str,
    image: str | None = None,
    name: str = "binary",
    num_replicas: int = 1,
    cpu: int = 1,
    gpu: int = 0,
    memMB: int = 1024,  # noqa: N803 - the documents' name
    h: str | None = None,
    env: dict[str, str] | None = None,
) -> AppDef:
    """Run a program that is in the image.

    Args:
        args: The program's arguments.
        entrypoint: The program.
        image: The image to run in.
        name: The job's name.
        num_replicas: How many replicas run it.
        cpu: Processors per replica.
        gpu: GPUs per replica.
        memMB: Memory per replica in MB.
        h: A named resource, instead of cpu, gpu and memMB.
        env: Environment variables.
    """
    return _app(
        name,
        image,
        entrypoint=entrypoint,
        args=[*args],
        env=env,
        num_replicas=num_replicas,
        resource=resource(cpu=cpu, gpu=gpu, memMB=memMB, h=h),
    )


def copy(src: str, dst: str, image: str | None = None) -> AppDef:
    """Copy a file; the image needs Python, and fsspec for anything that is not a path or an http address.

    Args:
        src: The file to read: a path or a URL.
        dst: Where to write it: a path or a URL.
        image: The image to run in.
    """
    from asyncsched.components.programs import copy as program

    return _app("copy", image, entrypoint=PYTHON, args=[*_carried(program), src, dst], resource=_small())


def booth(
    x1: float,
    x2: float,
    trial_idx: int = 0,
    tracker_base: str = "/tmp/asyncsched-booth",  # noqa: S108 - the documents' default is there too
    image: str | None = None,
) -> AppDef:
    """Evaluate the Booth function (x1 + 2 x2 - 7)^2 + (2 x1 + x2 - 5)^2: a job to try a tuner with.

    Args:
        x1: The first coordinate.
        x2: The second coordinate.
        trial_idx: The trial's number, under which the result is written.
        tracker_base: The folder for results.
        image: The image to run in.
    """
    from asyncsched.components.programs import booth as program

    values = [f"--x1={x1}", f"--x2={x2}", f"--trial_idx={trial_idx}", f"--tracker_base={tracker_base}"]
    return _app("booth", image, entrypoint=PYTHON, args=[*_carried(program), *values], resource=_small())


def _carried(program: ModuleType) -> list[str]:
    """Return arguments that contain the whole program, so that any image with Python can run it."""
    return ["-c", inspect.getsource(program)]


def _small() -> Resource:
    return resource(cpu=1, gpu=0, memMB=1024)


def _app(
    name: str,
    image: str | None,
    *,
    entrypoint: str,
    args: list[str],
    resource: Resource,
    env: dict[str, str] | None = None,
    num_replicas: int = 1,
    max_retries: int = 0,
    mounts: list[str] | None = None,
) -> AppDef:
    role = Role(
        name=name,
        image=image or default_image(),
        entrypoint=entrypoint,
        args=args,
        env=dict(env or {}),
        num_replicas=num_replicas,
        max_retries=max_retries,
        resource=resource,
        mounts=parse_mounts(mounts or []),
    )
    return AppDef(name=name, roles=[role])
