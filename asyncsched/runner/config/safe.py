"""The settings that a configuration file in the working directory may make even if others may have written it.

They can neither run code, nor send data elsewhere, nor choose an identity, an account, a network or the machines, nor
take a protection or a question away, nor delete. Whatever is not listed is unsafe: new options, arguments of
components, and all settings of schedulers and commands from other packages.
"""

from __future__ import annotations

from asyncsched.runner.config.setting import Section
from asyncsched.schedulers.harmless import HARMLESS

__all__ = ["SAFE", "is_safe"]

_SHOWN = {"output", "no_color"}

SAFE: dict[Section, set[str]] = {
    **{("scheduler", name): options for name, options in HARMLESS.items()},
    ("command", "run"): {
        *("cpu", "dryrun", "gpu", "limit", "log", "memMB", "name", "pass_exit_code", "replicas", "wait", *_SHOWN),
    },
    ("command", "status"): {"roles", "watch", *_SHOWN},
    ("command", "describe"): _SHOWN,
    ("command", "list"): {"limit", "name", "session", "since", "state", *_SHOWN},
    ("command", "log"): {"follow", "replica", "role", "since", "streams", "tail", "timestamps", "until", *_SHOWN},
    ("command", "wait"): {"all", "any", "timeout", *_SHOWN},
    ("command", "monitor"): {"all", *_SHOWN},
    ("command", "web"): _SHOWN,
    ("command", "cancel"): {"wait", *_SHOWN},
    ("command", "delete"): _SHOWN,
    ("command", "runopts"): _SHOWN,
    ("command", "configure"): {"print", "required", "schedulers", *_SHOWN},
    ("command", "builtins"): {"print", *_SHOWN},
    ("command", "doctor"): {"timeout", *_SHOWN},
    ("command", "completion"): _SHOWN,
}


def is_safe(section: Section, name: str) -> bool:
    """Tell whether an untrusted file may make this setting."""
    return name.replace("-", "_") in SAFE.get(section, ())
