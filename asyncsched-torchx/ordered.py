"""The build backend: hatchling, with the wheel's entry points in the order of pyproject.toml.

TorchX uses the first registered scheduler as its default, and hatchling sorts entry points by name.
"""

import base64
import hashlib
import tomllib
import zipfile
from pathlib import Path

from hatchling import build as _hatchling

build_sdist = _hatchling.build_sdist
get_requires_for_build_sdist = _hatchling.get_requires_for_build_sdist
get_requires_for_build_wheel = _hatchling.get_requires_for_build_wheel
get_requires_for_build_editable = _hatchling.get_requires_for_build_editable


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Build the wheel, and return its file name."""
    return _ordered(wheel_directory, _hatchling.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Build the editable wheel, and return its file name."""
    return _ordered(wheel_directory, _hatchling.build_editable(wheel_directory, config_settings, metadata_directory))


def _ordered(wheel_directory, name):
    path = Path(wheel_directory, name)
    with zipfile.ZipFile(path) as wheel:
        files = [(info, wheel.read(info)) for info in wheel.infolist()]
    listed = next(info.filename for info, _ in files if info.filename.endswith(".dist-info/entry_points.txt"))
    text = _entry_points().encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for info, data in files:
            if info.filename == listed:
                data = text
            elif info.filename.endswith(".dist-info/RECORD"):
                data = _recorded(data.decode(), listed, text).encode()
            wheel.writestr(info, data)
    return name


def _entry_points():
    groups = tomllib.loads(Path("pyproject.toml").read_text())["project"]["entry-points"]
    sections = (
        "".join([f"[{group}]\n", *(f"{key} = {value}\n" for key, value in each.items())])
        for group, each in groups.items()
    )
    return "\n".join(sections)


def _recorded(record, listed, text):
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
    lines = (
        f"{listed},sha256={digest},{len(text)}" if line.startswith(f"{listed},") else line
        for line in record.splitlines()
    )
    return "\n".join(lines) + "\n"
