"""Two nodes: network namespaces joined by a veth pair, each with a name of its own; and what can go wrong on the wire between.

A holder process keeps each node's namespaces; the kernel removes them, the wire and whatever was set on it with the last process
inside, so nothing stays behind even after `kill -9`. Needs root and Linux. Rates in bits a second as `tc` writes them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

from nodes import linux
from nodes.words import Words

WIRE: Final = "veth0"
RELAYED: Final = "tun0"
ADDRESSES: Final = ("10.77.0.1", "10.77.0.2")  # seen by nobody outside the two namespaces
MTU: Final = 9000  # as most training clusters have it
TUNSETIFF: Final = 0x400454CA  # linux/if_tun.h
IFF_TUN: Final = 0x0001
IFF_NO_PI: Final = 0x1000
PACKETS: Final = 64  # that the relay reads before it looks at what is due
LOSS: Final = """table ip stepscope {{
  chain loss {{
    type filter hook input priority 0; policy accept;
    ip saddr {peer} numgen random mod 1000 < {thousandths} drop
  }}
}}
"""


def missing() -> str | None:
    """Why this machine cannot have two nodes; None where it can."""
    if not hasattr(os, "geteuid") or not os.path.exists("/proc/self/ns/net"):  # noqa: PTH110
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if lacking := [tool for tool in ("ip", "tc", "nsenter") if shutil.which(tool) is None]:
        return f"{' and '.join(lacking)} not found (iproute2 and util-linux have them)"
    return None


class Network:
    """The two nodes while the context lasts. `holders` are the processes that keep their namespaces."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.holders: list[int] = []
        self._stack = ExitStack()

    def __enter__(self) -> Network:
        try:
            for node in range(2):
                self.holders.append(_holder(f"node{node}"))
                self._stack.callback(linux.end, [self.holders[-1]])
            one, two = self.holders
            _call("ip", "link", "add", WIRE, "netns", str(one), "type", "veth", "peer", "name", WIRE, "netns", str(two))
            for node, address in enumerate(ADDRESSES):
                self._in(node, "ip", "link", "set", "lo", "up")
                self._in(node, "ip", "address", "add", f"{address}/30", "dev", WIRE)
                self._in(node, "ip", "link", "set", WIRE, "mtu", str(MTU), "up")
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def enter(self, node: int) -> None:
        """The calling process moves to that node."""
        linux.enter(self.holders[node], "net", "uts")

    @contextmanager
    def slow(self, rate: str) -> Iterator[None]:
        """The wire carries no more than `rate` each way."""
        try:
            for node in range(2):
                self._in(node, "tc", "qdisc", "replace", "dev", WIRE, "root", "tbf",
                         "rate", rate, "burst", "128kb", "latency", "200ms")  # fmt: skip
            yield
        finally:
            for node in range(2):
                self._in(node, "tc", "qdisc", "del", "dev", WIRE, "root", check=False)

    @contextmanager
    def loses(self, thousandths: int) -> Iterator[None]:
        """So many of a thousand packets that arrive on either node are dropped."""
        try:
            for node in range(2):
                self._in(node, "nft", "-f", "-", text=LOSS.format(peer=ADDRESSES[1 - node], thousandths=thousandths))
            yield
        finally:
            for node in range(2):
                self._in(node, "nft", "delete", "table", "ip", "stepscope", check=False)

    def has_netem(self) -> bool:
        """Does this kernel know the queue that delays?"""
        found = self._in(0, "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms", check=False)
        self._in(0, "tc", "qdisc", "del", "dev", "lo", "root", check=False)
        return found

    @contextmanager
    def netem(self, delay_us: int) -> Iterator[None]:
        """Each packet leaves later by so much."""
        try:
            for node in range(2):
                self._in(
                    node, "tc", "qdisc", "replace", "dev", WIRE, "root", "netem", "delay", f"{delay_us}us", "limit", "100000"
                )
            yield
        finally:
            for node in range(2):
                self._in(node, "tc", "qdisc", "del", "dev", WIRE, "root", check=False)

    @contextmanager
    def relayed(self) -> Iterator[None]:
        """All packets go through a process that can hold them for `words.delay_us`; 0 is the healthy case to compare with."""
        self.words.delay_us = 0
        made, tell = os.pipe()
        pid = linux.forked(lambda: _relay(self, tell))
        os.close(tell)
        try:
            if os.read(made, 1) != b"1":
                raise OSError(errno.ENODEV, "the relay could not make its devices (/dev/net/tun)")
            for node in range(2):
                self._in(node, "ip", "link", "set", RELAYED, "mtu", str(MTU), "up")
            for node in range(2):
                self._in(node, "ip", "route", "replace", f"{ADDRESSES[1 - node]}/32", "dev", RELAYED, "src", ADDRESSES[node])
            yield
        finally:
            for node in range(2):
                self._in(node, "ip", "route", "del", f"{ADDRESSES[1 - node]}/32", "dev", RELAYED, check=False)
            os.close(made)
            linux.end([pid])
            self.words.delay_us = 0

    def _in(self, node: int, *words: str, check: bool = True, text: str | None = None) -> bool:
        return _call("nsenter", "-t", str(self.holders[node]), "-n", *words, check=check, text=text)


def _call(*words: str, check: bool = True, text: str | None = None) -> bool:
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False, timeout=30)
    if check and done.returncode:
        raise OSError(errno.EINVAL, f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.returncode == 0


def _holder(name: str) -> int:
    """A process with a network and a name of its own that does nothing; its process id."""
    made, tell = os.pipe()

    def hold() -> None:
        linux.unshare(linux.CLONE_NEWNET | linux.CLONE_NEWUTS)
        socket.sethostname(name)
        for kind in ("all", "default"):  # packets that come back by the relay are no forgeries
            with suppress(OSError), open(f"/proc/sys/net/ipv4/conf/{kind}/rp_filter", "w") as file:  # noqa: PTH123
                file.write("0")
        os.write(tell, b"1")
        while True:
            signal.pause()

    pid = linux.forked(hold)
    os.close(tell)
    ready = os.read(made, 1)
    os.close(made)
    if ready != b"1":
        linux.end([pid])
        raise OSError(errno.EPERM, "this machine gives no network namespace")
    return pid


def _relay(network: Network, tell: int) -> None:
    """Passes packets between the nodes' TUN devices, each after the delay that holds when it came."""
    ends = []
    for holder in network.holders:
        linux.enter(holder, "net")
        device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", RELAYED.encode(), IFF_TUN | IFF_NO_PI))
        ends.append(device)
    os.write(tell, b"1")
    held: deque[tuple[float, int, bytes]] = deque()
    other = {ends[0]: ends[1], ends[1]: ends[0]}
    while True:
        timeout = max(held[0][0] - time.monotonic(), 0) if held else None
        ready, _, _ = select.select(ends, [], [], timeout)
        now = time.monotonic()
        due = now + network.words.delay_us / 1e6
        for end in ready:
            with suppress(OSError):  # read until it would block
                for _ in range(PACKETS):
                    held.append((due, other[end], os.read(end, 1 << 16)))
        now = time.monotonic()
        while held and held[0][0] <= now:
            _, end, packet = held.popleft()
            with suppress(OSError):  # a full device drops, as a router would
                os.write(end, packet)
