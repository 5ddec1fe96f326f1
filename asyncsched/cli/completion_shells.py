"""Bash, zsh and fish: the scripts that ask for completions, and what they are told.

A script hands over the line up to the cursor (``COMP_TEXT``) and gets a line for each completion: its kind, its value,
and what to say of it, with tabs between them. Kinds are ``plain``, ``part`` (no space follows) and ``file``, ``dir``
(the shell completes by itself).
"""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from typing import ClassVar

import click
from click.shell_completion import CompletionItem, ShellComplete

from asyncsched._typing import override

__all__ = ["complete", "line_of", "script_for"]

VARIABLE = "_ASYNCSCHED_COMPLETE"
"""Where a shell says that it asks for completions, and which shell it is: ``bash_complete``."""

_BASH = """\
%(complete_func)s() {
    local kind value told line width=0 own=0
    local -a values=() tolds=()
    while IFS=$'\\t' read -r kind value told; do
        case $kind in
            dir) compopt -o dirnames 2> /dev/null; own=1 ;;
            file) compopt -o default 2> /dev/null; own=1 ;;
            part) compopt -o nospace 2> /dev/null; values+=("$value"); tolds+=("$told") ;;
            plain) values+=("$value"); tolds+=("$told") ;;
        esac
        (( ${#value} > width )) && width=${#value}
    done < <(COMP_TEXT="${COMP_LINE:0:$COMP_POINT}" COMP_CUT="$2" %(complete_var)s=bash_complete "$1" 2> /dev/null)
    COMPREPLY=("${values[@]}")
    # What is said of each is shown where several are listed, and never inserted: the types 37 and 42 insert.
    (( ${#values[@]} < 2 || COMP_TYPE == 37 || COMP_TYPE == 42 )) && return 0
    for line in "${!values[@]}"; do
        told=${tolds[line]:0:$(( ${COLUMNS:-80} > width + 14 ? ${COLUMNS:-80} - width - 4 : 10 ))}
        [[ -n $told ]] && printf -v "COMPREPLY[line]" '%%-*s  (%%s)' "$width" "${values[line]}" "$told"
    done
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s 2> /dev/null || complete -F %(complete_func)s %(prog_name)s
"""

_ZSH = """\
#compdef %(prog_name)s
%(complete_func)s() {
    local line kind value told
    local -a fields plain parts
    for line in "${(@f)$(COMP_TEXT="${(j: :)words[1,CURRENT-1]} $PREFIX" %(complete_var)s=zsh_complete \\
            ${words[1]} 2> /dev/null)}"; do
        fields=("${(@ps:\\t:)line}")
        kind=$fields[1] value=$fields[2] told=$fields[3]
        case $kind in
            dir) _path_files -/ ;;
            file) _files ;;
            part) parts+=("${value//:/\\\\:}${told:+:$told}") ;;
            plain) plain+=("${value//:/\\\\:}${told:+:$told}") ;;
        esac
    done
    (( $#parts )) && _describe -V 'asyncsched' parts -U -S ''
    (( $#plain )) && _describe -V 'asyncsched' plain -U
    return 0
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""

_FISH = """\
function %(complete_func)s
    set -l words (commandline -cop | string escape)
    set -l word (commandline -ct)
    for line in (env COMP_TEXT="$words $word" %(complete_var)s=fish_complete $words[1] 2> /dev/null)
        set -l fields (string split \\t -- $line)
        switch $fields[1]
            case dir
                __fish_complete_directories $word
            case file
                __fish_complete_path $word
            case plain part
                test -n "$fields[3]"; and printf '%%s\\t%%s\\n' $fields[2] $fields[3]; or echo $fields[2]
        end
    end
end
complete --command %(prog_name)s --no-files --keep-order --arguments '(%(complete_func)s)'
"""


def line_of(item: CompletionItem[str]) -> str:
    """Return what a script is told of one completion."""
    told = " ".join((item.help or "").split())
    return f"{item.type}\t{item.value}\t{''.join(char for char in told if char.isprintable())}"


class _Complete(ShellComplete):
    @override
    def get_completion_args(self) -> tuple[list[str], str]:
        text = os.environ["COMP_TEXT"]
        words = _split(text)
        is_new = not text or text[-1].isspace()
        return (words[1:], "") if is_new or not words else (words[1:-1], words[-1])

    @override
    def format_completion(self, item: CompletionItem[str]) -> str:
        return line_of(item)


class _Bash(_Complete):
    name: ClassVar[str] = "bash"
    source_template: ClassVar[str] = _BASH

    @override
    def format_completion(self, item: CompletionItem[str]) -> str:
        """Leave out what bash does not replace: it takes words apart at ``:`` and ``=``, and replaces the last part."""
        _, whole = self.get_completion_args()
        cut = os.environ.get("COMP_CUT", whole)
        if item.type in ("plain", "part") and whole != cut and whole.endswith(cut) and item.value.startswith(whole):
            item = CompletionItem(item.value[len(whole) - len(cut) :], type=item.type, help=item.help)
        return super().format_completion(item)


class _Zsh(_Complete):
    name: ClassVar[str] = "zsh"
    source_template: ClassVar[str] = _ZSH


class _Fish(_Complete):
    name: ClassVar[str] = "fish"
    source_template: ClassVar[str] = _FISH


_SHELLS: dict[str, type[ShellComplete]] = {each.name: each for each in (_Bash, _Zsh, _Fish)}


def script_for(shell: str, app: click.Command) -> str:
    """Return the script that asks for completions in a shell: bash, zsh or fish."""
    return _SHELLS[shell](app, {}, "asyncsched", VARIABLE).source()


def complete(app: click.Command, console: object) -> int:
    """Tell a shell the completions for the line that it has handed over; what is wrong is not told here."""
    sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - it is open as long as we run
    shell = _SHELLS.get(os.environ[VARIABLE].partition("_")[0])
    if shell is None:
        return 1
    with suppress(Exception):
        print(shell(app, {"obj": console}, "asyncsched", VARIABLE).complete())
    return 0


def _split(text: str) -> list[str]:
    """Return the words of a line that may end in the middle of one."""
    for end in ("", "'", '"', "\\"):
        try:
            return shlex.split(text + end)
        except ValueError:
            continue
    return text.split()
