"""``asyncsched completion``: the completion script for a shell."""

from __future__ import annotations

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import verb

__all__ = ["command"]


@verb("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(console: Console, shell: str) -> int:
    """Print the completion script for SHELL.

    For bash, put into ~/.bashrc: eval "$(asyncsched completion bash)". For zsh, after compinit in ~/.zshrc: eval
    "$(asyncsched completion zsh)". For fish: asyncsched completion fish > ~/.config/fish/completions/asyncsched.fish.
    """
    from asyncsched.cli.completion_shells import script_for
    from asyncsched.cli.main import app

    console.print(script_for(shell, app), verbatim=True)
    return 0
