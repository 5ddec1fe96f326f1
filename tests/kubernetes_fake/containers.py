"""What a container of a pod has run, and what it has written, as kubelet and the runtime keep it."""

from __future__ import annotations

import asyncio
import base64
import time
import uuid
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.kubernetes_fake.errors import Json
from tests.kubernetes_fake.processes import Process
from tests.kubernetes_fake.store import stamp


class Entry(NamedTuple):
    """A line as the runtime keeps it."""

    ns: int
    stream: str
    data: bytes


@dataclass(eq=False)
class Run:
    """One run of a container, and its log.

    Attributes:
        newest: Where the newest file of the log begins: what stands before was rotated away.
        eof: Whether followers have been told of the end.
        removed: Whether the runtime has removed the container, with its log.
        no_file: Whether the log's file is not there: removed, or renamed a moment ago.
    """

    number: int = 0
    id: str = field(default_factory=lambda: f"containerd://{uuid.uuid4().hex}{uuid.uuid4().hex}")
    started: float = field(default_factory=time.time)
    finished: float | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    entries: list[Entry] = field(default_factory=list[Entry])
    newest: int = 0
    eof: bool = False
    removed: bool = False
    no_file: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, stream: str, ns: int, data: bytes) -> None:
        # Stamps of one container do not go back: the runtime takes them one after the other.
        if self.entries and ns <= self.entries[-1].ns:
            ns = self.entries[-1].ns + 1
        self.entries.append(Entry(ns, stream, data))
        self.tell()

    def add(self, ns: int, text: str | bytes, stream: str = "stdout") -> None:
        """Write an entry as a test wants it, its stamp kept as it is."""
        self.entries.append(Entry(ns, stream, text.encode() if isinstance(text, str) else text))
        self.tell()

    def rotate(self, keep: int = 0) -> None:
        """Leave the last `keep` lines in the newest file; who follows goes on."""
        self.newest = max(len(self.entries) - keep, 0)

    def tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    def terminated(self) -> Json:
        assert self.finished is not None
        told: Json = {
            "exitCode": self.exit_code,
            "reason": self.reason or ("Completed" if self.exit_code == 0 else "Error"),
            "startedAt": stamp(self.started),
            "finishedAt": stamp(self.finished),
            "containerID": self.id,
        }
        if self.message:
            told["message"] = self.message
        return told


@dataclass(eq=False)
class Container:
    """One container of a pod."""

    spec: Json
    runs: list[Run] = field(default_factory=list[Run])
    waiting: tuple[str, str] | None = ("ContainerCreating", "")
    process: Process | None = None

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def run(self) -> Run | None:
        return self.runs[-1] if self.runs else None

    @property
    def over(self) -> bool:
        return self.waiting is None and self.run is not None and self.run.finished is not None

    def status(self) -> Json:
        run = self.run
        state: Json
        last: Json = {}
        if self.waiting is not None:
            reason, message = self.waiting
            state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
            if run is not None and run.finished is not None:
                last = {"terminated": run.terminated()}
        elif run is None:
            state = {}
        else:
            if run.finished is not None:
                state = {"terminated": run.terminated()}
            else:
                state = {"running": {"startedAt": stamp(run.started)}}
            if len(self.runs) > 1 and self.runs[-2].finished is not None:
                last = {"terminated": self.runs[-2].terminated()}
        running = "running" in state
        return {
            "name": self.name,
            "image": self.spec.get("image", ""),
            "imageID": f"sha256:{self.spec.get('image', '')}" if run else "",
            "containerID": run.id if run else "",
            "ready": running,
            "started": running,
            "restartCount": run.number if run else 0,
            "state": state,
            "lastState": last,
        }


def expanded(text: str, env: dict[str, str]) -> str:
    """Expand ``$(NAME)`` as kubelet does: ``$$(NAME)`` is the text itself, an unknown name stays."""
    made: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "$" and at + 1 < len(text):
            if text[at + 1] == "$":
                made.append("$")
                at += 2
                continue
            end = text.find(")", at)
            if text[at + 1] == "(" and end > 0:
                name = text[at + 2 : end]
                made.append(env.get(name, text[at : end + 1]))
                at = end + 1
                continue
        made.append(text[at])
        at += 1
    return "".join(made)


class ConfigTrouble(Exception):  # noqa: N818 - kubelet's own word for it is CreateContainerConfigError
    """A container cannot be made as its pod asks."""


def environment(container: Json, pod: Json, find: Any) -> dict[str, str]:
    """Return a container's environment; `find` looks up an object by kind, namespace and name."""
    env: dict[str, str] = {}
    for each in container.get("env", ()):
        if "valueFrom" in each:
            value = _value_from(each["valueFrom"], pod, find)
            if value is None:
                continue
            env[each["name"]] = value
        else:
            env[each["name"]] = expanded(each.get("value", ""), env)
    return env


def _value_from(source: Json, pod: Json, find: Any) -> str | None:
    namespace = pod["metadata"]["namespace"]
    if field_ref := source.get("fieldRef"):
        return field_value(pod, field_ref["fieldPath"])
    for key, kind, word in (("secretKeyRef", "secrets", "secret"), ("configMapKeyRef", "configmaps", "configmap")):
        ref = source.get(key)
        if ref is None:
            continue
        obj = find(kind, namespace, ref["name"])
        if obj is None:
            if ref.get("optional"):
                return None
            raise ConfigTrouble(f'{word} "{ref["name"]}" not found')
        data = obj.get("data", {})
        if kind == "secrets":
            data = {**{key: _decoded(value) for key, value in data.items()}, **obj.get("stringData", {})}
        if ref["key"] not in data:
            if ref.get("optional"):
                return None
            raise ConfigTrouble(f"couldn't find key {ref['key']} in {word.capitalize()} {namespace}/{ref['name']}")
        return str(data[ref["key"]])
    return ""


def _decoded(value: str) -> str:
    return base64.b64decode(value).decode()


def field_value(pod: Json, path: str) -> str:
    if "[" in path:
        base, _, key = path.partition("['")
        found: Any = pod
        for part in base.split("."):
            found = found.get(part, {})
        return str(found.get(key.removesuffix("']"), ""))
    found = pod
    for part in path.split("."):
        found = found.get(part, "") if isinstance(found, dict) else ""
    return str(found)
