"""What all verbs share: the common options, and defaults from the configuration."""

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
    "Whole",
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


class Whole(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"


class Verb(click.Command):
    """A command whose options can be configured in ``[command.NAME]``."""

    is_configurable = True

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the command line with configured defaults, which completion does not use."""
        if self.is_configurable and not self.asks_for_help(args) and not extra.get("resilient_parsing"):
            extra["default_map"] = self._defaults((parent and parent.find_object(Console)) or Console())
        return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse them; an error of click's parser knows the command, too."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def asks_for_help(self, args: list[str]) -> bool:
        """Tell whether only help is asked for, which must work without a valid configuration."""
        own = args[: args.index("--")] if "--" in args else args
        return bool({"-h", "--help"}.intersection(own))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; errors about configured names say where they are configured."""
        try:
            return super().invoke(ctx)
        except ValueError as error:  # as ours for wrong names are
            from asyncsched.cli.command_config import with_origin

            told = with_origin(error, self.name or "", self.taken_from_configuration(ctx))
            if told is error:
                raise
            raise told from error

    def taken_from_configuration(self, ctx: click.Context) -> set[str]:
        """Return the names of the options with configured values."""
        return configured(ctx)

    def _defaults(self, console: Console) -> dict[str, object]:
        from asyncsched.cli.command_config import command_defaults

        options = [param for param in self.params if isinstance(param, click.Option)]
        return command_defaults(self.name or "", options, console.say)


def configured(ctx: click.Context) -> set[str]:
    """Return the names of the parameters whose values come from the configuration."""
    return {name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP}


def verb(name: str, cls: type[Verb] = Verb, **settings: Any) -> Callable[[Callable[P, int]], click.Command]:
    """Turn a function into a verb with the common options. Its first argument is the console."""

    def decorate(function: Callable[P, int]) -> click.Command:
        decorated: Callable[..., int] = click.pass_obj(cast("Callable[..., int]", function))
        for option in _COMMON:
            decorated = option(decorated)
        settings["help_option_names"] = ["-h", "--help"]
        command = click.command(name, cls=cls, context_settings=settings)(decorated)
        command.params.sort(key=lambda param: param.name in _COMMON_NAMES)  # the verb's own options come first
        return command

    return decorate


def with_apps(function: Callable[P, int]) -> Callable[P, int]:
    """Add the argument `apps` and the option `scheduler` to a verb."""
    return _app_options("[APP]...")(function)


def with_apps_and_parts(function: Callable[P, int]) -> Callable[P, int]:
    """Do the same for verbs that also accept roles and replicas."""
    return _app_options("[APP[/ROLE[/K,K2-K3]]]...")(function)


def _app_options(metavar: str) -> Callable[[Callable[P, int]], Callable[P, int]]:
    argument = click.argument("apps", nargs=-1, metavar=metavar, shell_complete=completer("apps"))
    option = scheduler_option("Look only on this scheduler.  [default: all]")

    def decorate(function: Callable[P, int]) -> Callable[P, int]:
        decorated: Callable[P, int] = argument(option(function))
        return decorated

    return decorate


def scheduler_option(told: str) -> Callable[[Callable[P, int]], Callable[P, int]]:
    """Add the option `scheduler` to a verb."""
    option: Callable[[Callable[P, int]], Callable[P, int]] = click.option(
        "-s", "--scheduler", metavar="SCHEDULER", shell_complete=completer("schedulers"), help=told
    )
    return option


def completer(name: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]:
    """Return the completer of this name, which is imported when a shell asks for completions."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        from asyncsched.cli import completion_values

        found: list[CompletionItem[str]] = getattr(completion_values, name)(ctx, param, incomplete)
        return found

    return complete


def with_groups(function: Callable[P, int]) -> Callable[P, int]:
    """Add the option `groups` to a verb about apps."""
    option = click.option("--group", "groups", multiple=True, metavar="KEY", help="All apps in this group.")
    decorated: Callable[P, int] = option(function)
    return decorated


def named_or_asked(apps: tuple[str, ...], groups: tuple[str, ...], *, yes: bool) -> bool:
    """Return whether any app is named; raise UsageError if none is and the user cannot be asked.

    An empty variable in a script must not cancel or delete the app that was launched last.
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
