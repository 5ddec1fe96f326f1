"""What every verb has: the common options, and defaults from the configuration."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, cast, get_args

import click
from click.core import ParameterSource

from asyncsched.cli.console import Console, Format

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = [
    "Verb",
    "completer",
    "configured",
    "named_or_asked",
    "scheduler_option",
    "verb",
    "with_apps",
    "with_apps_and_parts",
    "with_groups",
]

P = ParamSpec("P")


class Verb(click.Command):
    """A command whose options may be configured in ``[command.NAME]``."""

    is_configurable = True

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the command line over the defaults that are configured; a shell that asks for completions has none."""
        if self.is_configurable and not self.asks_for_help(args) and not extra.get("resilient_parsing"):
            extra["default_map"] = self._defaults((parent and parent.find_object(Console)) or Console())
        return super().make_context(info_name, args, parent, **extra)

    def asks_for_help(self, args: list[str]) -> bool:
        """Tell whether help is all that is wanted, for which no configuration need be right, or be read."""
        own = args[: args.index("--")] if "--" in args else args
        return bool({"-h", "--help"}.intersection(own))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; a wrong name that is configured is told with the place where it is written."""
        try:
            return super().invoke(ctx)
        except ValueError as error:  # as ours for wrong names are
            from asyncsched.cli.command_config import with_origin

            told = with_origin(error, self.name or "", self.taken_from_configuration(ctx))
            if told is error:
                raise
            raise told from error

    def taken_from_configuration(self, ctx: click.Context) -> set[str]:
        """Return the names of the options whose values are configured."""
        return configured(ctx)

    def _defaults(self, console: Console) -> dict[str, object]:
        from asyncsched.cli.command_config import command_defaults

        options = [param for param in self.params if isinstance(param, click.Option)]
        return command_defaults(self.name or "", options, console.say)


def configured(ctx: click.Context) -> set[str]:
    """Return the names of the parameters whose values are configured, and not given."""
    return {name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP}


def verb(name: str, cls: type[Verb] = Verb, **settings: Any) -> Callable[[Callable[P, int]], click.Command]:
    """Make a verb of a function, with the options that every verb has. It is given the console first."""

    def decorate(function: Callable[P, int]) -> click.Command:
        decorated: Callable[..., int] = click.pass_obj(cast("Callable[..., int]", function))
        for option in _COMMON:
            decorated = option(decorated)
        settings["help_option_names"] = ["-h", "--help"]
        command = click.command(name, cls=cls, context_settings=settings)(decorated)
        command.params.sort(key=lambda param: param.name in _COMMON_NAMES)  # a verb's own options come first
        return command

    return decorate


def with_apps(function: Callable[P, int]) -> Callable[P, int]:
    """Give a verb the apps that it is about: `apps`, and the `scheduler` that is asked for them."""
    return _app_options("APP...")(function)


def with_apps_and_parts(function: Callable[P, int]) -> Callable[P, int]:
    """Do the same where roles and replicas may be named, too."""
    return _app_options("APP[/ROLE[/K,K2-K3]]...")(function)


def _app_options(metavar: str) -> Callable[[Callable[P, int]], Callable[P, int]]:
    argument = click.argument("apps", nargs=-1, metavar=metavar, shell_complete=completer("apps"))
    option = scheduler_option("Look only on this scheduler.  [default: all]")

    def decorate(function: Callable[P, int]) -> Callable[P, int]:
        decorated: Callable[P, int] = argument(option(function))
        return decorated

    return decorate


def scheduler_option(told: str) -> Callable[[Callable[P, int]], Callable[P, int]]:
    """Give a verb the option to name a scheduler."""
    option: Callable[[Callable[P, int]], Callable[P, int]] = click.option(
        "-s", "--scheduler", metavar="SCHEDULER", shell_complete=completer("schedulers"), help=told
    )
    return option


def completer(name: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]:
    """Return what completes a parameter, by its name in the module for that; only a shell that asks pays for it."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        from asyncsched.cli import completion_values

        found: list[CompletionItem[str]] = getattr(completion_values, name)(ctx, param, incomplete)
        return found

    return complete


def with_groups(function: Callable[P, int]) -> Callable[P, int]:
    """Give a verb about apps the option to name groups of them."""
    option = click.option("--group", "groups", multiple=True, metavar="KEY", help="All apps in this group.")
    decorated: Callable[P, int] = option(function)
    return decorated


def named_or_asked(apps: tuple[str, ...], groups: tuple[str, ...], *, yes: bool) -> bool:
    """Return whether anything is named; raise the parser's error if nothing is and nobody can be asked.

    A variable of a script that is empty must not end what somebody has launched last.
    """
    is_named = bool(apps or groups)
    if not is_named and not (yes or (sys.stdin.isatty() and sys.stderr.isatty())):
        raise click.UsageError("Missing argument 'APP...'; @last is the app that was launched last from here")
    return is_named


def _setter(attribute: str) -> Callable[[click.Context, click.Parameter, object], None]:
    def set_on_console(ctx: click.Context, param: click.Parameter, value: object) -> None:
        if value is not None and isinstance(ctx.obj, Console):
            setattr(ctx.obj, attribute, value)

    return set_on_console


_COMMON = (
    click.option("--debug", is_flag=True, default=None, expose_value=False, callback=_setter("debug"),
                 help="Show tracebacks and the library's log messages."),
    click.option("--no-color", is_flag=True, default=None, expose_value=False, callback=_setter("plain"),
                 help="Print without colours."),
    click.option("-o", "--output", type=click.Choice(get_args(Format)), default=None, expose_value=False,
                 callback=_setter("format"), help="Output format.  [default: table]"),
)  # fmt: skip
_COMMON_NAMES = ("debug", "no_color", "output")
