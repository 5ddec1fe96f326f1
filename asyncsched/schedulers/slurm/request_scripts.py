"""The shell scripts of a job: the batch script, what runs each task, and what each task is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from shlex import quote

from asyncsched.errors import InvalidRequestError
from asyncsched.schedulers.slurm import names

__all__ = ["RANK0", "RUN_SCRIPT", "batch_script", "quoted", "task_script"]

RANK0 = "TORCHX_RANK0_HOST"

_SHELLS_OWN = frozenset({"UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "BASH_ENV", "IFS"})
"""Variables that the shell does not let a script set, or obeys."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

_BATCH = """\
#!/bin/bash
umask 077
cd {directory} || exit 1
printf '%s\\n' "$SLURM_JOB_ID" >job.$SLURM_JOB_ID && mv -f job.$SLURM_JOB_ID {job}
trap 'exit 143' TERM
first=$(scontrol show hostnames "${{SLURM_JOB_NODELIST_HET_GROUP_0:-$SLURM_JOB_NODELIST}}" | head -n 1)
address=$(scontrol show node --oneliner "$first" | sed -n 's/.* NodeAddr=\\([^ ]*\\).*/\\1/p')
export {rank0}="${{address:-$first}}"
{before}attempt=0
while :; do
  again=$((attempt < {retries}))
  srun --kill-on-bad-exit=$again --wait=0 --output=none --error=none {steps}
  code=$?
  [ $code -ne 0 ] && [ $again -eq 1 ] || exit $code
  attempt=$((attempt + 1))
done
"""

RUN_SCRIPT = """\
#!/bin/bash
umask 077
. "./task.$SLURM_PROCID" || exit 1
tell() { printf '%s\\n' "$* ${EPOCHREALTIME:-$(date +%s.%N)}" >>"events/$task_stem.ev"; }
stamped() {
  trap '' TERM INT
  local LC_ALL=C line
  while IFS= read -r line || [ -n "$line" ]; do printf '%s %s\\n' "$EPOCHREALTIME" "$line"; done
}
task_attempt=0
if [ -e "events/$task_stem.ev" ]; then
  while read -r word _; do [ "$word" = start ] && task_attempt=$((task_attempt + 1)); done <"events/$task_stem.ev"
fi
task_left=$task_retries
task_stopped=0
trap 'task_stopped=1' TERM INT
while :; do
  task_log="$PWD/$task_stem.$task_attempt"
  : >>"$task_log.out" && : >>"$task_log.err"
  tell start "$task_attempt" "$SLURMD_NODENAME"
  if [ "$task_stamps" = 1 ]; then
    exec 3> >(stamped >>"$task_log.out"); task_out=$!
    exec 4> >(stamped >>"$task_log.err"); task_err=$!
    (task_run) >&3 2>&4 3>&- 4>&-
    task_code=$?
    exec 3>&- 4>&-
    wait "$task_out" "$task_err"
  else
    (task_run) >>"$task_log.out" 2>>"$task_log.err"
    task_code=$?
  fi
  tell exit "$task_attempt" "$task_code"
  [ "$task_code" -eq 0 ] || [ "$task_stopped" = 1 ] || [ "$task_left" -le 0 ] || {
    task_left=$((task_left - 1))
    task_attempt=$((task_attempt + 1))
    continue
  }
  exit "$task_code"
done
"""
"""Runs the task of a rank; the same for every app. The task's own variables are set in a subshell alone."""


def quoted(text: str) -> str:
    """Return a text as a word of a shell."""
    if "\0" in text:
        raise InvalidRequestError(
            "an argument or a variable holds the character U+0000",
            why="no program can be given it",
            fix="leave it out",
            backend="slurm",
        )
    return quote(text)


def batch_script(
    directory: str, tasks: Sequence[Sequence[str]], *, retries: int, modules: Sequence[str], prolog: str
) -> str:
    """Return the job's script; no text of a role is in it, so that the cluster keeps no secret.

    Args:
        directory: The app's directory.
        tasks: Options of ``srun`` for each component of the job.
        retries: How often all replicas are started again when one has failed.
        modules: Environment modules to load.
        prolog: A line of shell.
    """
    before = "".join(f"module load {quoted(module)}\n" for module in modules) + (f"{prolog}\n" if prolog else "")
    step = f"bash {names.RUN}"
    return _BATCH.format(
        directory=quoted(directory),
        job=names.JOB,
        rank0=RANK0,
        before=before,
        retries=retries,
        steps=" : ".join(" ".join([*map(quoted, options), step]) for options in tasks),
    )


def task_script(argv: Sequence[str], env: Mapping[str, str], *, stem: str, retries: int, stamps: bool, cwd: str) -> str:
    """Return what the task of one rank is; it holds the secrets.

    Args:
        argv: The program and its arguments.
        env: Its variables.
        stem: What the names of its files begin with.
        retries: How often it is started again by itself.
        stamps: Whether each line of its log gets its time.
        cwd: The directory that it starts in.
    """
    plain = {name: value for name, value in env.items() if _PLAIN.fullmatch(name) and name not in _SHELLS_OWN}
    others = [f"{name}={value}" for name, value in env.items() if name not in plain]
    command = [*(["env", *others] if others else []), *argv]
    lines = [
        f"task_stem={quoted(stem)} task_retries={retries} task_stamps={int(stamps)}",
        "task_run() {",
        "trap - TERM INT",
        f"cd -- {quoted(cwd)} || exit 1",
        *(f"export {name}={quoted(value)}" for name, value in plain.items()),
        f"exec -- {' '.join(map(quoted, command))}",
        "}",
    ]
    return "\n".join(lines) + "\n"
