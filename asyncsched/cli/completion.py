"""``asyncsched completion``: the completion script for a shell."""

from __future__ import annotations

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import verb

__all__ = ["command"]

VARIABLE = "_ASYNCSCHED_COMPLETE"
"""What click looks for to know that a shell asks for completions."""


@verb("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(console: Console, shell: str) -> int:
    """Print the completion script for SHELL.

    For bash, put into ~/.bashrc: eval "$(asyncsched completion bash)". For fish: asyncsched completion fish >
    ~/.config/fish/completions/asyncsched.fish.
    """
    from click.shell_completion import get_completion_class

    from asyncsched.cli.main import app

    kind = get_completion_class(shell)
    assert kind is not None, "the choice above has only shells that click knows"
    console.print(kind(app, {}, "asyncsched", VARIABLE).source(), verbatim=True)
    return 0
