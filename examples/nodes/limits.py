"""How much CPU and storage may one rank have? A control group per rank, of version 1 or 2, whichever the machine has.

Groups are empty folders of the kernel; they go at the end, and those that a killed launcher left go at the next start.
"""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Final

NAME: Final = "stepscope-two-nodes"
PERIOD_US: Final = 100_000  # the kernel's own default
_LEFT: Final = re.compile(rf"{NAME}-(\d+)")


class Limits:
    """Groups of `ranks` ranks. `cpu` and `storage` say what can be limited; with neither it does nothing."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.cpu = self.storage = False
        self.version = 0
        self._roots: dict[str, Path] = {}

    def __enter__(self) -> Limits:
        first, second = _mounts()
        for controller in ("cpu", "blkio"):
            if controller in first and os.access(first[controller], os.W_OK):
                self._roots[controller] = first[controller] / f"{NAME}-{os.getpid()}"
                self.version = 1
        if not self._roots and second is not None and os.access(second, os.W_OK):
            self._roots["unified"] = second / f"{NAME}-{os.getpid()}"
            self.version = 2
        try:
            for root in self._roots.values():
                _remove_left(root.parent)
                self._make(root)
        except OSError:
            self._remove()
            self._roots.clear()
        self.cpu = bool(self._roots) and self._file(0, "cpu.cfs_quota_us" if self.version == 1 else "cpu.max") is not None
        self.storage = (
            bool(self._roots) and self._file(0, "blkio.throttle.read_bps_device" if self.version == 1 else "io.max") is not None
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def enter(self, rank: int) -> None:
        """The calling process and what it starts belong to that rank."""
        for root in self._roots.values():
            (root / f"rank-{rank}" / "cgroup.procs").write_text(str(os.getpid()))

    def cpu_share(self, rank: int, share: float | None) -> None:
        """`share` of one core; None: as much as there is."""
        if self.version == 1:
            self._write(rank, "cpu.cfs_quota_us", str(int(PERIOD_US * share)) if share else "-1")
        else:
            self._write(rank, "cpu.max", f"{int(PERIOD_US * share)} {PERIOD_US}" if share else f"max {PERIOD_US}")

    def read_rate(self, rank: int, bytes_per_s: int | None, folder: Path) -> None:
        """From the device that holds `folder`; None: as fast as it goes."""
        number = folder.stat().st_dev
        device = f"{os.major(number)}:{os.minor(number)}"
        if self.version == 1:
            self._write(rank, "blkio.throttle.read_bps_device", f"{device} {bytes_per_s or 0}")
        else:
            self._write(rank, "io.max", f"{device} rbps={bytes_per_s or 'max'}")

    def _make(self, root: Path) -> None:
        root.mkdir()
        if self.version == 2:
            for folder in (root.parent, root):
                (folder / "cgroup.subtree_control").write_text("+cpu +io")
        for rank in range(self.ranks):
            (root / f"rank-{rank}").mkdir()

    def _file(self, rank: int, name: str) -> Path | None:
        return next((p for root in self._roots.values() if (p := root / f"rank-{rank}" / name).exists()), None)

    def _write(self, rank: int, name: str, text: str) -> None:
        path = self._file(rank, name)
        if path is not None:
            path.write_text(text)

    def _remove(self) -> None:
        for root in self._roots.values():
            _remove(root)


def _mounts() -> tuple[dict[str, Path], Path | None]:
    """Where the controllers of version 1 and where version 2 are mounted."""
    first: dict[str, Path] = {}
    second = None
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return {}, None
    for line in lines:
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup":
            first.update({word: Path(place) for word in options.split(",") if word in ("cpu", "blkio")})
        elif kind == "cgroup2":
            second = Path(place)
    return first, second


def _remove_left(parent: Path) -> None:
    """Groups of launchers that are gone."""
    for folder in parent.glob(f"{NAME}-*"):
        match = _LEFT.fullmatch(folder.name)
        if match and not Path(f"/proc/{match[1]}").exists():
            _remove(folder)


def _remove(root: Path) -> None:
    """The processes that are still inside are this job's own; then the folders, once the kernel lets them go."""
    for folder in [*sorted(root.glob("rank-*")), root]:
        for attempt in range(50):
            try:
                for pid in (folder / "cgroup.procs").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
                folder.rmdir()
            except ProcessLookupError:
                continue
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.02 * (1 + attempt // 10))
            else:
                break
