"""Make the pictures of docs/_static from real runs: `python docs/pictures.py`, for minutes.

It launches some sixty jobs on this machine, and shows them in a terminal (tmux), in a notebook (a kernel) and in a
browser (Chromium). It needs what the tests need, and tmux, chromium and chromium-driver.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests._support import eventually_blocking  # noqa: E402 - found in the repository only
from tests.notebook.kernel import kernel  # noqa: E402
from tests.web.browser import Browser, browsing  # noqa: E402

STATIC = Path(__file__).parent / "_static"
MOST_BYTES = 200_000
BIN = Path(sys.executable).parent
WITHIN = 60.0

JOB = """
import random, sys, time
seed, steps, pause, fails_at = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
fails = seed in map(int, sys.argv[5:]) or not sys.argv[5:]
chance = random.Random(seed)
loss = 2.4
for step in range(steps):
    loss *= 0.984 + 0.02 * chance.random()
    print(f"step {step:3}  loss {loss:.4f}  {chance.randint(9000, 14000):,} tokens/s", flush=True)
    if step == fails_at and fails:
        sys.exit("OutOfMemoryError: tried to allocate 2.00 GiB, 1.37 GiB are free")
    time.sleep(pause)
print("saved checkpoint.pt", flush=True)
"""

SCENE = """
import asyncio, random, sys
from asyncsched import AppDef, Role, Runner

LONG = 3000

async def main():
    chance = random.Random(4)
    async with Runner("lab") as runner:
        async def launch(name, steps, pause, fails_at=-1, replicas=1, role="trainer", seed="${replica_id}", only=()):
            args = ["-c", sys.argv[1], seed, str(steps), str(pause), str(fails_at), *only]
            role = Role(role, entrypoint="python3", args=args, num_replicas=replicas)
            await runner.run(AppDef(name, [role]), "local_cwd", {"detach": True})
        for shard in range(9):
            await launch(f"prepare-{shard}", 4, 0.01, role="worker")
        for rate in ("1e-3", "3e-4", "1e-4"):
            for batch in (32, 64, 128, 256):
                for number in range(4):
                    seed = str(chance.randint(0, 999))
                    what = {"steps": 20, "pause": 0.02} if chance.random() < 0.35 else {"steps": LONG, "pause": 1.7}
                    oom = {"steps": 20, "pause": 0.02, "fails_at": 17} if chance.random() < 0.09 else {}
                    await launch(f"train-lr{rate}-b{batch}-{number}", **{**what, **oom}, seed=seed)
        await launch("evaluate", 40, 0.2, fails_at=31, role="evaluator")
        await launch("pretrain", LONG, 1.3, fails_at=11, only=("6", "17"), replicas=24)
        await launch("serve", LONG, 5, replicas=2, role="server")

asyncio.run(main())
"""

THEME = TerminalTheme(
    (27, 31, 38), (216, 222, 229),
    [
        (27, 31, 38), (224, 108, 117), (126, 192, 120), (229, 192, 123),
        (97, 165, 230), (198, 120, 221), (86, 182, 194), (200, 205, 212),
    ],
)  # fmt: skip
"""The colours of the terminal."""

DRAWN = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: {char_height}px;
  line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: arial, sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""
"""Rich's own, but for the fonts that it loads from elsewhere."""


class Terminal:
    """A shell in tmux.

    Args:
        home: Where it is, and where tmux has its socket.
        columns: How wide it is.
        lines: How high it is.
    """

    def __init__(self, home: Path, columns: int, lines: int) -> None:
        self._tmux = ["tmux", "-S", str(home / f"tmux-{columns}-{lines}"), "-f", "/dev/null"]
        self._columns = columns
        shell = "exec bash --norc --noprofile"
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(lines), shell)
        self.tmux("set", "-g", "status", "off")

    def tmux(self, *args: str) -> str:
        return subprocess.run([*self._tmux, *args], check=True, capture_output=True, text=True).stdout

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def until(self, pattern: str) -> None:
        eventually_blocking(lambda: re.search(pattern, self.tmux("capture-pane", "-p")), within=WITHIN)

    def picture(self, name: str, title: str) -> None:
        shown = Text.from_ansi(self.tmux("capture-pane", "-e", "-p").rstrip("\n"))
        console = Console(record=True, width=self._columns, file=StringIO(), force_terminal=True)
        console.print(shown, soft_wrap=True)
        keep(
            name,
            console.export_svg(title=title, theme=THEME, code_format=DRAWN, unique_id=name.partition(".")[0]).encode(),
        )

    def close(self) -> None:
        self.tmux("kill-server")


def keep(name: str, picture: bytes, text: str = "") -> None:
    """Write a picture, if it is small and tells nothing of this machine."""
    told = text or picture.decode()
    for own in (str(Path.home()), str(ROOT), tempfile.gettempdir(), socket.gethostname(), getpass.getuser()):
        assert not re.search(rf"\b{re.escape(own.strip('/'))}\b", told), f"{name} shows {own}"
    assert len(picture) <= MOST_BYTES, f"{name} has {len(picture):,} bytes"
    (STATIC / name).write_bytes(picture)


@contextmanager
def terminal(home: Path, columns: int, lines: int) -> Generator[Terminal]:
    shell = Terminal(home, columns, lines)
    try:
        yield shell
    finally:
        shell.close()


