"""The page of this backend: every option stands there with an example that works, and the role is a file to apply."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from asyncsched.schedulers.kubernetes import names
from asyncsched.schedulers.kubernetes.options import KubernetesOpts
from asyncsched.schedulers.kubernetes.request import make_request
from asyncsched.schedulers.kubernetes.request_ignored import ignored_by
from asyncsched.schedulers.kubernetes.status_states import VOLCANO_PHASES
from asyncsched.specs import AppDef, Resource, RetryPolicy, Role, runopts
from tests._pages import HEADINGS, headings, rows
from tests.test_project_docs import blocks, run_block

FOLDER = Path(__file__).parents[2] / "docs/backends"
PAGE = FOLDER / "kubernetes.md"
TEXT = PAGE.read_text()
OPTIONS = {row[0].strip("`"): row for row in rows(TEXT, "Run options")[1:]}


def test_the_headings_are_those_of_every_backend() -> None:
    assert HEADINGS == headings(TEXT)


def test_every_option_is_explained_in_its_own_words() -> None:
    known = runopts.of(KubernetesOpts)

    assert {name: option.help for name, option in known} == {name: row[3] for name, row in OPTIONS.items()}


@pytest.mark.parametrize("option", OPTIONS)
def test_the_example_of_each_option_works(option: str) -> None:
    known = runopts.of(KubernetesOpts)
    cfg = known.cfg_from_str(OPTIONS[option][2].strip("`"))
    app = AppDef("app", [Role("main", "alpine", entrypoint="sh", num_replicas=2, resource=Resource(1, 0, 2048))])
    chosen = runopts.build(KubernetesOpts, {"queue": "test", **cfg})

    assert [option] == list(cfg)
    kind: Any = "job" if chosen.kind == "job" else "volcano"
    app_id = names.app_id(chosen.namespace, "x")
    assert make_request(app, app_id, chosen, kind=kind, session="s", version="1").resource


def test_what_is_not_honoured_stands_there() -> None:
    role = Role("a", "i", entrypoint="x", num_replicas=2, max_retries=1, retry_policy=RetryPolicy.HOT_SPARE)
    role.resource, role.min_replicas = Resource(1, 0, 1, {"arch": "arm"}), 1
    app = AppDef("app", [role, Role("b", "i", entrypoint="x")])
    options = KubernetesOpts(timeout=1, pending_timeout=1, ttl=1, min_available=1, on_failure="stop")
    told = {each.field for each in ignored_by(app, options, "job", (1, 28))}
    told |= {each.field for each in ignored_by(app, KubernetesOpts(), "volcano")}

    fields = {field.strip("` ") for row in rows(TEXT, "What is not honoured")[1:] for field in row[0].split(",")}
    assert told == fields


def test_every_phase_of_volcano_stands_there() -> None:
    told = " ".join(row[0] for row in rows(TEXT, "States"))

    assert not [phase for phase in VOLCANO_PHASES if phase not in told]


def test_the_role_is_one_that_can_be_applied() -> None:
    role = yaml.safe_load((FOLDER / "kubernetes-role.yaml").read_text())

    assert ("rbac.authorization.k8s.io/v1", "Role") == (role["apiVersion"], role["kind"])
    assert "{literalinclude} kubernetes-role.yaml" in PAGE.read_text()
    for rule in role["rules"]:
        assert "*" not in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])


@pytest.mark.guard(loop_step=False, blocking=False, reason="a page's blocks import and define as users do")
async def test_its_code_runs() -> None:
    found: dict[str, Any] = {}
    for _, text, line in blocks(PAGE, "python"):
        await run_block(text, PAGE, line, found)

    await found["scheduler"].close()
    await found["runner"].close()


def test_its_commands_can_be_read_by_a_shell() -> None:
    commands = re.findall(r"^(asyncsched run .*)$", PAGE.read_text().replace("\\\n", ""), re.MULTILINE)
    given = [word for command in commands for word in shlex.split(command) if "=" in word]

    assert commands
    for cfg in given:
        assert runopts.of(KubernetesOpts).cfg_from_str(cfg)
