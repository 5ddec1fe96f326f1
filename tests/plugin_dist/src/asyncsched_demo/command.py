"""A command: any click command."""

from __future__ import annotations

import click


@click.command("greet")
@click.argument("name", default="you")
def greet(name: str) -> None:
    """Greet NAME."""
    click.echo(f"hello {name}")
