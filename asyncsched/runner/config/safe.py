"""The settings that a configuration file in the working directory may make even if others may have written it.

They can neither run code, nor send data elsewhere, nor choose an identity, an account or a network, nor take a
protection or a question away, nor delete. Whatever is not listed is unsafe: new options, arguments of components, and
all settings of schedulers and commands from other packages.
"""

from __future__ import annotations

from asyncsched.runner.config.setting import Section

__all__ = ["SAFE", "is_safe"]

_SHOWN = {"output", "no_color"}
_ENDS = {"timeout", "pending_timeout"}

SAFE: dict[Section, set[str]] = {
    ("scheduler", "local_cwd"): {
        *("auto_set_cuda_visible_devices", "grace_period", "merge_streams", "on_failure", "timeout"),
    },
    ("scheduler", "local_docker"): {"grace_period", "init", "on_failure", "platform", "quiet", "timeout"},
    ("scheduler", "kubernetes"): {
        *(
            "grace_period",
            "kind",
            "min_available",
            "node_selector",
            "on_failure",
            "platform",
            "priority_class",
            "quiet",
        ),
        *("reserved_memmb", "reserved_millicpu", "validate_spec", *_ENDS),
    },
    ("scheduler", "aws_batch"): {
        *("array_size", "consumable_resources", "cpu_arch", "ephemeral_storage_gb", "image_platform", "init_process"),
        *("instance_type", "job_type", "main_node", "platform", "priority", "quiet", "shm_size_mb", "spot_retries"),
        *("timeout_s", *_ENDS),
    },
    ("scheduler", "gcp_batch"): {
        *("boot_disk_gb", "boot_disk_type", "collocated", "gang", "gpu_type", "image_platform", "image_streaming"),
        *("install_gpu_drivers", "labels", "machine_type", "max_run_duration", "parallelism", "priority", "quiet"),
        *("retry_on_preemption", "spot", "task_count_per_node", *_ENDS),
    },
    ("scheduler", "slurm"): {
        *("check", "comment", "constraint", "exclude", "gres", "mail_type", "nodelist", "nodes", "ntasks_per_node"),
        *("partition", "requeue", "time", "timestamps", *_ENDS),
    },
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
