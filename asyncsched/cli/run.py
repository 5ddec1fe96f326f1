"""``asyncsched run``: launch a component or a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import Verb, Whole, completer, configured, verb
from asyncsched.schedulers.registry import begin_ahead, get_default_scheduler_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem

    from asyncsched.cli.run_launch import Launch
    from asyncsched.components import Component
    from asyncsched.schedulers.registry import Ahead
    from asyncsched.specs.app import AppDef

__all__ = ["command"]

SHAPE = ("replicas", "image", "name", "cpu", "memmb", "gpu", "env")
"""The options for a command after ``--``; components have their own arguments instead."""

_FLAGS = {"memmb": "--memMB"}

HELP = frozenset({"-h", "--help"})


_BEFORE = "asyncsched.cli.run.before"
"""The key in a context's meta for the words before the component's name."""


class _Run(Verb):
    """Distinguishes ``run COMPONENT ...`` from ``run -- COMMAND ...``, because the parser drops the dashes."""

    def asks_for_help(self, args: list[str]) -> bool:
        """Check the first word only: after a component's name, -h and --help belong to the component."""
        return args[:1] in (["-h"], ["--help"])

    def taken_from_configuration(self, ctx: click.Context) -> set[str]:
        """Leave out the component if the command line names one."""
        return configured(ctx) - ({"component"} if ctx.params["words"] else set())

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters; for completion, options after a component's name are not this verb's."""
        params = super().get_params(ctx)
        if ctx.resilient_parsing and (ctx.params.get("words") or ctx.params.get("is_command")):
            return [param for param in params if isinstance(param, click.Argument)]
        return params

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete the options of the component if one is named, else those of this verb."""
        if ctx.params.get("words"):
            from asyncsched.cli.completion_values import run_words

            return run_words(ctx, incomplete)
        return super().shell_complete(ctx, incomplete)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as usual, then record the words before the component or command."""
        before = list(args)
        left = super().parse_args(ctx, args)
        words: tuple[str, ...] = ctx.params["words"] or ()  # None during completion
        position = len(before) - len(words)
        ctx.params["is_command"] = position > 0 and before[position - 1] == "--"
        ctx.meta[_BEFORE] = before[:position]
        return left


@verb("run", cls=_Run, ignore_unknown_options=False, allow_interspersed_args=False)
@click.option(
    "-s",
    "--scheduler",
    metavar="SCHEDULER",
    shell_complete=completer("schedulers"),
    help=f"The scheduler to run on.  [default: {get_default_scheduler_name()}]",
)
@click.option(
    "-cfg",
    "--scheduler_args",
    "cfg",
    multiple=True,
    metavar="K=V,...",
    shell_complete=completer("run_options"),
    help="Run options of the scheduler.",
)
@click.option("--workspace", metavar="PATH|URL", help="A directory or URL with files for the app to run with.")
@click.option("--dryrun", is_flag=True, help="Print the request without sending it.")
@click.option("--show-secrets", is_flag=True, help="With --dryrun: print secrets in clear text.")
@click.option("--detach", is_flag=True, help="Return at once; the app keeps running.")
@click.option("--wait", is_flag=True, help="Wait until the app has ended; always on for apps on this machine.")
@click.option(
    "--log", is_flag=True, help="Show its log and wait until it has ended; always on for apps on this machine."
)
@click.option(
    "--pass-exit-code", is_flag=True, help="Wait, and exit with the exit code of the first replica that failed."
)
@click.option("--no-prefix", is_flag=True, help="Omit replica names; keeps one replica's progress bars intact.")
@click.option("--raw", is_flag=True, help="Print output unchanged, including terminal control sequences.")
@click.option("--key", metavar="KEY", help="Launch only once: the same key finds the same app again.")
@click.option(
    "--matrix", multiple=True, metavar="NAME=A,B,...", help="Run a job for each value, or combination of values."
)
@click.option("--limit", type=Whole(min=1), metavar="N", help="With --matrix: how many jobs run at a time.")
@click.option("--group", metavar="KEY", help="With --matrix: name the group; the same key continues it.")
@click.option("-y", "--yes", is_flag=True, help="With --matrix: do not ask for confirmation.")
@click.option("--component", metavar="COMPONENT", hidden=True, help="The component to run if none is named.")
@click.option("--replicas", type=Whole(min=1), metavar="N", help="With --: how many replicas.")
@click.option("--image", help="With --: the image to run in.")
@click.option("--name", help="With --: the app's name.  [default: the command's]")
@click.option("--cpu", type=Whole(min=1), metavar="N", help="With --: processors for each replica.")
@click.option("--memMB", "memmb", type=Whole(min=1), metavar="N", help="With --: memory for each replica, in MB.")
@click.option("--gpu", type=Whole(min=0), metavar="N", help="With --: GPUs for each replica.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="With --: an environment variable; may be repeated.")
@click.argument(
    "words",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=completer("words"),
    metavar="COMPONENT [ARGS]... | -- COMMAND [ARGS]...",
)
def command(console: Console, words: tuple[str, ...], is_command: bool, **options: Any) -> int:
    """Launch COMPONENT with its arguments, or any COMMAND after two dashes.

    A component is utils.echo, module.function, path/file.py:function, or a name that a package has registered;
    asyncsched builtins lists them, asyncsched run COMPONENT --help explains one. Prints the app's handle. Apps on this
    machine are followed to their end: Ctrl-C ends them, a second Ctrl-C at once. Other apps keep running.
    """
    shape = {name: options[name] for name in SHAPE if options[name] not in (None, ())}
    # Configured values apply only to the runs that they fit.
    misplaced = shape.keys() - configured(click.get_current_context())
    if misplaced and not is_command:
        from asyncsched.cli.hints import wrong_shape

        flags = [_FLAGS.get(name, f"--{name}") for name in shape if name in misplaced]
        raise wrong_shape(flags, words, click.get_current_context().meta[_BEFORE])
    name, *args = words or [options["component"] or ""]
    if not name:
        raise click.UsageError("nothing to run; name a component, or write a command after --")
    if options["pass_exit_code"] and (wrong := [each for each in ("dryrun", "detach") if options[each]]):
        raise click.UsageError(f"--pass-exit-code waits for the end; leave out --{wrong[0]}")
    _check_matrix(options, is_command=is_command)
    ahead = None if options["matrix"] else _begin_ahead(options, words)
    try:
        launch = _launch(options, ahead)
        if not is_command:
            if options["matrix"]:
                return _run_matrix(console, launch, name, args, options)
            return _run_component(console, launch, name, args)
        from asyncsched.cli.run_command import app_of_command

        return launch.run(console, lambda: app_of_command(words, shape))
    finally:
        if ahead is not None:
            ahead.drop()


def _begin_ahead(options: dict[str, Any], words: tuple[str, ...]) -> Ahead | None:
    """Start the local supervisor before the other imports, so that two interpreters start in parallel."""
    if options["dryrun"] or options["detach"] or not HELP.isdisjoint(words):
        return None
    return begin_ahead(options["scheduler"])


def _launch(options: dict[str, Any], ahead: Ahead | None) -> Launch:
    from asyncsched.cli.run_launch import Launch

    return Launch(
        scheduler=options["scheduler"],
        cfg=options["cfg"],
        workspace=options["workspace"],
        foreign_workspace=_foreign_workspace(),
        key=options["key"],
        dryrun=options["dryrun"],
        show_secrets=options["show_secrets"],
        detach=options["detach"],
        wait=options["wait"],
        log=options["log"],
        prefix=not options["no_prefix"],
        raw=options["raw"],
        pass_exit_code=options["pass_exit_code"],
        ahead=ahead,
    )


def _foreign_workspace() -> str:
    """Return where the workspace is configured, if that is a TorchX file; else ""."""
    if "workspace" not in configured(click.get_current_context()):
        return ""
    from asyncsched.runner.config import load_config

    setting = load_config().command("run")["workspace"]
    return setting.origin if setting.foreign else ""


def _check_matrix(options: dict[str, Any], *, is_command: bool) -> None:
    if not options["matrix"]:
        if options["limit"] or options["group"] or options["yes"]:
            raise click.UsageError("--limit, --group and --yes need --matrix; leave them out, or add --matrix NAME=A,B")
    elif is_command:
        raise click.UsageError(
            "--matrix needs a component, whose arguments it sets; name one instead of a command after --"
        )
    elif wrong := [name for name in ("dryrun", "detach", "key", "log", "pass_exit_code") if options[name]]:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in wrong)
        raise click.UsageError(f"--matrix runs a group of jobs; leave out {flags}")


def _run_matrix(console: Console, launch: Launch, name: str, args: list[str], options: dict[str, Any]) -> int:
    from asyncsched.cli.run_matrix import combinations, run_matrix

    jobs: dict[str, Callable[[], AppDef]] = {}
    for chosen in combinations(options["matrix"]):
        if both := [key for key in chosen if any(arg.partition("=")[0] == f"--{key}" for arg in args)]:
            raise click.UsageError(f"{both[0]} is given by --matrix and as an argument; leave out one of them")
        given = [word for key, value in chosen.items() for word in (f"--{key}", value)]
        label = ",".join(f"{key}={value}" for key, value in chosen.items())
        jobs[label] = _maker(name, [*given, *args])
    return run_matrix(console, launch, jobs, limit=options["limit"], key=options["group"], yes=options["yes"])


def _maker(name: str, args: list[str]) -> Callable[[], AppDef]:
    """Return a function that creates the app of a component with these arguments."""
    from asyncsched.cli.command_config import check_components, component_defaults
    from asyncsched.errors import ComponentError
    from asyncsched.runner.config import load_config

    component = _component(name, args)
    run = click.get_current_context().command

    def make_app() -> AppDef:
        config = load_config()
        check_components(config)
        defaults = component_defaults(config, component)
        try:
            return component.app(args, defaults)
        except ComponentError as error:
            from asyncsched.cli.hints import wrong_argument

            raise wrong_argument(error, name, run) from error.__cause__

    return make_app


def _component(name: str, args: list[str]) -> Component:
    from asyncsched.components import get_component
    from asyncsched.errors import ComponentError

    try:
        return get_component(name)
    except ComponentError as error:
        from asyncsched.cli.hints import no_component

        raise no_component(error, [name, *args], click.get_current_context().meta[_BEFORE]) from error.__cause__


def _run_component(console: Console, launch: Launch, name: str, args: list[str]) -> int:
    from asyncsched.components.arguments import HelpAskedError

    component = _component(name, args)
    make_app = _maker(name, args)
    if HELP.isdisjoint(args):
        return launch.run(console, make_app)
    try:
        app = make_app()
    except HelpAskedError:
        from asyncsched.components.help import component_help

        console.print(component_help(component, console.width or 80))
        return 0
    return launch.run(console, lambda: app)
