"""Turn an app into the request for its processes, without I/O.

The request is a plain value: it prints readably with its secrets masked, and may be edited before it is sent.
`to_wire` turns it into the message to the supervisor.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from asyncsched.errors import InvalidRequestError, RunOptionError
from asyncsched.schedulers._common.app_notes import app_note
from asyncsched.schedulers._common.roles import given_options, role_of_command
from asyncsched.schedulers.local.images import Fetched, ReplicaParam
from asyncsched.schedulers.local.options import LocalOpts
from asyncsched.schedulers.local.supervisor.formats import RESULT, STATE, WORKSPACE
from asyncsched.schedulers.request_checks import check_seconds
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.dryrun import pretty
from asyncsched.specs.keeping import Keeper, ToldApp
from asyncsched.specs.macros import macros
from asyncsched.specs.not_kept import NOT_KEPT, NotKept
from asyncsched.specs.result import RESULT_FILE
from asyncsched.specs.secret import MASK, reveal, revealed_env

__all__ = ["PopenRequest", "check_options", "log_tree", "make_request", "split_devices", "to_wire"]

RANK0 = "TORCHX_RANK0_HOST"
DEVICES = "CUDA_VISIBLE_DEVICES"
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
ELASTIC_LOGS = "PET_LOG_DIR"
"""The variable with the directory for the logs of ``torchrun``'s workers."""
_ALWAYS_SET = frozenset({RANK0, RESULT_FILE})
"""Variables that a dry-run always sets, even if the role sets them."""
LONGEST_NAME = 200


@dataclass(repr=False)
class PopenRequest:
    """The request for an app's processes.

    Attributes:
        app_id: The app's id.
        log_dir: The directory of the app's logs.
        role_params: The parameters of each role's replicas.
        role_log_dirs: The directory of each replica's logs.
        inherit: Patterns of the submitter's variables that replicas inherit; None for all.
        detach: Whether the app keeps running when its submitter ends.
        grace_period: Seconds between TERM and KILL.
        timeout: Seconds that it may run; None for no limit.
        merge_streams: Whether stdout and stderr share one pipe.
        on_failure: What the other replicas do when one has failed.
        max_log_bytes: How many bytes of output to keep.
        own_tree: Whether the user named `log_dir`.
    """

    app_id: str
    log_dir: str
    role_params: dict[str, list[ReplicaParam]]
    role_log_dirs: dict[str, list[str]]
    inherit: list[str] | None = field(default=None, kw_only=True)
    detach: bool = field(default=False, kw_only=True)
    grace_period: float = field(default=10.0, kw_only=True)
    timeout: float | None = field(default=None, kw_only=True)
    merge_streams: bool = field(default=False, kw_only=True)
    on_failure: Literal["continue", "stop"] = field(default="continue", kw_only=True)
    max_log_bytes: int = field(default=10 << 30, kw_only=True)
    own_tree: bool = field(default=False, kw_only=True)

    def __repr__(self) -> str:
        return pretty(self)


def make_request(
    app: AppDef,
    app_id: str,
    options: LocalOpts,
    fetched: Mapping[str, Fetched],
    *,
    log_dir: Path,
    path: str,
    extra_paths: Sequence[str] = (),
) -> PopenRequest:
    """Make the request for an app.

    Args:
        app: The app.
        app_id: The app's id.
        options: The checked run options.
        fetched: The image of each role.
        log_dir: The directory of the app's logs; the directory of its state if the options name none.
        path: The submitter's ``PATH``.
        extra_paths: Directories before it.
    """
    request = PopenRequest(
        app_id=app_id,
        log_dir=str(log_dir),
        role_params={},
        role_log_dirs={},
        inherit=options.copy_env,
        detach=options.detach,
        grace_period=options.grace_period,
        timeout=options.timeout,
        merge_streams=options.merge_streams,
        on_failure=options.on_failure,
        max_log_bytes=options.max_log_bytes,
        own_tree=bool(options.log_dir),
    )
    for role in app.roles:
        image = fetched[role.name]
        first, last = (image.cwd, "") if options.prepend_cwd else ("", image.cwd)
        around = _join(first, *extra_paths), _join(path, last)
        logs = log_dir / _directory(role.name)
        request.role_log_dirs[role.name] = [str(logs / str(k)) for k in range(role.num_replicas)]
        request.role_params[role.name] = [
            _replica(image, role, k, log_dir, app_id, options, around) for k in range(role.num_replicas)
        ]
    return request


