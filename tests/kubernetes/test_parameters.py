"""Which cluster it is, is said to the scheduler: in the configuration, and never as a run option."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsched.errors import ConfigError, RunOptionError
from asyncsched.runner.config import load_config, run_options
from asyncsched.schedulers.kubernetes import KubernetesOpts, KubernetesScheduler
from asyncsched.specs import AppDef, Role, runopts

OPTS = runopts.of(KubernetesOpts)


def test_parameters_are_configured_beside_run_options(tmp_path: Path) -> None:
    text = '[scheduler.kubernetes]\ncontext = "lab"\nnamespaces = ["a", "b"]\nqueue = "gpu"\n'
    (tmp_path / "asyncsched.toml").write_text(text)
    config = load_config(tmp_path, {"HOME": str(tmp_path), "ASYNCSCHED_KUBERNETES_KUBECONFIG": "/x"})

    expected = {"context": "lab", "namespaces": ["a", "b"], "kubeconfig": "/x"}
    assert {"kubernetes": expected} == config.parameters()
    assert ["queue"] == list(run_options(config, "kubernetes", OPTS))


def test_a_variable_may_name_several_namespaces(tmp_path: Path) -> None:
    config = load_config(tmp_path, {"HOME": str(tmp_path), "ASYNCSCHED_KUBERNETES_NAMESPACES": "a,b"})

    assert {"kubernetes": {"namespaces": ["a", "b"]}} == config.parameters()
    assert {} == load_config(tmp_path, {"HOME": str(tmp_path)}).parameters()


def test_they_are_no_run_options_on_the_command_line(tmp_path: Path) -> None:
    config = load_config(tmp_path, {"HOME": str(tmp_path)})

    with pytest.raises(RunOptionError, match=r"context is a parameter of the scheduler kubernetes.*KUBERNETES_CONTEXT"):
        run_options(config, "kubernetes", OPTS, ["context=lab"])
    with pytest.raises(RunOptionError, match="did you mean"):
        run_options(config, "kubernetes", OPTS, ["quue=lab"])


async def test_they_are_no_run_options_of_a_submit() -> None:
    app = AppDef("app", [Role("role", "busybox", entrypoint="true")])

    async with KubernetesScheduler("session") as scheduler:
        with pytest.raises(RunOptionError, match="kubeconfig is a parameter of the scheduler kubernetes"):
            await scheduler.submit(app, {"kubeconfig": "/x"})


@pytest.mark.parametrize("namespaces", ["td te", ["default", "Upper"], [""], "x" * 64])
def test_a_namespace_that_cannot_exist_is_refused_at_once(namespaces: list[str] | str) -> None:
    with pytest.raises(ConfigError, match=r"the scheduler's parameter namespaces must have .*, got .*a name has"):
        KubernetesScheduler("session", namespaces=namespaces)
