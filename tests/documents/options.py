"""The run options of the pages: type, default, and whether they have to be given."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import NamedTuple

from asyncsched.specs.run_options import CfgVal

__all__ = ["OPTIONS", "Option"]


class Option(NamedTuple):
    """An option of a page."""

    type: object
    default: CfgVal = None
    is_required: bool = False


_IMAGES = {"image_repo": Option(str), "quiet": Option(bool, False)}
"""Those of every scheduler that runs images which a workspace is laid over."""

OPTIONS: Mapping[str, Mapping[str, Option]] = {
    "local_cwd": {
        "log_dir": Option(str),
        "prepend_cwd": Option(bool, False),
        "auto_set_cuda_visible_devices": Option(bool, False),
    },
    "local_docker": {
        "copy_env": Option(list[str]),
        "env": Option(dict[str, str]),
        "privileged": Option(bool, False),
        **_IMAGES,
    },
    "kubernetes": {
        "queue": Option(str),  # Volcano requires one, and its absence is told then; a Job needs none
        "namespace": Option(str, "default"),
        "service_account": Option(str),
        "priority_class": Option(str),  # those for images come with workspaces
    },
    "aws_batch": {
        "queue": Option(str, is_required=True),
        "user": Option(str, getpass.getuser()),
        "privileged": Option(bool, False),
        "share_id": Option(str),
        "priority": Option(int, 0),
        "job_role_arn": Option(str),
        "execution_role_arn": Option(str),
        **_IMAGES,
    },
    "gcp_batch": {
        "project": Option(str),
        "location": Option(str, "us-central1"),
    },
}
