"""What can go wrong in the live job: how each fault is switched on and off, and where it should show.

A fault is a context: it is gone when the context is left, however that happens. `parts` is where its time should appear on
`ranks`; the others wait. Strengths are those of the table in docs/real-faults.md.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nodes import linux
from nodes.words import HEAP

if TYPE_CHECKING:
    from nodes.live import Live

ALL: Final = (0, 1, 2, 3)
OWN: Final = ("input_wait", "forward", "backward", "optimizer", "other_compute", "checkpoint", "host_bound")
RATE: Final = "100mbit"
LOSS: Final = 20  # of 1000 packets
DELAY_US: Final = 5000  # each way
SHARE: Final = 0.1  # of a core
STOPPED_S, RUNNING_S = 0.4, 0.6
HOGS: Final = 2 * (os.cpu_count() or 1)
READ_BYTES_PER_S: Final = 1_500_000
READ_MS: Final = 1400  # a batch
DUTY_S: Final = 0.05

Switch = Callable[["Live"], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Fault:
    """`fault(live)` switches it on. `signal` is the counter that decides, `around` what holds for its healthy windows, too,
    which is what `path` names.

    `span` times the usual steps show it: more for what is only in the tail, fewer for what makes each step long.
    `lacking` says why this machine cannot do it, or None. `ends` marks those after which the job does not go on.
    """

    name: str
    does: str
    switch: Switch
    ranks: tuple[int, ...]
    parts: tuple[str, ...]
    signal: str | None = None
    lacking: Callable[[Live], str | None] = lambda live: None
    path: str = ""
    around: Switch = lambda live: nullcontext()
    ends: bool = False
    span: float = 1.0

    def __call__(self, live: Live) -> AbstractContextManager[None]:
        """On while the context lasts."""
        return self.switch(live)


def _network(live: Live) -> str | None:
    return None if live.network is not None else "needs two nodes, which need root on Linux"


def _nft(live: Live) -> str | None:
    return _network(live) or (None if shutil.which("nft") else "nft is not installed (apt-get install nftables)")


def _slow_wire(live: Live) -> AbstractContextManager[None]:
    assert live.network is not None
    return live.network.slow(RATE)


def _loss(live: Live) -> AbstractContextManager[None]:
    assert live.network is not None
    return live.network.loses(LOSS)


def _path(live: Live) -> AbstractContextManager[None]:
    """The way on which packets can be held: nothing to do where the kernel itself can."""
    assert live.network is not None
    return nullcontext() if live.network.has_netem() else live.network.relayed()


@contextmanager
def _delay(live: Live) -> Iterator[None]:
    assert live.network is not None
    if live.network.has_netem():
        with live.network.netem(DELAY_US):
            yield
        return
    live.words.delay_us = DELAY_US
    try:
        yield
    finally:
        live.words.delay_us = 0


def _starved(live: Live) -> AbstractContextManager[None]:
    return _quota(live, 3) if live.limits.cpu else pulses(live.pids[3], DUTY_S * (1 - SHARE), DUTY_S * SHARE)


@contextmanager
def _quota(live: Live, rank: int) -> Iterator[None]:
    try:
        live.limits.cpu_share(rank, SHARE)
        yield
    finally:
        live.limits.cpu_share(rank, None)


@contextmanager
def pulses(pid: int, stopped_s: float, running_s: float) -> Iterator[None]:
    """A helper stops the process and lets it go again, in turns; at the end it runs."""

    def beat() -> None:
        while True:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(stopped_s)
            os.kill(pid, signal.SIGCONT)
            time.sleep(running_s)

    helper = linux.forked(beat)
    try:
        yield
    finally:
        linux.end([helper])
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _pulsed(live: Live) -> AbstractContextManager[None]:
    return pulses(live.pids[1], STOPPED_S, RUNNING_S)


@contextmanager
def _hogs(live: Live) -> Iterator[None]:
    def burn() -> None:
        while True:
            pass

    helpers: list[int] = []
    try:
        for _ in range(HOGS):
            helpers.append(linux.forked(burn))
        yield
    finally:
        linux.end(helpers)


def _storage(live: Live) -> AbstractContextManager[None]:
    return _throttled(live, 1) if live.limits.storage else _slow_reader(live, 1)


@contextmanager
def _throttled(live: Live, rank: int) -> Iterator[None]:
    try:
        live.limits.read_rate(rank, READ_BYTES_PER_S, live.tokens)
        yield
    finally:
        live.limits.read_rate(rank, None, live.tokens)


@contextmanager
def _slow_reader(live: Live, rank: int) -> Iterator[None]:
    live.words.read_ms[rank] = READ_MS
    try:
        yield
    finally:
        live.words.read_ms[rank] = 0


@contextmanager
def _garbage(live: Live) -> Iterator[None]:
    live.words.collect[1] = 1
    try:
        yield
    finally:
        live.words.collect[1] = 0


@contextmanager
def _hang(live: Live) -> Iterator[None]:
    live.words.hang_at[3] = int(live.words.step.max()) + 2
    yield


@contextmanager
def _killed(live: Live) -> Iterator[None]:
    os.kill(live.pids[3], signal.SIGKILL)
    yield


@contextmanager
def _mismatch(live: Live) -> Iterator[None]:
    live.words.differ_at[3] = int(live.words.step.max()) + 2
    yield


FAULTS: Final = {
    fault.name: fault
    for fault in (
        Fault("slow-wire", f"the wire between the nodes carries {RATE} (tc tbf)",
              _slow_wire, ALL, ("comm_transfer",), lacking=_network, span=0.5),
        Fault("packet-loss", f"{LOSS / 10:.0f} % of the packets between the nodes are dropped (nftables)",
              _loss, ALL, ("comm_transfer",), "tcp_retransmits", _nft),
        Fault("delay", f"{DELAY_US / 1000:.0f} ms more each way between the nodes (netem, or a relay on TUN devices)",
              _delay, ALL, ("comm_transfer",), lacking=_network, path="relayed", around=_path),
        Fault("starved-cpu", f"rank 3 gets {SHARE:.0%} of a core (its control group's quota, else stopped in turns)",
              _starved, (3,), OWN, "throttled"),
        Fault("stop-pulses", f"rank 1 is stopped for {STOPPED_S} s of every {STOPPED_S + RUNNING_S:.0f} s (SIGSTOP)",
              _pulsed, (1,), OWN, span=2.5),
        Fault("noisy-neighbours", f"{HOGS} processes of somebody else take all the CPU they get",
              _hogs, ALL, OWN, "run_queue_wait"),
        Fault("slow-storage", f"rank 1 reads at {READ_BYTES_PER_S / 1e6} MB/s (its control group's limit, else a slow reader)",
              _storage, (1,), ("input_wait",), "io_pressure"),
        Fault("gc-pause", f"rank 1 collects a heap of {HEAP / 1e6} million objects in each step",
              _garbage, (1,), ("host_bound",), "gc_pause"),
        Fault("hang", "rank 3 stops before a collective", _hang, (3,), (), ends=True),
        Fault("killed-rank", "rank 3 is killed (SIGKILL)", _killed, (3,), (), ends=True),
        Fault("mismatched-collective", "rank 3 calls an all-reduce where the others gather", _mismatch, (3,), (), ends=True),
    )
}  # fmt: skip
