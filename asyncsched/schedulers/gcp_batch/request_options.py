"""Check for run options that Google Cloud Batch would refuse, before anything is sent."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from asyncsched.errors import ConfigError, RunOptionError
from asyncsched.schedulers.gcp_batch.names import LOCATION, PROJECT
from asyncsched.schedulers.gcp_batch.options import GCPBatchOpts
from asyncsched.schedulers.request_checks import check_seconds

__all__ = ["MAX_HOSTS", "MAX_PARALLEL", "check_options"]

MAX_PARALLEL = 5000
LONGEST_RUN = 14 * 24 * 3600

MAX_HOSTS = 1000
"""Most VMs for which Batch writes a hosts file."""

_WORD = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_ANY = re.compile(r"\S+")

_FORMS: Mapping[str, tuple[re.Pattern[str], str]] = {
    "project": (PROJECT, "my-project"),
    "location": (LOCATION, "us-central1"),
    "machine_type": (_WORD, "e2-standard-8"),
    "gpu_type": (_WORD, "nvidia-l4"),
    "boot_disk_type": (_WORD, "pd-ssd"),
    "boot_disk_image": (_ANY, "batch-cos"),
    "service_account": (re.compile(r"[^@\s]+@[^@\s]+"), "runner@my-project.iam.gserviceaccount.com"),
    "network": (_ANY, "projects/P/global/networks/N"),
    "subnetwork": (_ANY, "projects/P/regions/R/subnetworks/S"),
    "pubsub_topic": (re.compile(r"projects/[^/\s]+/topics/[^/\s]+"), "projects/P/topics/T"),
    "image_repo": (_ANY, "us-central1-docker.pkg.dev/my-project/team/app"),
    "image_platform": (_ANY, "linux/amd64"),
}
"""The form of each text option, with an example."""

_RANGES: Mapping[str, tuple[int, int]] = {
    "priority": (0, 99),
    "parallelism": (1, MAX_PARALLEL),
    "task_count_per_node": (1, 100_000),
    "boot_disk_gb": (1, 65_536),
}
"""The bounds of each number."""

_PLACE = re.compile(r"regions/(?P<region>[a-z][a-z0-9-]*[a-z0-9])|zones/(?P<of_zone>[a-z][a-z0-9-]*[a-z0-9])-[a-z]")


def check_options(options: GCPBatchOpts, replicas: int) -> None:
    """Check options for invalid values and conflicts.

    Raises:
        ConfigError: The message names the option and says what to write instead.
    """
    _check_times(options)
    given = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    for name, (form, example) in _FORMS.items():
        if given[name] is not None and not form.fullmatch(given[name]):
            what = f"{name} must have a form such as {example}, got {given[name]!r}"
            raise RunOptionError(what, key=name, fix="correct it, or omit it")
    _check_region(options.location)
    for name, (least, most) in _RANGES.items():
        if given[name] is not None and not least <= given[name] <= most:
            raise RunOptionError(f"{name} must be {least} to {most}, got {given[name]}", key=name, fix="correct it")
    _check_gang(options, replicas)
    if options.no_external_ip and not (options.network and options.subnetwork):
        why = "Batch sets no network for a VM without an external IP address"
        raise ConfigError("no_external_ip needs network and subnetwork", why=why, fix="set both")
    _check_places(options.allowed_locations or (), options.location)


def _check_times(options: GCPBatchOpts) -> None:
    if options.timeout is not None and options.max_run_duration is not None:
        why = "they are two names of one option"
        raise ConfigError("timeout and max_run_duration are both set", why=why, fix="omit max_run_duration")
    check_seconds("timeout", options.timeout, most=LONGEST_RUN)
    check_seconds("max_run_duration", options.max_run_duration, most=LONGEST_RUN)
    check_seconds("pending_timeout", options.pending_timeout)


def _check_gang(options: GCPBatchOpts, replicas: int) -> None:
    if not options.gang:
        return
    limit = options.parallelism or MAX_PARALLEL
    if replicas > limit:
        why = f"all {replicas} replicas must run at the same time, and at most {limit} do"
        raise ConfigError("gang cannot be used", why=why, fix="raise parallelism, or use fewer replicas")


def _check_region(location: str) -> None:
    if zone := _PLACE.fullmatch(f"zones/{location}"):
        fix = f"set location={zone['of_zone']}, and allowed_locations=zones/{location} to run in that zone only"
        raise RunOptionError(f"location must be a region, got the zone {location!r}", key="location", fix=fix)


def _check_places(places: Sequence[str], location: str) -> None:
    """Check the locations of VMs: they must be in the region of their job."""
    regions: set[str] = set()
    for place in places:
        found = _PLACE.fullmatch(place)
        if found is None:
            fix = "write a region as regions/us-central1 and a zone as zones/us-central1-a"
            raise RunOptionError(f"allowed_locations cannot contain {place!r}", key="allowed_locations", fix=fix)
        regions.add(found["region"] or found["of_zone"])
    if len(regions) > 1:
        named = " and ".join(sorted(regions))
        what = f"allowed_locations must be in one region, got {named}"
        raise RunOptionError(what, key="allowed_locations", fix="use places in one region")
    if regions and regions != {location}:
        (region,) = regions
        fix = f"set location={region}, or use places in {location}"
        what = f"allowed_locations must be in the job's region {location}, got {region}"
        raise RunOptionError(what, key="allowed_locations", fix=fix)
