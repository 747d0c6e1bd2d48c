"""Two nodes, limits and helpers: what is switched on is on, and nothing of it is left afterwards. Without torch."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from nodes import faults, linux
from nodes.limits import Limits
from nodes.measured import _lateness
from nodes.network import ADDRESSES, Network
from nodes.words import NEVER, Words

if sys.platform != "linux":
    pytest.skip("processes and control groups of Linux", allow_module_level=True)
PORT = 4711
PATIENCE_S = 20


def until(true: Callable[[], bool]) -> bool:
    """Whether it becomes true in good time."""
    end = time.monotonic() + PATIENCE_S
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return true()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def sleeper() -> int:
    return linux.forked(lambda: time.sleep(PATIENCE_S))


def children() -> set[int]:
    tasks = Path(f"/proc/{os.getpid()}/task")
    return {int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()}


def test_words_are_shared_by_processes() -> None:
    words = Words(4)
    assert words.stop_at == NEVER
    assert words.step.tolist() == [-1] * 4

    def tell() -> None:
        words.step[2] = 7
        words.stop_at = 9

    os.waitpid(linux.forked(tell), 0)
    assert (words.step.tolist(), words.stop_at) == ([-1, -1, 7, -1], 9)


def test_a_pulsed_process_runs_again_afterwards() -> None:
    pid = sleeper()
    with faults.pulses(pid, 0.02, 0.02):
        assert until(lambda: state(pid) == "T")
        assert until(lambda: state(pid) != "T")
    assert until(lambda: state(pid) != "T")
    linux.end([pid])
    assert not Path(f"/proc/{pid}").exists()


def test_hogs_are_gone_afterwards_also_after_an_exception() -> None:
    before = children()
    with pytest.raises(RuntimeError), faults.FAULTS["noisy-neighbours"](None):  # type: ignore[arg-type]  # needs no job
        assert len(children() - before) == faults.HOGS
        raise RuntimeError
    assert children() == before


def test_children_die_with_a_killed_launcher(tmp_path: Path) -> None:
    told = tmp_path / "pid"

    def launch() -> None:
        told.write_text(str(sleeper()))
        time.sleep(PATIENCE_S)

    launcher = linux.forked(launch)
    assert until(lambda: told.exists() and told.read_text() != "")
    child = int(told.read_text())
    assert Path(f"/proc/{child}").exists()
    linux.end([launcher])
    assert until(lambda: not Path(f"/proc/{child}").exists() or state(child) == "Z")


def test_limits_are_set_lifted_and_removed(tmp_path: Path) -> None:
    with Limits(2) as limits:
        if not limits.cpu:
            pytest.skip("no control group may be made here")
        name = "cpu.cfs_quota_us" if limits.version == 1 else "cpu.max"
        path = limits._file(1, name)
        assert path is not None
        limits.cpu_share(1, 0.2)
        assert path.read_text().split()[0] == "20000"
        limits.cpu_share(1, None)
        assert path.read_text().split()[0] in ("-1", "max")

        def inside() -> None:
            limits.enter(1)
            time.sleep(PATIENCE_S)

        pid = linux.forked(inside)
        assert until(lambda: str(pid) in (path.parent / "cgroup.procs").read_text().split())
    assert not path.parent.parent.exists()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def shown(network: Network, *words: str) -> str:
    return subprocess.run(
        ["nsenter", "-t", str(network.holders[0]), "-n", *words], capture_output=True, text=True, check=False
    ).stdout


def round_trip_s(network: Network) -> float:
    """Of one byte there and back, between processes on the two nodes."""

    def serve() -> None:
        network.enter(0)
        with socket.create_server((ADDRESSES[0], PORT)) as server:
            connection, _ = server.accept()
            connection.sendall(connection.recv(1))

    def ask() -> None:
        network.enter(1)
        for _ in range(100):
            try:
                connection = socket.create_connection((ADDRESSES[0], PORT), timeout=PATIENCE_S)
                break
            except ConnectionRefusedError:
                time.sleep(0.02)
        began = time.monotonic()
        connection.sendall(b"?")
        connection.recv(1)
        os.write(tell, f"{time.monotonic() - began}".encode())

    heard, tell = os.pipe()
    both = [linux.forked(serve), linux.forked(ask)]
    os.close(tell)
    said = os.read(heard, 64)
    os.close(heard)
    linux.end(both)
    return float(said)


def test_the_wire_is_slow_and_whole_again(two_nodes: None) -> None:
    with Network(Words(4)) as network:
        with network.slow("100mbit"):
            assert "tbf" in shown(network, "tc", "qdisc", "show", "dev", "veth0")
        assert "tbf" not in shown(network, "tc", "qdisc", "show", "dev", "veth0")
        holders = list(network.holders)
    assert not any(Path(f"/proc/{pid}").exists() for pid in holders)


def test_packets_are_dropped_and_no_more(two_nodes: None) -> None:
    if shutil.which("nft") is None:
        pytest.skip("nft is not installed")
    with Network(Words(4)) as network:
        try:
            with network.loses(20):
                assert "drop" in shown(network, "nft", "list", "ruleset")
        except OSError as error:
            pytest.skip(f"this kernel drops no packets at random: {error}")
        assert shown(network, "nft", "list", "ruleset") == ""


def test_a_relayed_packet_takes_the_delay_each_way(two_nodes: None) -> None:
    if not Path("/dev/net/tun").exists():
        pytest.skip("no TUN devices here")
    words = Words(4)
    with Network(words) as network:
        with network.relayed():
            words.delay_us = 50_000
            assert round_trip_s(network) >= 0.1
        assert "tun0" not in shown(network, "ip", "route")
        assert round_trip_s(network) > 0


def test_lateness_is_against_the_first_and_only_where_all_joined() -> None:
    ms = 1_000_000
    rows = [
        (0, 0, 5, 10 * ms),
        (1, 0, 5, 13 * ms),
        (0, 1, 5, 20 * ms),
        (1, 1, 5, 19 * ms),
        (0, 2, 5, 30 * ms),
        (0, 3, 6, 40 * ms),
    ]
    frame = pl.DataFrame(rows, schema=["rank", "match", "step", "arrive_ns"], orient="row")
    assert _lateness(frame, 2) == {(0, 5): 1.0, (1, 5): 3.0}
