"""The shell scripts of a job: the batch script, the script that runs each task, and the definition of each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote

from asyncsched.errors import InvalidRequestError
from asyncsched.schedulers._common.replica_command import by_env, is_left_alone
from asyncsched.schedulers.slurm import names

__all__ = ["RANK0", "RUN_SCRIPT", "batch_script", "quoted", "task_script"]

RANK0 = "TORCHX_RANK0_HOST"

_THE_SCRIPT = "the script of the job"

_BATCH = """\
#!/bin/bash -p
umask 077
asyncsched_enter() {{ cd {directory} && [ -O . ] || {{ echo "{not_ours}" >&2; exit 1; }}; }}
asyncsched_enter
[ "$(<{lock})" = "$1" ] || exit 1
trap 'exit 143' TERM
asyncsched_restarts=${{SLURM_RESTART_COUNT-0}}
if [ "$2" != ready ]; then
  [ "$asyncsched_restarts" = 0 ] || {{
    asyncsched_ends=$(tail -qn 1 {events}/*.ev | cut -d ' ' -f 1,3,4 | sort | uniq -c)
    [[ ! $asyncsched_ends =~ ^\\ *{count}\\ end\\ 0\\ [0-9.]+$ ]] || exit 0
  }}
  printf '%s;%s\\n' "$SLURM_JOB_ID" "$asyncsched_restarts" >job.$SLURM_JOB_ID && mv -f job.$SLURM_JOB_ID {job}
  asyncsched_nodes=${{SLURM_JOB_NODELIST_HET_GROUP_0:-$SLURM_JOB_NODELIST}}
  [[ $asyncsched_nodes = *[[,]* ]] && asyncsched_nodes=$(scontrol show hostnames "$asyncsched_nodes")
  asyncsched_first=${{asyncsched_nodes%%$'\\n'*}}
  [[ $(scontrol show node --oneliner "$asyncsched_first") =~ \\ NodeAddr=([^\\ ]+) ]]
  export PATH {rank0}="${{BASH_REMATCH[1]:-$asyncsched_first}}"
  {before}
fi
: >{file}
asyncsched_round=0
while :; do
  asyncsched_again=$((asyncsched_round < {retries}))
  : >{failed}
  srun --export=ALL --kill-on-bad-exit=$asyncsched_again --wait=0 --output=none --error=none {steps}
  asyncsched_code=$?
  [ $asyncsched_code -eq 0 ] || [ $asyncsched_again -eq 0 ] || {{
    asyncsched_round=$((asyncsched_round + 1))
    continue
  }}
  [ $asyncsched_code -ne 0 ] || [ ! -s {failed} ] || asyncsched_code=$(<{failed})
  exit $asyncsched_code
done
"""

_BEFORE = """\
builtin echo {begun} >|{file}
{line}
asyncsched_code=$?
[ $asyncsched_code -eq 0 ] || {{
  builtin echo {ended}" $asyncsched_code" >|{file}
  exit $asyncsched_code
}}
"""
"""Runs in a separate shell, with the submitter's functions and ``BASH_ENV``: ``module`` is often a function."""

RUN_SCRIPT = """\
umask 077
task_code_of_step=
. "./task.$SLURM_PROCID" || exit 1
tell() { printf '%s\\n' "$* ${EPOCHREALTIME:-$(date +%s.%N)}" >>"events/$task_stem.ev"; }
stamped() {
  trap '' TERM INT
  unset TMOUT
  LC_ALL=C
  local line
  while IFS= read -r line || [ -n "$line" ]; do
    if [[ $line = *"$task_end" ]]; then
      line=${line%"$task_end"}
      [ -z "$line" ] || printf '%s %s\\n' "$EPOCHREALTIME" "$line"
      stamped <&0 &
      return
    fi
    printf '%s %s\\n' "$EPOCHREALTIME" "$line"
  done
}
task_end="the end $RANDOM$RANDOM$RANDOM$RANDOM"
task_attempt=0
task_left=$task_retries
if [ -e "events/$task_stem.ev" ]; then
  while read -r task_word _; do
    case $task_word in
      start) task_attempt=$((task_attempt + 1)) ;;
      exit) task_left=$((task_left - 1)) ;;
    esac
  done <"events/$task_stem.ev"
fi
task_given=()
for task_word in SHELLOPTS BASHOPTS; do
  task_kept=ASYNCSCHED_$task_word
  [ -z "${!task_kept+x}" ] || task_given+=("$task_word=${!task_kept}")
  unset "$task_kept"
done
[ ${#task_given[@]} -eq 0 ] || task_given=(/usr/bin/env "${task_given[@]}" /usr/bin/nice -n 0)
task_stopped=0
trap 'task_stopped=1' TERM INT
while :; do
  task_log="$PWD/$task_stem.$task_attempt"
  : >>"$task_log.out" && : >>"$task_log.err"
  tell start "$task_attempt" "$SLURMD_NODENAME"
  [ -d "$task_cwd" ] && [ -x "$task_cwd" ] || tell nowhere "$task_attempt"
  if [ "$task_stamps" = 1 ]; then
    exec 3> >(exec >>"$task_log.out" 2>&1; stamped); task_out=$!
    exec 4> >(exec >>"$task_log.err" 2>&1 3>&-; stamped); task_err=$!
    (task_run) >&3 2>&4 3>&- 4>&-
    task_code=$?
    (trap '' TERM INT; printf '%s\\n' "$task_end" >&3; printf '%s\\n' "$task_end" >&4)
    exec 3>&- 4>&-
    wait "$task_out" "$task_err"
  else
    (task_run) >>"$task_log.out" 2>>"$task_log.err"
    task_code=$?
  fi
  [ "$task_code" -eq 0 ] || [ "$task_stopped" = 1 ] || [ "$task_left" -le 0 ] || {
    tell exit "$task_attempt" "$task_code"
    task_left=$((task_left - 1))
    task_attempt=$((task_attempt + 1))
    continue
  }
  task_round=$1.$2
  if [ "$task_stopped" = 1 ]; then
    task_round+=-
  elif [ "$task_code" -ne 0 ] && [ "$2" -lt "$task_rounds" ]; then
    task_round+=+
  elif [ "$task_code" -ne 0 ] && [ "$3" = 1 ]; then
    echo "$task_code" >failed  # others may have all of them started again, and it may not
    task_code_of_step=0
  fi
  tell end "$task_attempt" "$task_code" "$task_round"
  exit "${task_code_of_step:-$task_code}"
done
"""
"""Runs the task of a rank; the same for every app. The task's own variables are set only in a subshell.

If lines get their time, a task's output is in its log before its end is recorded. A child that the task has left behind
may hold its output open for ever: a mark that the task cannot know shows where the task's own output ends, and the
child's output is read on by a process that holds nothing of the step, because otherwise the job would last as long.

Its arguments are which start of the job by the cluster this is, which round of all replicas, and whether another may
follow. After an end it writes + if all replicas are to be restarted for it, or - if it was asked to end.
"""


def quoted(text: str) -> str:
    """Return a text as one word of a shell command."""
    if "\0" in text:
        raise InvalidRequestError(
            "an argument or a variable contains the character U+0000",
            why="it cannot be passed to a program",
            fix="remove it",
            backend="slurm",
        )
    return quote(text)


def batch_script(
    directory: str, tasks: Sequence[Sequence[str]], *, count: int, retries: int, modules: Sequence[str], prolog: str
) -> str:
    """Return the job's script; it contains no text of a role, so that the cluster stores no secret.

    Args:
        directory: The app's directory.
        tasks: Options of ``srun`` for each component of the job.
        count: The number of tasks: a job that the cluster restarts after all have succeeded ends.
        retries: How often all replicas are restarted when one has failed.
        modules: Environment modules to load.
        prolog: A line of shell.
    """
    lines = {each: each for each in (f"module load {quoted(module)}" for module in modules)}
    if prolog:
        lines["the prolog"] = f"eval {quoted(prolog)}"  # so that an unclosed quote or block ends with it
    file = f"{quoted(directory)}/{names.BEFORE}"
    before = "".join(
        _BEFORE.format(
            line=line, begun=quoted(f"{what} has ended {_THE_SCRIPT}"), ended=quoted(f"{what} ended with"), file=file
        )
        for what, line in lines.items()
    )
    if lines:
        before = f'trap \'exit 143\' TERM\nasyncsched_begun=("$0" "$1")\n{before}'
        before += 'builtin exec /bin/bash -p "${asyncsched_begun[@]}" ready\n'
    step = f"bash -pc {quoted(f'[ -O . ] && . ./{names.RUN}')} run"
    step += " $asyncsched_restarts $asyncsched_round $asyncsched_again"
    return _BATCH.format(
        directory=quoted(directory),
        not_ours=names.NOT_OURS,
        lock=names.LOCK,
        events=names.EVENTS,
        count=count,
        failed=names.FAILED,
        job=names.JOB,
        rank0=RANK0,
        before=f'exec /bin/bash -c {quoted(before)} "$0" "$1"' if before else ":",
        file=names.BEFORE,
        retries=retries,
        steps=" : ".join(" ".join([*map(quoted, options), step]) for options in tasks),
    )


def task_script(
    argv: Sequence[str], env: Mapping[str, str], *, stem: str, retries: int, rounds: int, stamps: bool, cwd: str
) -> str:
    """Return the definition of one rank's task; it contains the secrets.

    Args:
        argv: The program and its arguments.
        env: Its variables.
        stem: The prefix of its file names.
        retries: How often it alone is restarted.
        rounds: How often all replicas are restarted for it.
        stamps: Whether each line of its log gets its time.
        cwd: The directory that it starts in.
    """
    plain = {name: value for name, value in env.items() if is_left_alone(name)}
    # Not all of them: every user of the node can read a command line, if only for a moment.
    others = [f"{name}={value}" for name, value in env.items() if name not in plain]
    command = [*by_env(others, argv[0]), *argv]
    lines = [
        f"task_stem={quoted(stem)} task_retries={retries} task_rounds={rounds} task_stamps={int(stamps)}",
        f"task_cwd={quoted(cwd)}",
        "task_run() {",
        "trap - TERM INT",
        'cd -- "$task_cwd" || exit 1',
        *(f"export {name}={quoted(value)}" for name, value in plain.items()),
        f'exec -- "${{task_given[@]}}" {" ".join(map(quoted, command))}',
        "}",
    ]
    return "\n".join(lines) + "\n"
