"""``asyncsched web``: a live page of apps and their logs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from asyncsched.cli.console import Console
from asyncsched.cli.verb import Whole, verb, with_apps, with_groups

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asyncsched.cli.app_arguments import Target
    from asyncsched.runner.runner import Runner

__all__ = ["command"]


@verb("web")
@with_apps
@with_groups
@click.option(
    "--port", type=Whole(0, 65535), metavar="PORT", default=0, help="The port to listen on.  [default: any free port]"
)
@click.option("--allow-submit", is_flag=True, help="Also allow launching and deleting apps from the page.")
def command(
    console: Console,
    apps: tuple[str, ...],
    groups: tuple[str, ...],
    scheduler: str | None,
    port: int,
    allow_submit: bool,
) -> int:
    """Serve a live page of apps and their logs to a browser on this machine; it shows all apps by default.

    It listens on 127.0.0.1 only. The printed address works once, in one browser. Ctrl-C stops the page; the apps keep
    running.
    """
    from asyncsched.cli.apps import run_on_apps
    from asyncsched.schedulers.registry import check_package

    check_package("asyncsched web", "aiohttp", "web")
    work = partial(_serve, only=scheduler or "", port=port, allow_submit=allow_submit)
    return run_on_apps(console, apps, work, groups=groups, scheduler=scheduler, or_last=False)


async def _serve(
    console: Console, runner: Runner, targets: Sequence[Target], *, only: str, port: int, allow_submit: bool
) -> int:
    import asyncio

    from asyncsched.cli.app_arguments import find_apps, list_apps
    from asyncsched.cli.errors import fail
    from asyncsched.web.server import serving

    handles = None
    if targets:
        found = await find_apps(console, runner, targets)
        codes = [fail(console, failure) for failure in found.failures]
        if not found.apps:
            return max(codes, default=1)
        handles = found.handles
    look = partial(list_apps, runner, only=only)
    async with serving(runner, handles=handles, look=look, port=port, allow_submit=allow_submit) as server:
        console.print(server.url)
        console.say(
            "open this address in a browser on this machine; it works once. Ctrl-C stops the page, not the apps"
        )
        if allow_submit:
            console.say("--allow-submit: anyone who has the page can run programs as you")
        await asyncio.Event().wait()
    return 0