def in_terminal(home: Path) -> None:
    with terminal(home, 92, 25) as shell:
        shell.press("PS1='$ '; clear", "Enter")
        shell.until(r"\A\$\s*\Z")
        shell.press("asyncsched list --limit 21", "Enter")
        shell.until(r"the newest 21; \d+ more[^$]+\$")
        shell.picture("list.svg", "asyncsched list")
    with terminal(home, 108, 34) as shell:
        shell.press("asyncsched monitor -a", "Enter")
        shell.until(r"60 apps: \d+ succeeded, \d+ failed, \d+ running")
        shell.until(r"pretrain +RUNNING +0/2/24")
        shell.press(*"jjjj")
        shell.until(r"> pretrain ")
        shell.press("x")
        shell.until(r"trainer/6,17 +FAILED +2 x")
        shell.until(r"> pretrain .+ exit code 1: OutOfMemory")
        shell.press("Enter")
        shell.until(r"step +2\d ")
        shell.press("/", *"OutOfMemory", "Enter")
        shell.until(r"\+\d\d new, 'outofmemory' 2/2")
        shell.picture("monitor.svg", "asyncsched monitor")
        shell.press("C-c")


CELLS = [
    """
from asyncsched import AppDef, Role, Runner

def train(rate, batch):
    args = ["train.py", "--rate", str(rate), "--batch", str(batch)]
    return AppDef(f"lr{rate}-b{batch}", [Role("trainer", entrypoint="python3", args=args, num_replicas=4)])

runner = Runner("lab")""",
    """
group = runner.group("local_cwd", {"detach": True}, key="sweep", limit=8, on_failure="continue")
for rate in (0.1, 0.03, 0.01):
    for batch in (32, 64, 128, 256):
        group.start(train(rate, batch))

await group.monitor()""",
]

TRAIN = """
import os, random, sys, time
rate, batch = float(sys.argv[2]), int(sys.argv[4])
if batch == 256 and rate > 0.02:
    sys.exit("OutOfMemoryError: tried to allocate 2.00 GiB")
for step in range(3000 if rate < 0.05 and batch > 32 else 20):
    print(f"step {step}  loss {2.4 * 0.99 ** step:.4f}", flush=True)
    time.sleep(0.2)
"""


def in_notebook(home: Path) -> str:
    """Run the notebook, and return it as a page while its last cell runs."""
    (home / "train.py").write_text(TRAIN)
    nbformat_cells: list[Any] = []
    with kernel(**{**os.environ, "XDG_STATE_HOME": str(home / "notebook")}) as talk:
        for code in CELLS[:-1]:
            talk.run(code.strip())
            nbformat_cells.append(nbformat.v4.new_code_cell(code.strip(), execution_count=len(nbformat_cells) + 1))
        cell = talk.start(CELLS[-1].strip())
        talk.until(lambda: re.search(r"[3-9]/12 done, [1-9] failed, \d+ running", cell.html) or cell.over)
        assert not cell.over, cell
        output = nbformat.v4.new_output("display_data", {"text/html": cell.html})
        nbformat_cells.append(nbformat.v4.new_code_cell(CELLS[-1].strip(), outputs=[output], execution_count=2))
        talk.interrupt()
        talk.until(lambda: cell.over)
        talk.run("await group.cancel()\nawait group.wait()\nawait runner.close()")
    page, _ = HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=nbformat_cells))
    return page


async def photograph(browser: Browser, name: str, width: int, height: int) -> None:
    """Keep what the browser shows, sharper than it is large."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1.2, "mobile": False}
    await browser.do("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics})
    await browser.run("document.documentElement.style.overflow = 'hidden'")
    text = str(await browser.run("return document.body.innerText"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        await browser.picture(path)
        keep(name, path.read_bytes(), text)


async def in_browser(home: Path, notebook: str) -> None:
    (home / "notebook.html").write_text(notebook)
    serving = await asyncio.create_subprocess_exec(
        *("asyncsched", "web"), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        assert serving.stdout is not None
        url = (await serving.stdout.readline()).decode().strip()
        async with browsing(home / "browser") as browser:
            await browser.open((home / "notebook.html").as_uri())
            await photograph(browser, "notebook.png", 1160, 590)
            await browser.open(url)
            # The address with the token leads to the page, which a slow browser has not loaded yet.
            await browser.until(
                "typeof apps === 'object' && apps.size >= 60 && document.querySelectorAll('#table .row').length > 5"
            )
            row = """document.querySelector('#table .row[data-handle*="pretrain"]')"""
            await browser.until(f"!!{row}")
            await browser.run(f"{row}.click()")
            await browser.until("lines.length > 200 && document.querySelectorAll('#detail .bar').length === 24")
            begun = await browser.run("return lines.length")
            await browser.until("lines.length > arguments[0] + 60", begun)
            await photograph(browser, "web.png", 1200, 800)
    finally:
        serving.terminate()
        await serving.wait()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="pictures-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        for name in [name for name in os.environ if name.startswith(("ASYNCSCHED", "XDG", "PYTHON"))]:
            del os.environ[name]
        os.environ |= {
            "HOME": folder, "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin", "COLORTERM": "truecolor", "LANG": "C.UTF-8",
            "XDG_STATE_HOME": f"{folder}/state", "XDG_RUNTIME_DIR": folder, "ASYNCSCHED_SCHEDULERS": "local_cwd",
        }  # fmt: skip
        os.chdir(home)
        try:
            subprocess.run([sys.executable, "-c", SCENE, JOB], check=True)
            notebook = in_notebook(home)
            in_terminal(home)
            asyncio.run(in_browser(home, notebook))
        finally:
            subprocess.run([BIN / "asyncsched", "cancel", "-y", "--wait", "*"], check=False, capture_output=True)


if __name__ == "__main__":
    main()
