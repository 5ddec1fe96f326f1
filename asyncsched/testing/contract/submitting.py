"""The contract on options, dry-runs, identity and submitting."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
from typing import Any, TypeVar, cast

import pytest

from asyncsched.errors import ConflictError, RunOptionError, SchedulerError, UsageError
from asyncsched.specs.app import AppDef, Role
from asyncsched.specs.dryrun import AppDryRunInfo
from asyncsched.specs.mounts import VolumeMount
from asyncsched.specs.not_kept import NotKept
from asyncsched.specs.secret import Secret
from asyncsched.specs.state import AppState
from asyncsched.testing.contract.rig import ContractRig, echo, texts

__all__ = ["SubmitContract"]

T = TypeVar("T")

MARKER = "s3cr3t-m4rk3r"
EDITED = r"role 'main': not all of it was kept.*edited after its dry-run"


class SubmitContract:
    """Submitting: all or nothing, once, and without surprises."""

    async def test_submit_returns_an_id_that_describe_knows(self, rig: ContractRig) -> None:
        app_id = await rig.submit(rig.app(echo("hello")))

        assert "/" not in app_id
        found = await rig.scheduler.describe(app_id)
        assert found is not None
        assert app_id == found.app_id
        assert "job" == found.name
        assert rig.scheduler.session_name == found.session

    async def test_two_submits_of_one_app_are_two_apps(self, rig: ContractRig) -> None:
        app = rig.app(echo("hello"))

        assert await rig.submit(app) != await rig.submit(app)

    async def test_warming_up_ahead_changes_nothing_but_the_wait(self, rig: ContractRig) -> None:
        before = await rig.listed()
        await rig.scheduler.warm_up()
        await rig.scheduler.warm_up()

        assert before >= await rig.listed()
        assert await rig.scheduler.exists(await rig.submit(rig.app(echo("hello"))))

    async def test_a_dry_run_changes_nothing(self, rig: ContractRig) -> None:
        before = await rig.listed()

        info = await rig.scheduler.submit_dryrun(rig.app(echo("hello")), rig.cfg)

        assert info.request is not None
        assert await rig.scheduler.describe(info.app_id) is None
        assert before >= await rig.listed()

    async def test_a_dry_run_prints_what_would_be_sent(self, rig: ContractRig) -> None:
        info = await rig.scheduler.submit_dryrun(rig.app(echo("a-text-to-find")), rig.cfg)

        assert "a-text-to-find" in repr(info)

    async def test_the_callers_app_and_options_are_not_changed(self, rig: ContractRig) -> None:
        app = rig.app(echo("${app_id}"), env={"A": "${replica_id}", "PATH": "/bin:/usr/bin"})
        kept, cfg = copy.deepcopy(app), dict(rig.cfg)

        await rig.scheduler.submit_dryrun(app, cfg)
        await rig.scheduler.submit_dryrun(app, cfg)
        await rig.scheduler.submit(app, cfg)

        assert kept == app
        assert dict(rig.cfg) == cfg

    async def test_an_unknown_option_names_the_nearest(self, rig: ContractRig) -> None:
        options = [name for name, _ in await rig.scheduler.run_opts()]
        if not options:
            pytest.skip("this backend has no run options")
        wrong = options[0] + "x"

        with pytest.raises(RunOptionError, match=options[0]):
            await rig.scheduler.submit_dryrun(rig.app(), {**rig.cfg, wrong: "1"})

    async def test_options_may_be_an_object_of_the_class(self, rig: ContractRig) -> None:
        by_name = await rig.scheduler.submit_dryrun(rig.app(), rig.cfg)
        by_class = await rig.scheduler.submit_dryrun(rig.app(), rig.scheduler.options(**by_name.cfg))

        assert by_name.cfg == by_class.cfg

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (AppDef("job"), "no roles"),
            (AppDef("job", [Role("one", "i")]), "'one' has no entrypoint"),
            (
                AppDef("job", [Role("one", "i", entrypoint="sh", num_replicas=0)]),
                "num_replicas of role 'one' must .* at least 1, got 0",
            ),
            (
                AppDef("job", [Role("one", "i", entrypoint="sh", args=cast("Any", "-c x"))]),
                "args of role 'one' must .* got '-c x'",
            ),
            (
                AppDef("job", [Role("one", "i", entrypoint="sh", env=cast("Any", {"A": 1}))]),
                r"env\['A'\] of role 'one' must be a str, got a value of type int",
            ),
            (
                AppDef("job", [Role("one", "i", entrypoint="sh", env={"A=B": "1"})]),
                "name in env of role 'one' must .* without =, got 'A=B'",
            ),
        ],
    )
    async def test_an_app_that_cannot_run_is_refused(self, rig: ContractRig, wrong: AppDef, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            await rig.scheduler.submit(wrong, rig.cfg)

    async def test_pre_proc_runs_once_for_each_role_in_order(self, rig: ContractRig) -> None:
        calls: list[tuple[str, str]] = []

        class Noting(Role):
            def pre_proc(self, scheduler: str, dryrun_info: AppDryRunInfo[T]) -> AppDryRunInfo[T]:
                calls.append((self.name, scheduler))
                return dryrun_info

        roles = [
            Noting(**{f.name: getattr(rig.role("", name), f.name) for f in dataclasses.fields(Role)})
            for name in ("one", "two")
        ]
        await rig.scheduler.submit_dryrun(AppDef("job", list(roles)), rig.cfg)

        assert [("one", rig.scheduler.backend), ("two", rig.scheduler.backend)] == calls

    async def test_scheduling_one_dry_run_twice_submits_once(self, rig: ContractRig) -> None:
        info = await rig.scheduler.submit_dryrun(rig.app(echo("once")), rig.cfg)

        first, second = await asyncio.gather(rig.scheduler.schedule(info), rig.scheduler.schedule(info))
        await rig.ended(info.app_id)
        third = await rig.scheduler.schedule(info)

        assert info.app_id == first == second == third
        assert 1 == len([row for row in await rig.scheduler.list() if row.app_id == info.app_id])
        assert ["once"] == [line.text for line in await rig.lines(info.app_id, should_tail=True)]

    async def test_a_dry_run_that_was_made_by_hand_is_launched_by_its_requests_id(self, rig: ContractRig) -> None:
        info = await rig.scheduler.submit_dryrun(rig.app(echo("by hand")), rig.cfg)
        request = copy.deepcopy(info.request)
        made = AppDryRunInfo(request, repr)
        try:
            app_id = await rig.scheduler.schedule(made)
        except UsageError as error:
            pytest.skip(f"the requests of this backend name no app: {error}")
        again = await rig.scheduler.schedule(AppDryRunInfo(copy.deepcopy(request), repr))
        found = await rig.ended(app_id)

        assert info.app_id == app_id == again == found.app_id
        assert rig.scheduler.session_name == found.session
        assert ["main"] == [role.role for role in found.roles_statuses]
        assert ["by hand"] == [line.text for line in await rig.lines(app_id, should_tail=True)]
        assert [app_id] == [row.app_id for row in await rig.scheduler.list() if row.app_id == app_id]
        assert ("", "", request) == (made.app_id, made.scheduler, made.request)
        with pytest.raises((ConflictError, UsageError)):
            await rig.scheduler.schedule(await _other_request(rig, app_id))

    async def test_renewing_a_dry_run_gives_another_id(self, rig: ContractRig) -> None:
        info = await rig.scheduler.submit_dryrun(rig.app(echo("this is ${app_id}")), rig.cfg)
        renewed = await info.renew()

        assert info.app_id != renewed.app_id
        assert info.app_id not in repr(renewed)
        assert info.digest == renewed.digest

    async def test_a_key_makes_a_submit_idempotent(self, rig: ContractRig) -> None:
        other = rig.another()
        other.session_name = rig.scheduler.session_name
        try:
            first = await rig.submit(rig.app(echo("a")), key="order-42")
            again = await rig.submit(rig.app(echo("a")), key="order-42")
            elsewhere = await other.submit(rig.app(echo("a")), rig.cfg, key="order-42")

            assert first == again == elsewhere
            assert first != await rig.submit(rig.app(echo("a")), key="order-43")
            other.session_name = f"{other.session_name}-2"
            assert first != (await other.submit_dryrun(rig.app(echo("a")), rig.cfg, key="order-42")).app_id
            with pytest.raises(ConflictError):
                await rig.submit(rig.app(echo("b")), key="order-42")
            with pytest.raises(ConflictError):  # by another name it is another app, too
                await rig.submit(dataclasses.replace(rig.app(echo("a")), name="another"), key="order-42")
        finally:
            await other.close()

    async def test_a_dry_run_of_another_scheduler_is_refused(self, rig: ContractRig) -> None:
        info = await rig.scheduler.submit_dryrun(rig.app(), rig.cfg)
        info.scheduler = "elsewhere"

        with pytest.raises(UsageError, match="elsewhere"):
            await rig.scheduler.schedule(info)

    async def test_a_request_that_was_made_another_apps_is_refused(self, rig: ContractRig) -> None:
        info, other = [await rig.scheduler.submit_dryrun(rig.app(echo("hello")), rig.cfg) for _ in range(2)]
        if rig.scheduler._named(other.request) is None:  # pyright: ignore[reportPrivateUsage]
            pytest.skip("the requests of this backend name no app")
        info.request = other.request

        with pytest.raises(UsageError) as caught:
            await rig.scheduler.schedule(info)
        assert f"the request has the app id {other.app_id}, but its dry-run has {info.app_id}" in str(caught.value)
        assert "the dry-run fixes the id" == caught.value.why
        assert [None, None] == [await rig.scheduler.describe(each.app_id) for each in (info, other)]

    async def test_a_submit_that_fails_half_way_leaves_nothing(self, rig: ContractRig) -> None:
        if rig.unstartable is None:
            pytest.skip("this backend has no way to fail half-way")
        before = await rig.listed()

        with pytest.raises((SchedulerError, ValueError)):
            await rig.submit(rig.unstartable)

        assert before >= await rig.listed()

    @pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55])
    async def test_a_cancelled_submit_leaves_nothing_or_an_app(self, rig: ContractRig, steps: int) -> None:
        info = await rig.scheduler.submit_dryrun(rig.app(rig.long_sleep), rig.cfg)
        task = asyncio.create_task(rig.scheduler.schedule(info))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]

        found = await rig.scheduler.describe(info.app_id)
        if isinstance(outcome, asyncio.CancelledError):
            assert found is None
        else:
            assert info.app_id == outcome
            assert found is not None
            await rig.scheduler.cancel(info.app_id)
            await rig.until(info.app_id, lambda app: app.state is AppState.CANCELLED)

    async def test_a_described_app_can_be_submitted_again(self, rig: ContractRig) -> None:
        env = {"A": "it's 1", "B": "$${app_id} of ${replica_id}, $$ $app_id ${HOME}", "EMPTY": ""}
        app = rig.app("echo $${A}\necho $B", env=env)
        app.metadata = {"team": "blue"}
        app.roles[0].port_map = {"http": 8080}
        app.roles[0].metadata = {"a": {"b": [1, "c"]}}
        first_id = await rig.submit(app)
        first = await rig.ended(first_id)
        again_id = await rig.submit(AppDef(first.name, first.roles, metadata=first.metadata))
        again = await rig.ended(again_id)

        assert app.roles == first.roles == again.roles
        assert app.metadata == first.metadata == again.metadata
        for app_id in (first_id, again_id):
            said = texts(await rig.lines(app_id, should_tail=True))
            assert ["it's 1", "${app_id} of 0, $$ $app_id ${HOME}"] == said

    async def test_a_described_app_that_had_secrets_is_refused_until_they_are_filled_in(self, rig: ContractRig) -> None:
        wanted = {"API_TOKEN": MARKER, "PLAIN": Secret(MARKER)}
        app = rig.app("echo $API_TOKEN $PLAIN", env={"A": "1", **wanted})
        app.metadata = {"A_PASSWORD": MARKER}
        found = await rig.ended(await rig.submit(app))
        again = AppDef(found.name, found.roles, metadata=found.metadata)

        assert [NotKept, NotKept, NotKept] == [
            type(value) for value in (*(found.roles[0].env[name] for name in wanted), found.metadata["A_PASSWORD"])
        ]
        assert "1" == found.roles[0].env["A"]
        with pytest.raises(
            ValueError, match=r"app 'job': metadata A_PASSWORD.*variable API_TOKEN, variable PLAIN were"
        ):
            await rig.submit(again)
        again.metadata = {}
        for name, missing in zip(wanted, ("API_TOKEN, variable PLAIN were", "PLAIN was"), strict=True):
            with pytest.raises(ValueError, match=f"role 'main': variable {missing} not kept"):
                await rig.submit(again)
            again.roles[0].env[name] = "filled in"
        again_id = await rig.submit(again)

        assert ["filled in filled in"] == texts(await rig.lines(again_id, should_tail=True))

    async def test_an_app_whose_request_was_edited_is_not_submitted_again_as_it_was(self, rig: ContractRig) -> None:
        info = await rig.scheduler.submit_dryrun(rig.app("echo $WORD", env={"WORD": "before"}), rig.cfg)
        if not _replaced(info.request, "before", "after"):
            pytest.skip("the requests of this backend do not show the environment")
        app_id = await rig.scheduler.schedule(info)
        (role,) = (await rig.ended(app_id)).roles

        assert ["after"] == texts(await rig.lines(app_id, should_tail=True))
        assert "before" not in role.env.values()
        with pytest.raises(ValueError, match=EDITED):
            await rig.submit(AppDef("job", [role]))
        role.args, role.env = rig.role("echo $WORD").args, {"WORD": "filled in"}
        again_id = await rig.submit(AppDef("job", [role]))
        assert ["filled in"] == texts(await rig.lines(again_id, should_tail=True))

    async def test_what_pre_proc_changes_is_not_told_as_what_ran(self, rig: ContractRig) -> None:
        class Changing(Role):
            def pre_proc(self, scheduler: str, dryrun_info: AppDryRunInfo[T]) -> AppDryRunInfo[T]:
                self.env["WORD"] = "of the role"  # its request is made already
                if self.metadata:
                    _replaced(dryrun_info.request, "before", "after")
                return dryrun_info

        plain = rig.role("echo $WORD", env={"WORD": "before"})
        fields: dict[str, Any] = {f.name: getattr(plain, f.name) for f in dataclasses.fields(Role)}
        app_id = await rig.submit(AppDef("job", [Changing(**fields)]))
        (role,) = (await rig.ended(app_id)).roles

        assert ["before"] == texts(await rig.lines(app_id, should_tail=True))
        assert plain == role
        fields["metadata"] = {"edit": True}
        edited = await rig.submit(AppDef("job", [Changing(**fields)]))
        (role,) = (await rig.ended(edited)).roles
        if ["after"] == texts(await rig.lines(edited, should_tail=True)):
            with pytest.raises(ValueError, match=EDITED):
                await rig.submit(AppDef("job", [role]))

    @pytest.mark.parametrize("edit", [False, True])
    async def test_a_dry_run_that_pre_proc_makes_anew_is_told_like_its_own(self, rig: ContractRig, edit: bool) -> None:
        class Anew(Role):
            def pre_proc(self, scheduler: str, dryrun_info: AppDryRunInfo[T]) -> AppDryRunInfo[T]:
                request = copy.deepcopy(dryrun_info.request)
                if edit:
                    _replaced(request, "before", "after")
                return AppDryRunInfo(request, repr)

        plain = rig.role("echo $WORD", env={"WORD": "before"}, mounts=[VolumeMount("data", "/mnt")])
        plain = dataclasses.replace(plain, mounts=plain.mounts if "mounts" in rig.scheduler.ignores else [])
        app = AppDef("job", [Anew(**{f.name: getattr(plain, f.name) for f in dataclasses.fields(Role)})], {"a": "b"})
        info = await rig.scheduler.submit_dryrun(app, rig.cfg)
        found = await rig.ended(await rig.scheduler.schedule(info))
        (said,) = texts(await rig.lines(info.app_id, should_tail=True))

        assert ("job", {"a": "b"}) == (found.name, found.metadata)
        if said == "before":
            assert [plain] == found.roles
        else:
            with pytest.raises(ValueError, match=EDITED):
                await rig.submit(AppDef("job", found.roles))

    @pytest.mark.parametrize(
        ("place", "fields"),
        [
            ("variable A", {"env": {"A": "x\udc80"}}),
            ("variable A", {"env": {"A": Secret("x\ud800")}}),
            ("argument 2", {"args": ["-c", "", "x\udc80"]}),
            ("metadata a 0", {"metadata": {"a": ["x\udc80"]}}),
        ],
    )
    async def test_what_utf_8_cannot_hold_is_refused_or_was_not_kept(
        self, rig: ContractRig, place: str, fields: dict[str, Any]
    ) -> None:
        app = AppDef("job", [dataclasses.replace(rig.role(""), **fields)])
        with pytest.raises((ValueError, SchedulerError)) as caught:
            found = await rig.ended(await rig.submit(app))
            assert "\ud800" not in str(fields)
            await rig.submit(AppDef(found.name, found.roles))
        if "a lone surrogate" in str(caught.value):
            assert f"role 'main': {place} " in str(caught.value)

    async def test_secrets_are_sent_but_never_shown(self, rig: ContractRig) -> None:
        app = rig.app(
            echo("$PLAIN").replace("'", "") + "\nexit 3",
            env={"API_TOKEN": MARKER, "PLAIN": Secret(MARKER + "-2")},
        )
        info = await rig.scheduler.submit_dryrun(app, rig.cfg)
        app_id = await rig.scheduler.schedule(info)
        ended = await rig.ended(app_id)
        shown = [repr(info), repr(app), repr(ended), repr(await rig.scheduler.list()), repr(rig.scheduler)]
        with pytest.raises(ValueError) as caught:
            await rig.scheduler.submit(AppDef("job", [dataclasses.replace(app.roles[0], num_replicas=-1)]), rig.cfg)

        assert [] == [text for text in (*shown, str(caught.value), repr(caught.value)) if MARKER in text]
        assert [MARKER + "-2"] == [line.text for line in await rig.lines(app_id, should_tail=True)]


def _replaced(value: object, old: str, new: str) -> int:
    """Replace `old` with `new` everywhere in a request; return the number of replacements."""
    if dataclasses.is_dataclass(value):
        return sum(_replaced(getattr(value, field.name), old, new) for field in dataclasses.fields(value))
    if not isinstance(value, (dict, list)):
        return 0
    items = cast("dict[Any, object]", value)  # a list is changed in the same way
    found = 0
    for key in [*items] if isinstance(value, dict) else range(len(items)):
        found += _replaced(items[key], old, new)
        if items[key] == old:
            items[key] = new
            found += 1
    return found


async def _other_request(rig: ContractRig, app_id: str) -> AppDryRunInfo[Any]:
    """Return a dry-run, made by hand, of another app under this id."""
    request = (await rig.scheduler.submit_dryrun(rig.app(echo("another")), rig.cfg)).request
    return AppDryRunInfo(request, repr, app_id=app_id)
