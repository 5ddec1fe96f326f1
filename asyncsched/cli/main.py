"""The entry point: verbs are imported when they are called, and all errors are handled here."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, cast, get_args

import click

import asyncsched
from asyncsched.cli.console import Console, Format
from asyncsched.specs.encodable import half_character

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["main"]

# Each verb is a module of this package with a `command`. Their help is here, so that showing it imports none of them.
VERBS = {
    "run": "Run a component, or any command after --.",
    "status": "Show the status of apps.",
    "describe": "Show the definition of an app.",
    "list": "List submitted apps.",
    "log": "Show the logs of apps.",
    "wait": "Wait until apps have ended.",
    "monitor": "Watch many apps in a live table.",
    "web": "Serve a live page of apps and their logs to a browser.",
    "cancel": "Cancel apps.",
    "delete": "Delete apps that have ended, and their logs.",
    "runopts": "Show the run options of schedulers and their configured values.",
    "configure": "Write a starter configuration file.",
    "builtins": "List components, or show the source of one.",
    "doctor": "Check schedulers, plugins and configuration.",
    "completion": "Print the completion script for a shell.",
}


SYNONYMS = {
    "help": "asyncsched --help",
    "jobs": "list",
    "kill": "cancel",
    "logs": "log",
    "ls": "list",
    "ps": "list",
    "rm": "delete",
    "start": "run",
    "stop": "cancel",
    "submit": "run",
    "tail": "log -f",
    "top": "monitor",
    "watch": "monitor",
}
"""Names of commands in other programs, and what they are called here."""

_UNKNOWN = "asyncsched.cli.main.unknown"
"""The key in a context's meta that marks an unknown command during completion."""

EXAMPLES = """\
Run programs here and on clusters, follow and stop them.

  asyncsched run -- python train.py   run a program
  asyncsched list                     list what was launched
  asyncsched log -f APP               follow an app

asyncsched --help lists all commands."""


class _ReaderLeft(Exception):  # noqa: N818 - nothing is wrong
    """The reader of stdout has gone: ``asyncsched log ... | head -1``."""


@contextmanager
def _as_reader_left() -> Generator[None]:
    """Turn the error of a closed pipe into ours: click would exit with 1, which means that an app failed."""
    try:
        yield
    except BrokenPipeError:
        raise _ReaderLeft from None


class _Verbs(click.Group):
    """The verbs, including those of installed packages."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the options; ``--help`` and ``--version`` print here."""
        with _as_reader_left():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb."""
        with _as_reader_left():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        from asyncsched.cli.plugins import plugin_names

        return [*VERBS, *(name for name in plugin_names() if name not in VERBS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in VERBS:
            return cast("click.Command", import_module(f"asyncsched.cli.{cmd_name}").command)
        from asyncsched.cli.plugins import load_plugin

        return load_plugin(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None and ctx.resilient_parsing:
            ctx.meta[_UNKNOWN] = True
        elif command is None:
            import difflib

            near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            meant = SYNONYMS.get(name) or (near[0] if near else "")
            hint = f"did you mean {meant}?" if meant else "asyncsched --help lists the commands"
            raise click.UsageError(f"no command {name}; {hint}", ctx)
        return name, command, args[1:]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete the names of verbs without importing them."""
        if ctx.meta.get(_UNKNOWN):
            return []
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [CompletionItem(name, help=VERBS.get(name, "from a plugin")) for name in names]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, VERBS.get(name, "from a plugin")) for name in self.list_commands(ctx)])


@click.group(cls=_Verbs, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(asyncsched.__version__, prog_name="asyncsched")
@click.option("--debug", is_flag=True, help="Show tracebacks and the library's log messages.")
@click.option("--no-color", is_flag=True, help="Print without colours, as with NO_COLOR set.")
@click.option("-o", "--output", type=click.Choice(get_args(Format)), help="Output format.  [default: table]")
@click.pass_context
def app(ctx: click.Context, debug: bool, no_color: bool, output: Format | None) -> int:
    """Launch, watch, read and stop apps on any scheduler.

    APP is a handle (scheduler://session/app_id), an app's id, its name, the start of an id if only one app has it, a
    pattern such as 'train-*', or @last, the app that was last launched from here.
    """
    console = ctx.ensure_object(Console)
    console.debug = console.debug or debug
    console.plain = console.plain or no_color
    console.format = output or console.format
    if ctx.invoked_subcommand is None:
        console.say(EXAMPLES)
        return 2
    return 0


def main(args: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with its exit code."""
    _prepare_streams()
    console = Console()
    if "_ASYNCSCHED_COMPLETE" in os.environ:
        from asyncsched.cli.completion_shells import complete

        sys.exit(complete(app, console))
    code = _run(console, [_as_typed(arg) for arg in sys.argv[1:]] if args is None else args)
    gc.freeze()  # a collection at exit would take as long as a small job
    try:
        sys.stdout.flush()
    except OSError as error:  # the reader has gone, or the disk is full
        console.forget_stdout()
        if not isinstance(error, BrokenPipeError):
            code = code or _fail(console, error)
    sys.exit(code)


def _as_typed(arg: str) -> str:
    """Decode an argument as UTF-8 if the locale, such as C, could not decode it."""
    if arg.isascii() or not half_character(arg):
        return arg
    try:
        return os.fsencode(arg).decode()
    except UnicodeError:
        return arg


def _prepare_streams() -> None:
    """Prepare the standard streams for any text.

    Streams that the caller closed (``>&-``) are opened on the null device: Python sets them to None, and other files
    would get their descriptors. Characters that an encoding lacks are written with backslashes, in any locale.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - it is open as long as we run
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run(console: Console, args: list[str]) -> int:
    try:
        return int(app.main(args, "asyncsched", standalone_mode=False, obj=console) or 0)
    except _ReaderLeft:
        console.forget_stdout()
        return 0
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BaseException as error:
        if isinstance(error, SystemExit):
            raise
        return _fail(console, error)


def _fail(console: Console, error: BaseException) -> int:
    from asyncsched.cli.errors import exit_code, show_error

    show_error(console, error)
    return exit_code(error)
