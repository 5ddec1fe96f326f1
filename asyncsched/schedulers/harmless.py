"""Harmless run options of the built-in schedulers: anybody may set them.

They can neither run code, nor send data elsewhere, nor choose an identity, an account, a network or the machines, nor
take a protection away. Whatever is not listed counts as harmful, as new options do.
"""

from __future__ import annotations

__all__ = ["HARMLESS"]

_ENDS = {"timeout", "pending_timeout"}

HARMLESS: dict[str, set[str]] = {
    "local_cwd": {
        *("auto_set_cuda_visible_devices", "grace_period", "merge_streams", "on_failure", "timeout"),
    },
    "local_docker": {"grace_period", "init", "on_failure", "platform", "quiet", "timeout"},
    "kubernetes": {
        *("grace_period", "kind", "min_available", "on_failure", "platform", "priority_class"),
        *("quiet", "reserved_memmb", "reserved_millicpu", "validate_spec", *_ENDS),
    },
    "aws_batch": {
        *("array_size", "consumable_resources", "cpu_arch", "ephemeral_storage_gb", "image_platform", "init_process"),
        *("instance_type", "job_type", "main_node", "platform", "priority", "quiet", "shm_size_mb", "spot_retries"),
        *("timeout_s", *_ENDS),
    },
    "gcp_batch": {
        *("boot_disk_gb", "boot_disk_type", "collocated", "gang", "gpu_type", "image_platform", "image_streaming"),
        *("install_gpu_drivers", "labels", "machine_type", "max_run_duration", "parallelism", "priority", "quiet"),
        *("retry_on_preemption", "spot", "task_count_per_node", *_ENDS),
    },
    "slurm": {
        *("check", "comment", "gres", "mail_type", "nodes", "ntasks_per_node"),
        *("requeue", "time", "timestamps", *_ENDS),
    },
}
