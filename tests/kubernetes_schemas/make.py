"""Trim the published schemas: ``python -m tests.kubernetes_schemas.make`` writes the files beside this one.

They come from the Go modules of Kubernetes and Volcano (``go mod download``), whose versions are named here. What is
kept are the kinds that the backend sends or reads, without descriptions; nothing else is changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

__all__ = ["FILES", "find_module", "made_from"]

HERE = Path(__file__).parent
FILES = {"kubernetes": HERE / "kubernetes.json", "volcano": HERE / "volcano.json"}
MODULES = {"kubernetes": ("k8s.io/kubernetes", "v1.34.4"), "volcano": ("volcano.sh/volcano", "v1.14.1")}
LICENCE = "Apache-2.0"

Schema = dict[str, Any]

_CORE, _META = "io.k8s.api.core.v1", "io.k8s.apimachinery.pkg.apis.meta.v1"
OPENAPI = {
    "api__v1_openapi.json": [
        f"{_CORE}.{kind}" for kind in ("Event", "EventList", "Namespace", "Pod", "PodList", "Secret", "Service")
    ],
    "apis__batch__v1_openapi.json": ["io.k8s.api.batch.v1.Job", "io.k8s.api.batch.v1.JobList"],
    "apis_openapi.json": [f"{_META}.APIGroupList"],
    "apis__batch_openapi.json": [f"{_META}.APIGroup"],
    "version_openapi.json": ["io.k8s.apimachinery.pkg.version.Info"],
}
"""Files of api/openapi-spec/v3, and what is taken from each, with all that it refers to."""

MORE = {
    "api__v1_openapi.json": [f"{_META}.{kind}" for kind in ("APIResourceList", "DeleteOptions", "Status", "WatchEvent")]
}

CRDS = (
    "batch.volcano.sh_jobs",
    "bus.volcano.sh_commands",
    "scheduling.volcano.sh_podgroups",
    "scheduling.volcano.sh_queues",
)


def main() -> None:
    """Write the files."""
    for name, file in FILES.items():
        file.write_text(made_from(name, find_module(name, download=True)))
        print(f"{file.name}: {file.stat().st_size:,} bytes", file=sys.stderr)


def find_module(name: str, *, download: bool = False) -> Path:
    """Return the directory of a module.

    Args:
        name: ``kubernetes`` or ``volcano``.
        download: Whether to fetch it where it is not in the module cache.

    Raises:
        FileNotFoundError: It is not there.
    """
    module, version = MODULES[name]
    cache = os.environ.get("GOMODCACHE") or _run("go", "env", "GOMODCACHE").strip()
    found = Path(cache) / f"{module}@{version}"
    if not found.is_dir() and download:
        found = Path(json.loads(_run("go", "mod", "download", "-json", f"{module}@{version}"))["Dir"])
    if not found.is_dir():
        raise FileNotFoundError(found)
    return found


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd="/").stdout


def made_from(name: str, module: Path) -> str:
    """Return what the file is made of."""
    version = MODULES[name]
    about = {"module": version[0], "version": version[1], "licence": LICENCE}
    schemas = dict(_of_kubernetes(module) if name == "kubernetes" else _of_volcano(module))
    lines = [f'"": {json.dumps(about)}', *(f"{json.dumps(key)}: {json.dumps(schemas[key])}" for key in sorted(schemas))]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _of_kubernetes(module: Path) -> Iterator[tuple[str, Schema]]:
    for file, roots in OPENAPI.items():
        document = json.loads((module / "api" / "openapi-spec" / "v3" / file).read_text())
        known = cast("dict[str, Schema]", document["components"]["schemas"])
        wanted = [*roots, *MORE.get(file, [])]
        done: set[str] = set()
        while wanted:
            if (name := wanted.pop()) in done:
                continue
            done.add(name)
            yield name, _trimmed(known[name])
            wanted += _references(known[name])


def _of_volcano(module: Path) -> Iterator[tuple[str, Schema]]:
    import yaml  # only who makes the files needs it

    for crd in CRDS:
        document = yaml.safe_load((module / "config" / "crd" / "volcano" / "bases" / f"{crd}.yaml").read_text())
        spec = document["spec"]
        for version in spec["versions"]:
            kind = f"{spec['group']}/{version['name']}/{spec['names']['kind']}"
            columns = version.get("additionalPrinterColumns", [])
            yield kind, _trimmed(version["schema"]["openAPIV3Schema"]) | {"x-columns": columns}


def _trimmed(schema: Any, *, of_fields: bool = False) -> Any:
    """Return a schema without its descriptions; a field may be called description, too."""
    if isinstance(schema, list):
        return [_trimmed(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {key: value for key, value in cast("Schema", schema).items() if of_fields or key != "description"}
    return {key: _trimmed(value, of_fields=not of_fields and key == "properties") for key, value in kept.items()}


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for item in schema:
            yield from _references(item)
    elif isinstance(schema, Mapping):
        for key, value in cast("Schema", schema).items():
            if key == "$ref":
                yield str(value).rpartition("/")[2]
            else:
                yield from _references(value)


if __name__ == "__main__":
    main()
