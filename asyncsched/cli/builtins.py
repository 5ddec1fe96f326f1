"""``asyncsched builtins``: list components."""

from __future__ import annotations

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import completer, verb

__all__ = ["command"]


@verb("builtins")
@click.argument("component", required=False, shell_complete=completer("components"))
@click.option("-p", "--print", "show_source", is_flag=True, help="Print its source, as a start for your own.")
def command(console: Console, component: str | None, show_source: bool) -> int:
    """List built-in and installed components, explain one, or print its source."""
    from asyncsched.components import get_component, get_components
    from asyncsched.components.help import component_help

    if show_source and component is None:
        raise click.UsageError("--print needs a component; asyncsched builtins lists all components")
    if component is not None:
        found = get_component(component)
        text = found.source if show_source else component_help(found, console.width or 80)
        if console.format == "table":
            console.print(text, verbatim=show_source)
        else:
            row = {"component": component, "summary": found.summary, "source" if show_source else "help": text}
            console.print_rows((), [row])
        return 0
    rows = [{"component": name, "summary": each.summary.partition("\n")[0]} for name, each in get_components().items()]
    console.print_rows(("component", "summary"), rows)
    return 0