def check_options(options: LocalOpts) -> None:
    """Raise RunOptionError for a value out of bounds."""
    check_seconds("grace_period", options.grace_period, least=0)
    check_seconds("timeout", options.timeout)
    if options.max_log_bytes <= 0:
        raise RunOptionError(f"max_log_bytes must be at least 1, got {options.max_log_bytes}", key="max_log_bytes")


def _replica(
    image: Fetched,
    role: Role,
    k: int,
    log_dir: Path,
    app_id: str,
    options: LocalOpts,
    around: tuple[str, str],
) -> ReplicaParam:
    directory = log_dir / _replica_directory(role.name, k)
    values = macros.Values(img_root=image.root, app_id=app_id, replica_id=str(k), rank0_env=RANK0)
    applied = values.apply(role)
    first, last = around  # they come from the submitter, and contain no macros
    path = reveal(applied.env.get("PATH") or (options.env or {}).get("PATH", ""))
    applied.env["PATH"] = path if _is_around(path, first, last) else _join(first, path, last)
    wanted = ["combined"] if options.merge_streams else ["stdout", "stderr"]
    if options.log_dir and not options.merge_streams:
        wanted.append("combined")
    files = {stream: str(directory / f"{stream}.log") for stream in wanted}
    param = image.replica(applied, **files)
    param.env = {
        "PYTHONUNBUFFERED": "x",
        ELASTIC_LOGS: str(log_dir / "torchelastic" / _directory(role.name)),
        **(options.env or {}),
        ERROR_FILE: str(directory / "error.json"),
        **param.env,
        RANK0: "localhost",
        RESULT_FILE: str(directory / RESULT),
    }
    return param


def _join(*paths: str) -> str:
    return os.pathsep.join(path for path in paths if path)


def _is_around(path: str, first: str, last: str) -> bool:
    """Return whether a ``PATH`` has the directories around it that a submit adds."""
    sep = os.pathsep
    return (not first or f"{path}{sep}".startswith(f"{first}{sep}")) and f"{sep}{path}".endswith(f"{sep}{last}")


def split_devices(request: PopenRequest, roles: Sequence[Role], devices: int) -> bool:
    """Assign GPUs to each replica of a role that asks for them; return whether there were enough."""
    if sum(role.num_replicas * max(0, role.resource.gpu) for role in roles) > devices:
        return False
    first = 0
    for role in roles:
        for param in request.role_params[role.name] if role.resource.gpu > 0 else ():
            param.env[DEVICES] = ",".join(map(str, range(first, first + role.resource.gpu)))
            first += role.resource.gpu
    return True


def to_wire(
    request: PopenRequest,
    app: AppDef | None,
    *,
    session: str,
    digest: str,
    environ: Mapping[str, str],
    cwd: str,
    workspace: str = "",
) -> dict[str, Any]:
    """Make the message that starts an app; it contains secrets, and is not stored.

    Args:
        request: The request.
        app: The app it was made from, for later descriptions.
        session: The session's name.
        digest: The dry-run's digest.
        environ: The submitter's environment.
        cwd: The submitter's working directory.
        workspace: The name of the copy of its workspace until the app has a directory; empty without one.
    """
    replicas = [
        _wire_replica(request, role, k, param)
        for role, params in request.role_params.items()
        for k, param in enumerate(params)
    ]
    if not replicas:
        raise InvalidRequestError(f"the request for {request.app_id} has no replicas", backend="local_cwd")
    return {
        "app_id": request.app_id,
        "dir": request.app_id,
        "session": session,
        "name": app.name if app is not None else "",
        "digest": digest,
        "detach": request.detach,
        "grace_period": request.grace_period,
        "timeout": request.timeout,
        "merge_streams": request.merge_streams,
        "on_failure": request.on_failure,
        "max_log_bytes": request.max_log_bytes,
        "env": _inherited(request.inherit, environ),
        "spec": app_note(app or _app_of(request, cwd, environ.get("PATH", ""))),
        "log_dir": request.log_dir,
        "replicas": replicas,
        **({"workspace": workspace} if workspace else {}),
    }


def _app_of(request: PopenRequest, cwd: str, path: str) -> AppDef:
    """Return an app whose request would equal one that was made by hand."""
    roles, keeper = request.role_params.items(), Keeper(request)
    told = [_role_of(request, cwd, path, name, params, keeper) for name, params in roles if params]
    return ToldApp(AppDef("", told), keeper)


