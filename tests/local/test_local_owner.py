"""Owners of every kind: daemons, nested ones, those that run out of descriptors or become another program."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests._support import eventually_blocking
from tests.local._local import Other, marked


@pytest.mark.parametrize("closed", ["0", "1", "2", "0 1 2"])
def test_an_owner_without_standard_streams(home: Path, tmp_path: Path, closed: str) -> None:
    code = """
        async def main(told):
            async with LocalScheduler("session") as scheduler:
                app_id = await scheduler.submit(app(shell("echo hello")))
                lines = await read(scheduler, app_id)
                detached = await scheduler.submit(app(shell("echo detached")), {"detach": True})
                lines += await read(scheduler, detached)
            with open(told, "w") as file:
                file.writelines(lines)

        for number in sys.argv[2].split():
            os.close(int(number))
        asyncio.run(main(sys.argv[1]))
    """
    with Other(code, str(tmp_path / "told"), closed) as owner:
        owner.wait()

    assert "hello\ndetached\n" == (tmp_path / "told").read_text()


def test_an_owner_that_runs_out_of_descriptors_is_told_so(home: Path) -> None:
    code = """
        import contextlib, resource

        files = []

        async def told(work):
            # Anew each time: something that ended meanwhile may have given one back.
            with contextlib.suppress(OSError):
                while True:
                    files.append(os.open("/dev/null", os.O_RDONLY))
            try:
                say(await work)
            except AsyncSchedError as error:
                say(type(error).__name__, error)

        async def main():
            async with LocalScheduler("session") as opened, LocalScheduler("session") as new:
                app_id = await opened.submit(app(shell("true")), {"detach": True})
                await ended(opened, app_id)
                resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
                await told(opened.submit(app(shell("true"))))
                await told(opened.describe(app_id))
                await told(opened.list())
                await told(new.describe(app_id))
                await told(new.list())
                for file in files:
                    os.close(file)
                app_id = await opened.submit(app(shell("echo again")))
                say(*[line.text for line in await read(opened, app_id)])
        asyncio.run(main())
    """
    with Other(code) as owner:
        for _ in range(5):
            said = owner.hear()
            assert "Error " in said
            assert "Too many open files" in said
        assert "again" == owner.hear()


def test_an_owner_that_becomes_another_program_takes_its_apps_along(home: Path, token: str) -> None:
    code = """
        async def main():
            scheduler = LocalScheduler("session")
            app_id = await scheduler.submit(app(shell("echo ready; sleep 1000", sys.argv[1])))
            await first(scheduler, app_id)
            os.execvp("sleep", ["sleep", "1000"])
        asyncio.run(main())
    """
    with Other(code, token) as owner:
        eventually_blocking(lambda: "sleep" in Path(f"/proc/{owner.pid}/comm").read_text())

        eventually_blocking(lambda: not marked(token))
        assert owner.process.poll() is None


NESTED = """
    inner = '''
    import asyncio, sys
    from tests.local._local import *
    async def main():
        async with LocalScheduler("inner") as scheduler:
            app_id = await scheduler.submit(app(python(FAMILY)), {"grace_period": 0.3})
            await first(scheduler, app_id)
            print("inner", flush=True)
            await asyncio.Event().wait()
    asyncio.run(main())
    '''
    async def main():
        async with LocalScheduler("outer") as scheduler:
            import textwrap
            role = Role("main", "", entrypoint=sys.executable, args=["-P", "-c", textwrap.dedent(inner)])
            role.env["TOKEN"] = sys.argv[1]
            app_id = await scheduler.submit(app(role), {"grace_period": 3.0})
            await first(scheduler, app_id)
            say("ready")
            await getattr(scheduler, hear())(app_id)
            say((await ended(scheduler, app_id)).state.name)
            hear()
    asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["cancel", "kill"])
def test_an_app_whose_replica_submits_an_app(home: Path, token: str, how: str) -> None:
    with Other(NESTED, token) as owner:
        assert "ready" == owner.hear()
        assert len(marked(token)) > 6
        owner.say(how)

        assert "CANCELLED" == owner.hear()
        assert {owner.pid} >= {*marked(token)}


def test_two_loops_in_two_threads_have_schedulers_of_their_own(home: Path) -> None:
    code = """
        async def main(name):
            async with LocalScheduler(name) as scheduler:
                app_id = await scheduler.submit(app(shell("echo " + name)))
                told.append([line.text for line in await read(scheduler, app_id)])
        told = []
        threads = [threading.Thread(target=lambda name=name: asyncio.run(main(name))) for name in "abc"]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        say(sorted(told))
    """
    with Other(code) as owner:
        assert "[['a'], ['b'], ['c']]" == owner.hear()


def test_a_forked_child_of_the_owner_does_not_disturb_it(home: Path) -> None:
    code = """
        async def main():
            async with LocalScheduler("session") as scheduler:
                app_id = await scheduler.submit(app(shell("echo ready; read line; sleep 1000")))
                await first(scheduler, app_id)
                child = os.fork()
                if child == 0:
                    del scheduler
                    os._exit(0)
                os.waitpid(child, 0)
                say((await scheduler.describe(app_id)).state.name)
        asyncio.run(main())
    """
    with Other(code) as owner:
        assert "RUNNING" == owner.hear()
