"""What does the host say beside the work? Files of /proc and /sys, read once a second by the recorder's own thread.

Values in base units, words as in `model.metrics` where it has them. Scope `rank` is this process, `host` its machine (a cgroup or
a network namespace, where it has its own), `gpu` its device, `nic:NAME` a NIC. A file that is not there is not asked again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

Signal = tuple[str, str, str, float]
"""Scope, metric, unit, value."""

Reader = Callable[[], Iterator[Signal]]
TICK: Final = 1 / os.sysconf("SC_CLK_TCK")
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_DISK: Final = re.compile(r"^(?:sd[a-z]+|vd[a-z]+|xvd[a-z]+|nvme\d+n\d+|dm-\d+|md\d+)$")
_PORT_COUNTERS: Final = {
    "data_sent": ("counters/port_xmit_data", "bytes", 4), "data_received": ("counters/port_rcv_data", "bytes", 4),
    "transmit_wait": ("counters/port_xmit_wait", "ticks", 1), "symbol_errors": ("counters/symbol_error", "count", 1),
    "link_downs": ("counters/link_downed", "count", 1), "out_of_sequence": ("hw_counters/out_of_sequence", "count", 1),
    "ack_timeouts": ("hw_counters/local_ack_timeout_err", "count", 1),
}  # fmt: skip


class Signals:
    """Readers of what this process and, where `machine`, its host have. `thread` is the native id of the training thread."""

    def __init__(self, thread: int, machine: bool = True) -> None:
        self.thread = thread
        self._cgroup = _cgroup()
        self.readers: list[Reader] = [self._process, self._queue, self._rss, self._throttling, self._storage]
        if machine:  # one rank of a host is enough
            ports = sorted(Path("/sys/class/infiniband").glob("*/ports/*"))
            self.readers += [self._memory, self._pressure, self._network, self._disks, *map(_nic, ports)]

    def read(self) -> list[Signal]:
        """All of them now; one that fails is left out from then on."""
        found: list[Signal] = []
        for reader in list(self.readers):
            try:
                found += reader()
            except (OSError, ValueError, IndexError, KeyError):
                self.readers.remove(reader)
        return found

    def _process(self) -> Iterator[Signal]:
        times = os.times()
        yield "rank", "process_cpu", "s", times.user + times.system

    def _queue(self) -> Iterator[Signal]:
        """The training thread: on a CPU, and runnable without one."""
        ran, waited, _ = Path(f"/proc/self/task/{self.thread}/schedstat").read_text().split()
        yield "rank", "thread_cpu", "s", int(ran) / 1e9
        yield "rank", "run_queue_wait", "s", int(waited) / 1e9

    def _rss(self) -> Iterator[Signal]:
        yield "rank", "host_rss", "bytes", float(int(Path("/proc/self/statm").read_text().split()[1]) * PAGE)

    def _memory(self) -> Iterator[Signal]:
        for line in Path("/proc/meminfo").read_text().splitlines()[:3]:
            word, value = line.split()[:2]
            if word in ("MemTotal:", "MemAvailable:"):
                yield "host", "host_memory" if word == "MemTotal:" else "host_memory_available", "bytes", float(value) * 1024

    def _pressure(self) -> Iterator[Signal]:
        """Time in which somebody waited for CPU, memory or storage: of the cgroup where it has its own, else of the machine."""
        for what in ("cpu", "memory", "io"):
            own = self._cgroup / f"{what}.pressure" if self._cgroup else None
            path = own if own is not None and own.exists() else Path("/proc/pressure") / what
            if path.exists():
                yield "host", f"{what}_pressure", "s", int(path.read_text().split("total=", 2)[1].split()[0]) / 1e6

    def _throttling(self) -> Iterator[Signal]:
        """How often and how long a CPU quota held the cgroup back (both versions of cgroups)."""
        version1 = _controller("cpu")
        candidates = [self._cgroup / "cpu.stat" if self._cgroup else None, version1 / "cpu.stat" if version1 else None]
        for path in candidates:
            if path is None or not path.exists():
                continue
            words = dict(line.split() for line in path.read_text().splitlines())
            if "nr_throttled" in words:
                yield "rank", "throttled_periods", "count", float(words["nr_throttled"])
                ns = int(words["throttled_time"]) if "throttled_time" in words else int(words.get("throttled_usec", 0)) * 1000
                yield "rank", "throttled", "s", ns / 1e9
                return

    def _network(self) -> Iterator[Signal]:
        """Of the process's network namespace."""
        names, values = [line.split() for line in Path("/proc/self/net/snmp").read_text().splitlines() if line.startswith("Tcp:")]
        yield "host", "tcp_retransmits", "count", float(values[names.index("RetransSegs")])
        received = sent = 0
        for line in Path("/proc/self/net/dev").read_text().splitlines()[2:]:
            device, _, counters = line.partition(":")
            if device.strip() != "lo":
                fields = counters.split()
                received, sent = received + int(fields[0]), sent + int(fields[8])
        yield "host", "network_received", "bytes", float(received)
        yield "host", "network_sent", "bytes", float(sent)

    def _disks(self) -> Iterator[Signal]:
        for line in Path("/proc/diskstats").read_text().splitlines():
            fields = line.split()
            if _DISK.match(fields[2]) and int(fields[3]) + int(fields[7]):
                yield f"disk:{fields[2]}", "storage_read", "bytes", int(fields[5]) * 512.0
                yield f"disk:{fields[2]}", "storage_written", "bytes", int(fields[9]) * 512.0
                yield f"disk:{fields[2]}", "storage_wait", "s", (int(fields[6]) + int(fields[10])) / 1e3

    def _storage(self) -> Iterator[Signal]:
        for line in Path("/proc/self/io").read_text().splitlines():
            if line.startswith("read_bytes:"):
                yield "rank", "storage_read", "bytes", float(line.split()[1])
            elif line.startswith("write_bytes:"):
                yield "rank", "storage_written", "bytes", float(line.split()[1])


def _nic(port: Path) -> Reader:
    name = port.parent.parent.name

    def read() -> Iterator[Signal]:
        for metric, (file, unit, factor) in _PORT_COUNTERS.items():
            path = port / file
            if path.exists():
                yield f"nic:{name}", metric, unit, float(path.read_text()) * factor
        rate = (port / "rate").read_text().split()
        yield f"nic:{name}", "port_rate", "bytes/s", float(rate[0]) * 1e9 / 8
        yield f"nic:{name}", "port_state", "count", float((port / "state").read_text().split(":")[0])

    return read


def _cgroup() -> Path | None:
    """The folder of this process's cgroup, version 2; None at the root, where it is the machine's."""
    try:
        line = next(line for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return None
    name = line[3:].strip("/")
    return next(
        (base / name for base in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")) if name and (base / name).is_dir()),
        None,
    )


def _controller(controller: str) -> Path | None:
    """The folder of a controller of cgroups version 1."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controller in controllers.split(","):
            for base in (Path("/sys/fs/cgroup") / controllers, Path("/sys/fs/cgroup") / controller):
                if (folder := base / name.strip("/")).is_dir():
                    return folder
    return None