def _role_of(
    request: PopenRequest, cwd: str, path: str, name: str, params: Sequence[ReplicaParam], keeper: Keeper
) -> Role:
    first, *others = [_without_ours(request, name, k, param) for k, param in enumerate(params)]
    role = role_of_command(name, "", *first, len(params))
    elsewhere = [each for each in dict.fromkeys(param.cwd or "/" for param in params) if each != cwd]
    shown = [MASK if why else each for each, why in zip(elsewhere, keeper.words(elsewhere), strict=True)]
    lost = [f"its replicas start in {each}" for each in shown]
    if request.inherit is not None:
        lost.append("they inherit only some of the submitter's variables (option copy_env)")
    if options := [name for name in given_options(request) if name not in ("inherit", "own_tree")]:
        lost.append(f"its run options {' and '.join(options)}")
    lost += [f"their {each} is not what a submit would set" for each in _ALWAYS_SET & first[1].keys()]
    if not _is_around(reveal(first[1].get("PATH", "")), "", _join(path, cwd)):
        lost.append("their PATH does not end with that of the submitter and the working directory")
    if any(first != other for other in others):
        role.args, role.env = [], {}
        lost.insert(0, "its replicas are not alike")
    if lost:
        why = f"its request was made by hand: {', and '.join(lost)}, which no role holds"
        role.env = {NOT_KEPT: NotKept(why), **role.env}
    return role


def _without_ours(
    request: PopenRequest, role: str, k: int, param: ReplicaParam
) -> tuple[Sequence[str], dict[str, str]]:
    """Return a replica's command, and its environment without what a dry-run adds for this app."""
    log_dir = Path(request.log_dir)
    directory = log_dir / _replica_directory(role, k)
    ours = {
        "PYTHONUNBUFFERED": "x",
        RANK0: "localhost",
        RESULT_FILE: str(directory / RESULT),
        ELASTIC_LOGS: str(log_dir / "torchelastic" / _directory(role)),
        ERROR_FILE: str(directory / "error.json"),
    }
    return param.args, {name: value for name, value in param.env.items() if value != ours.get(name)}


def _inherited(patterns: Sequence[str] | None, environ: Mapping[str, str]) -> dict[str, str]:
    if patterns is None:
        return dict(environ)
    return {name: value for name, value in environ.items() if any(fnmatchcase(name, glob) for glob in patterns)}


def _wire_replica(request: PopenRequest, role: str, k: int, param: ReplicaParam) -> dict[str, Any]:
    logs = _log_directory(request, role, k) if request.own_tree else ""
    # The request may have been edited, but results are always read from beside the log.
    result = {RESULT_FILE: str(Path(logs, RESULT))} if logs else {}
    return {
        "role": role,
        "k": k,
        "dir": _replica_directory(role, k),
        "logs": logs,
        "argv": [reveal(word) for word in param.args],
        "env": {**revealed_env(param.env), **result},
        "cwd": param.cwd or "/",
        "error_file": str(Path(param.cwd or "/", reveal(param.env.get(ERROR_FILE, "")))),
    }


def _log_directory(request: PopenRequest, role: str, k: int) -> str:
    try:
        return request.role_log_dirs[role][k]
    except (KeyError, IndexError) as error:
        raise InvalidRequestError(
            f"the request for {request.app_id} has no log directory for {role}/{k}",
            fix="add one to role_log_dirs",
            backend="local_cwd",
        ) from error


# Names on the disk


def log_tree(root: Path, session: str) -> Path:
    """Return the directory of a session's logs below the one that the user named."""
    return root / _directory(session) if session else root


def _directory(name: str) -> str:
    """Return a directory name for a role or a session with any name."""
    safe = quote(name, safe=" +=@,:", errors="surrogatepass")
    if safe.startswith(".") or safe in (STATE, WORKSPACE):  # these are beside the roles' directories
        safe = f"%{ord(safe[0]):02X}{safe[1:]}"
    if len(safe) > LONGEST_NAME:
        from hashlib import sha256

        safe = f"{safe[:LONGEST_NAME]}-{sha256(name.encode(errors='surrogatepass')).hexdigest()[:16]}"
    return safe


def _replica_directory(role: str, k: int) -> str:
    """Return the directory of a replica's log, relative to its app's directory."""
    return f"{_directory(role)}/{k}"
