"""What a configuration file in the working directory may set although others may have written it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click
import pytest

from asyncsched.cli.main import VERBS
from asyncsched.runner.config import files, load_config
from asyncsched.runner.config.safe import SAFE
from asyncsched.runner.config.setting import Section
from asyncsched.schedulers import get_scheduler
from asyncsched.schedulers.registry import known_names, parameters_of
from asyncsched.specs import runopts

OF_COMMANDS = {
    *("allow_submit", "cfg", "component", "debug", "detach", "env", "group", "image", "key", "matrix", "no_prefix"),
    *("port", "raw", "regex", "scheduler", "scheduler_args", "show_secrets", "workspace", "yes"),
}

UNSAFE: dict[Section, set[str]] = {
    ("scheduler", "local_cwd"): {"copy_env", "detach", "env", "log_dir", "max_log_bytes", "prepend_cwd"},
    ("scheduler", "local_docker"): {
        *("copy_env", "env", "image_repo", "network", "privileged", "pull", "remove_after", "ulimits", "user"),
    },
    ("scheduler", "kubernetes"): {
        *("annotations", "context", "image_pull_policy", "image_repo", "image_secret", "kubeconfig", "labels"),
        *("namespace", "namespaces", "node_selector", "overlay", "queue", "service_account", "tolerations", "ttl"),
    },
    ("scheduler", "aws_batch"): {
        *("definition", "depends_on", "ecr_create_repository", "efs_options", "enable_exec", "endpoint_url"),
        *("execution_role_arn", "image_repo", "job_role_arn", "log_group", "log_options", "privileged", "profile"),
        *("propagate_tags", "public_ip", "queue", "readonly_root", "region", "secrets", "share_id", "tags", "tmpfs"),
        *("ulimits", "user", "user_in_container"),
    },
    ("scheduler", "gcp_batch"): {
        *("allowed_locations", "boot_disk_image", "credentials_file", "image_repo", "impersonate", "location"),
        *("log_destination", "network", "no_external_ip", "open_firewall", "project", "pubsub_topic", "quota_project"),
        *("replica_network", "service_account", "subnetwork"),
    },
    ("scheduler", "slurm"): {
        *("account", "constraint", "container", "exclude", "job_dir", "mail_user", "modules", "nodelist", "partition"),
        *("prolog", "qos", "reservation", "sbatch_args", "state_dir"),
    },
}
"""What was judged not to be safe: a new option has to be added here or to `SAFE`."""


def known_options() -> dict[Section, set[str]]:
    """Every option of our schedulers and commands."""
    known: dict[Section, set[str]] = {}
    for name in known_names():
        options = runopts.of(type(get_scheduler(name, "session")).options)
        known["scheduler", name] = {*(option for option, _ in options), *parameters_of(name)}
    for name in VERBS:
        command: click.Command = import_module(f"asyncsched.cli.{name}").command
        spelled = [opt for param in command.params if isinstance(param, click.Option) for opt in long_names(param)]
        known["command", name] = {opt.lstrip("-").replace("-", "_") for opt in spelled}
    return known


def long_names(option: click.Option) -> list[str]:
    return [opt for opt in (*option.opts, *option.secondary_opts) if len(opt) > 2]


def test_every_option_was_judged() -> None:
    known = known_options()

    assert known.keys() == SAFE.keys()
    for section, options in known.items():
        unsafe = UNSAFE.get(section, OF_COMMANDS & options)

        assert (set(), options) == (SAFE[section] & unsafe, SAFE[section] | unsafe), section


@pytest.mark.parametrize("section", [*SAFE, ("scheduler", "others"), ("component", "utils.sh")], ids=".".join)
def test_only_what_is_safe_is_used(tmp_path: Path, section: Section, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the short names and click's own names of options do not count."""
    unsafe = UNSAFE.get(section, {*OF_COMMANDS, "y", "s", "states", "with_ended", "new"})
    names = {*SAFE.get(section, ()), *unsafe}
    lines = [f"{name} = 1\n" for name in names]
    monkeypatch.setattr(files, "MOST_NAMED", len(unsafe))
    file = tmp_path / "asyncsched.toml"
    file.write_text(f'[{section[0]}."{section[1]}"]\n{"".join(lines)}')
    file.chmod(0o666)
    config = load_config(tmp_path, {"HOME": str(tmp_path)})
    used = getattr(config, section[0])(section[1])

    assert SAFE.get(section, set()) == {*used}
    assert all(f"{'.'.join(section)}.{name}" in config.warnings[0] for name in unsafe)


def test_a_file_with_safe_settings_only_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "asyncsched.toml").write_text("[command.run]\ncpu = 2\n")
    (tmp_path / "asyncsched.toml").chmod(0o666)

    assert (
        "is used, but only for settings that run no code and send nothing elsewhere"
        in load_config(tmp_path, {"HOME": "/x"}).warnings[0]
    )


def test_the_docs_name_every_setting_that_is_used() -> None:
    page = (Path(__file__).parents[2] / "docs/configuration.md").read_text()
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `[")]
    told = {title.split("`")[1]: {*names.split("`")[1::2]} for title, names in rows}
    of_all = told.pop("[command.NAME]")

    assert set() == told.pop("[component.NAME]")
    assert {
        f"[{kind}.{of}]": names - of_all if kind == "command" else names
        for (kind, of), names in SAFE.items()
        if names - of_all
    } == told
    assert all(of_all <= names for (kind, _), names in SAFE.items() if kind == "command")
