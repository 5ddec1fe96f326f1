"""Copy one file: ``copy SRC DST``, where each is a path or a URL."""

import importlib
import shutil
import sys
from pathlib import Path
from typing import IO, Any
from urllib.request import urlopen


def opened(place: str, mode: str) -> IO[Any]:
    """Open a path, an http address, or whatever else fsspec knows."""
    scheme, separator, rest = place.partition("://")
    if not separator or scheme == "file":
        path = Path(rest if separator else place).expanduser()
        if mode == "wb":
            path.parent.mkdir(parents=True, exist_ok=True)
        return path.open(mode)
    if mode == "rb" and scheme in ("http", "https"):
        result: IO[Any] = urlopen(place)  # noqa: S310 - the scheme was looked at
        return result
    try:
        fsspec: Any = importlib.import_module("fsspec")
    except ImportError:
        sys.exit(f"{place}: install fsspec in the image to use {scheme}://")
    remote: IO[Any] = fsspec.open(place, mode).open()
    return remote


def main(src: str, dst: str) -> None:
    """Copy `src` to `dst`."""
    with opened(src, "rb") as source, opened(dst, "wb") as target:
        shutil.copyfileobj(source, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
