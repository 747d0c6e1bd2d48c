"""The job while it lives: four ranks forked from one process that has imported torch, windows of steps, and its end.

`Live` is a context: when it is left, for whatever reason, ranks, nodes, limits and helpers are gone. What it cannot do itself
(`kill -9`) the kernel does: all processes die with their launcher, and the nodes with their last process.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from nodes import linux, network
from nodes.job import RANKS, Job, run
from nodes.limits import Limits
from nodes.window import HEALTHY, Window
from nodes.words import Words

POLL_S: Final = 0.02
SETTLE: Final = 2  # steps after a switch that belong to no window
START_S: Final = 180.0
WINDOW_S: Final = 240.0
STOP_S: Final = 60.0


class Ended(Exception):
    """A rank is gone that nobody asked to go."""


class Live:
    """A running job. `on_nodes`: two namespaces; without, one machine's loopback."""

    def __init__(self, out: Path, *, on_nodes: bool, stall: float = 0.0, say: Callable[[str], None] = print) -> None:
        self.out, self.on_nodes, self.stall, self.say = out, on_nodes, stall, say
        self.words = Words(RANKS)
        self.limits = Limits(RANKS)
        self.network: network.Network | None = None
        self.pids: list[int] = []
        self.left: dict[int, int] = {}  # exit codes of ranks that are gone
        self.windows: list[Window] = []
        self._stack = ExitStack()

    @property
    def log(self) -> Path:
        """What the ranks print."""
        return self.out.with_suffix(".log")

    @property
    def tokens(self) -> Path:
        """Where the training data lie; made once, kept for the next job."""
        return self.out.parent / "tokens"

    def __enter__(self) -> Live:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        from train_fsdp import SHARDS, make_tokens

        if not (self.tokens / f"shard-{SHARDS - 1}.bin").exists():
            make_tokens(self.tokens)
        self.log.unlink(missing_ok=True)
        (self.out / "segments").mkdir(mode=0o700, parents=True)
        self._stack.enter_context(self.limits)
        if self.on_nodes:
            self.network = self._stack.enter_context(network.Network(self.words))
        self._stack.callback(self._end)
        job = Job(self.out, self.tokens, self.words, self.limits, self.network, self._port(), self.stall)
        for rank in range(RANKS):
            self.pids.append(linux.forked(lambda rank=rank: run(job, rank), self.log))  # type: ignore[misc]
        self._wait(lambda: int(self.words.step.min()) >= SETTLE, START_S, "the first steps")

    def _port(self) -> int:
        if self.on_nodes:
            return 29500  # nobody else is in there
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return int(free.getsockname()[1])

    def healthy(self, steps: int, path: str = "") -> None:
        """A healthy window, unless the last one is just that."""
        if not self.windows or (self.windows[-1].name, self.windows[-1].path) != (HEALTHY, path):
            self.window(HEALTHY, steps, path)

    def window(self, name: str, steps: int, path: str = "", settle: int = SETTLE) -> Window:
        """Waits until all ranks have done `steps` steps that began after now, and notes which they were."""
        first = int(self.words.step.max()) + 1 + settle
        self._wait(lambda: int(self.words.step.min()) >= first, WINDOW_S, name)
        began, busy = time.time_ns(), _busy_s()
        self._wait(lambda: int(self.words.step.min()) >= first + steps, WINDOW_S, name)
        found = Window(name, first, first + steps - 1, began, time.time_ns(), _busy_s() - busy, path)
        self.windows.append(found)
        return found

    def finish(self) -> None:
        """Lets the ranks stop together, and makes the Run of what they recorded."""
        self.words.stop_at = int(self.words.step.max()) + 2
        self.until_left(STOP_S)
        self.close_run()

    def until_left(self, seconds: float) -> bool:
        """Waits until all ranks are gone; whether they are."""
        until = time.monotonic() + seconds
        while len(self.left) < len(self.pids) and time.monotonic() < until:
            self._reap()
            time.sleep(POLL_S)
        return len(self.left) == len(self.pids)

    def close_run(self) -> None:
        """The Run in place, and beside it which steps belong to which window."""
        from stepscope.analysis.attribution import RULES
        from stepscope.sources.live.run import close_run

        self._end()
        close_run(self.out, RULES)
        text = json.dumps({"windows": [asdict(w) for w in self.windows]}, indent=1)
        self.out.with_suffix(".windows.json").write_text(text + "\n")

    def _wait(self, reached: Callable[[], bool], seconds: float, what: str) -> None:
        until = time.monotonic() + seconds
        while not reached():
            self._reap()
            if self.left:
                raise Ended(f"rank {min(self.left)} ended during {what}; see {self.log}")
            if time.monotonic() > until:
                raise Ended(f"{what} took more than {seconds:.0f} s; see {self.log}")
            time.sleep(POLL_S)

    def _reap(self) -> None:
        for rank, pid in enumerate(self.pids):
            if rank not in self.left:
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    self.left[rank] = os.waitstatus_to_exitcode(status)

    def _end(self) -> None:
        linux.end([pid for rank, pid in enumerate(self.pids) if rank not in self.left])
        self.left.update({rank: -signal.SIGKILL for rank in range(len(self.pids)) if rank not in self.left})


def _busy_s() -> float:
    """CPU time of the machine so far: user, nice, system, interrupts, and what the host took from it."""
    with open("/proc/stat") as file:  # noqa: PTH123
        words = [int(word) for word in file.readline().split()[1:9]]
    return sum(words[at] for at in (0, 1, 2, 5, 6, 7)) / os.sysconf("SC_CLK_TCK")


def replace_run(out: Path, force: bool) -> str | None:
    """Makes room for a run; why not, where that cannot be."""
    from stepscope.model.segment import is_live

    if not out.exists():
        return None
    if not force:
        return f"{out}: exists already; choose another name or say -f to replace it"
    if out.is_symlink() or not (is_live(out) or (out / "run.json").exists()):
        return f"{out}: exists and is not a run; choose another name"
    shutil.rmtree(out)
    return None


def ask_for_an_end() -> None:
    """SIGTERM and SIGHUP end this process as Ctrl-C does: what is open is closed."""

    def leave(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
