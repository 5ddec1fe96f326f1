"""Convert asyncsched's answers to TorchX's classes: descriptions, rows of lists, run options."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Dict, List, get_origin  # noqa: UP035 - TorchX compares types with these

from torchx import specs as theirs
from torchx.schedulers.api import DescribeAppResponse, ListAppResponse
from torchx.specs.api import NONE

from asyncsched import specs
from asyncsched.errors import ConfigError
from asyncsched.schedulers import responses as ours
from asyncsched.torchx import convert

__all__ = ["from_description", "from_row", "to_opts"]

_log = logging.getLogger("asyncsched.torchx")


def from_description(found: ours.DescribeAppResponse, *, reveal: bool = False) -> DescribeAppResponse:
    """Return a description as TorchX's class.

    Args:
        found: The description.
        reveal: Whether the roles hold the values of secrets; otherwise they print as ``***``.
    """
    message = found.structured_error_msg
    writer = next((replica for replica in found.replicas if replica.structured_error_msg == message), None)
    described = DescribeAppResponse(
        app_id=found.app_id,
        state=convert.state_to_theirs(found.state, theirs),
        num_restarts=found.num_restarts,
        msg=str(found.msg) or NONE,
        structured_error_msg=convert.structured_error(message, writer),
        ui_url=found.ui_url,
        roles_statuses=convert.statuses_to_theirs(found.roles_statuses, theirs),
        roles=[*_roles(found, reveal=reveal)],
    )
    if hasattr(described, "metadata"):  # not in 0.7
        described.metadata = dict(found.metadata)
    return described


def _roles(found: ours.DescribeAppResponse, *, reveal: bool) -> Iterator[Any]:
    for role in found.roles:
        try:
            yield convert.role_to_theirs(role, theirs, reveal=reveal)
        except ConfigError as error:  # the app's state can be described all the same
            _log.warning("%s is described without its role %s: %s", found.app_id, role.name, error)


def from_row(row: ours.ListAppResponse) -> ListAppResponse:
    """Return a row of a list as TorchX's class; the runner fills in the handle."""
    listed = ListAppResponse(row.app_id, convert.state_to_theirs(row.state, theirs))
    if any(field.name == "name" for field in dataclasses.fields(listed)):  # not in 0.7
        listed.name = row.name
    return listed


def to_opts(options: specs.runopts, other_names: Mapping[str, str]) -> theirs.runopts:
    """Return run options as TorchX's class; an option's choices are appended to its help.

    Args:
        options: The options.
        other_names: Aliases of options, and the options that they stand for.
    """
    opts = theirs.runopts()
    for name, opt in options:
        text = f"{opt.help}: {'|'.join(opt.choices)}" if opt.choices else opt.help
        opts.add(name, _their_type(opt.opt_type), text, opt.default, opt.is_required)
    known = dict(options)
    for other, name in other_names.items():
        opts.add(other, _their_type(known[name].opt_type), f"an alias of {name}")
    return opts


def _their_type(kind: Any) -> Any:
    """Return the type as all releases of TorchX know it: 0.7 accepts `List[str]`, but not ``list[str]``."""
    return {list: List[str], dict: Dict[str, str]}.get(get_origin(kind) or kind, kind)  # noqa: UP006 - as above
