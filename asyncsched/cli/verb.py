"""What every verb has: the common options, and defaults from the configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, cast, get_args

import click
from click.core import ParameterSource

from asyncsched.cli.console import Console, Format

__all__ = ["Verb", "configured", "verb"]

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
            from asyncsched.cli.configured import with_origin

            told = with_origin(error, self.name or "", self.taken_from_configuration(ctx))
            if told is error:
                raise
            raise told from error

    def taken_from_configuration(self, ctx: click.Context) -> set[str]:
        """Return the names of the options whose values are configured."""
        return configured(ctx)

    def _defaults(self, console: Console) -> dict[str, object]:
        from asyncsched.cli.configured import command_defaults

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


def _setter(attribute: str) -> Callable[[click.Context, click.Parameter, object], None]:
    def set_on_console(ctx: click.Context, param: click.Parameter, value: object) -> None:
        if value is not None and isinstance(ctx.obj, Console):
            setattr(ctx.obj, attribute, value)

    return set_on_console


_COMMON = (
    click.option("--debug", is_flag=True, default=None, expose_value=False, callback=_setter("debug"),
                 help="Show tracebacks and what the library logs."),
    click.option("--no-color", is_flag=True, default=None, expose_value=False, callback=_setter("plain"),
                 help="Print without colours."),
    click.option("-o", "--output", type=click.Choice(get_args(Format)), default=None, expose_value=False,
                 callback=_setter("format"), help="How data is printed.  [default: table]"),
)  # fmt: skip
_COMMON_NAMES = ("debug", "no_color", "output")
