"""The text that tools would have printed, read back by small parsers of our own."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import msgspec
import polars as pl
import pytest

from stepscope.simulator.emit.flight_recorder import dump
from stepscope.simulator.emit.inventory import WALL_NS, process_groups
from stepscope.simulator.emit.nccl_log import nccl_log
from stepscope.simulator.emit.nccl_trees import neighbours
from stepscope.simulator.emit.nic_counters import write_counters
from stepscope.simulator.emit.prometheus import write_metrics
from stepscope.simulator.emit.topology import nvlink_status, topology
from stepscope.simulator.faults.effect import Draw
from stepscope.simulator.faults.fault import parse_fault
from stepscope.simulator.faults.hang import hang_at
from stepscope.simulator.job import Job
from stepscope.simulator.nccl.settings import NcclSettings
from stepscope.simulator.noise import Noise
from stepscope.simulator.signals import signals_of
from stepscope.sources.flight_recorder import read_dumps
from tests.simulator.emit.build import a_job, some_steps

PLAN = "fsdp=16,seq=2048"

HGX_H100 = """\
\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tNIC0\tNIC1\tNIC2\tNIC3\tNIC4\tNIC5\tNIC6\tNIC7\tCPU Affinity\
\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\tPIX\tNODE\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\t0-55,112-167\t0\t\tN/A
GPU1\tNV18\t X \tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\tNODE\tPIX\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\t0-55,112-167\t0\t\tN/A
GPU2\tNV18\tNV18\t X \tNV18\tNV18\tNV18\tNV18\tNV18\tNODE\tNODE\tPIX\tNODE\tSYS\tSYS\tSYS\tSYS\t0-55,112-167\t0\t\tN/A
GPU3\tNV18\tNV18\tNV18\t X \tNV18\tNV18\tNV18\tNV18\tNODE\tNODE\tNODE\tPIX\tSYS\tSYS\tSYS\tSYS\t0-55,112-167\t0\t\tN/A
GPU4\tNV18\tNV18\tNV18\tNV18\t X \tNV18\tNV18\tNV18\tSYS\tSYS\tSYS\tSYS\tPIX\tNODE\tNODE\tNODE\t56-111,168-223\t1\t\tN/A
GPU5\tNV18\tNV18\tNV18\tNV18\tNV18\t X \tNV18\tNV18\tSYS\tSYS\tSYS\tSYS\tNODE\tPIX\tNODE\tNODE\t56-111,168-223\t1\t\tN/A
GPU6\tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\t X \tNV18\tSYS\tSYS\tSYS\tSYS\tNODE\tNODE\tPIX\tNODE\t56-111,168-223\t1\t\tN/A
GPU7\tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\tNV18\t X \tSYS\tSYS\tSYS\tSYS\tNODE\tNODE\tNODE\tPIX\t56-111,168-223\t1\t\tN/A
NIC0\tPIX\tNODE\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\t X \tNODE\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\t\t\t
NIC1\tNODE\tPIX\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\tNODE\t X \tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\t\t\t
NIC2\tNODE\tNODE\tPIX\tNODE\tSYS\tSYS\tSYS\tSYS\tNODE\tNODE\t X \tNODE\tSYS\tSYS\tSYS\tSYS\t\t\t
NIC3\tNODE\tNODE\tNODE\tPIX\tSYS\tSYS\tSYS\tSYS\tNODE\tNODE\tNODE\t X \tSYS\tSYS\tSYS\tSYS\t\t\t
NIC4\tSYS\tSYS\tSYS\tSYS\tPIX\tNODE\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\t X \tNODE\tNODE\tNODE\t\t\t
NIC5\tSYS\tSYS\tSYS\tSYS\tNODE\tPIX\tNODE\tNODE\tSYS\tSYS\tSYS\tSYS\tNODE\t X \tNODE\tNODE\t\t\t
NIC6\tSYS\tSYS\tSYS\tSYS\tNODE\tNODE\tPIX\tNODE\tSYS\tSYS\tSYS\tSYS\tNODE\tNODE\t X \tNODE\t\t\t
NIC7\tSYS\tSYS\tSYS\tSYS\tNODE\tNODE\tNODE\tPIX\tSYS\tSYS\tSYS\tSYS\tNODE\tNODE\tNODE\t X \t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
  NIC2: mlx5_2
  NIC3: mlx5_3
  NIC4: mlx5_4
  NIC5: mlx5_5
  NIC6: mlx5_6
  NIC7: mlx5_7

"""


def crossed(job: Job) -> Job:
    """The same with the NIC of node1/gpu3 in a slot of the other socket."""
    return replace(job, cluster=job.cluster.with_node(1, job.cluster.node.with_nic_across(3)))


def test_the_topology_of_an_hgx_node() -> None:
    job = a_job(PLAN)

    assert topology(job.cluster.node, job.gpu) == HGX_H100


def test_a_nic_in_the_wrong_slot_is_seen_in_the_topology() -> None:
    job = crossed(a_job(PLAN))
    row = topology(job.cluster.wiring(1), job.gpu).splitlines()[4].split("\t")

    assert row[0] == "GPU3"
    assert row[1 + 8 + 3] == "SYS"


def test_links_that_are_down_are_inactive() -> None:
    job = a_job(PLAN)
    half = [msgspec.structs.replace(link, capacity_bytes_per_s=link.capacity_bytes_per_s / 2)
            for link in job.cluster.links_at("node0/gpu2") if link.kind == "scale_up"]  # fmt: skip
    lines = nvlink_status(replace(job, cluster=job.cluster.with_links(*half)), 0).splitlines()

    assert lines[0].startswith("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-")
    assert lines[1] == "\t Link 0: 25.000 GB/s"
    assert [line.count("inactive") for line in lines].count(1) == 9
    assert all("inactive" not in line for line in lines[: 2 * 19])


SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+) (\d+)$")


def parsed(text: str) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Prometheus text: (name, labels) -> samples; each metric has one HELP and one TYPE before it."""
    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    known: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in known
            known[name] = kind
        elif not line.startswith("# HELP "):
            match = SAMPLE.match(line)
            assert match is not None, line
            assert match[1] in known, line
            found.setdefault((match[1], match[2] or ""), []).append((int(match[4]), float(match[3])))
    assert set(known.values()) == {"gauge", "counter"}
    return found


@pytest.fixture(scope="module")
def signals() -> pl.DataFrame:
    return signals_of(some_steps(a_job(PLAN), noise=Noise.none()))


def test_metrics_are_what_exporters_print(signals: pl.DataFrame, tmp_path: Path) -> None:
    write_metrics(tmp_path, signals, a_job(PLAN))
    found = parsed((tmp_path / "node1.prom").read_text())
    clocks = {labels: rows for (name, labels), rows in found.items() if name == "DCGM_FI_DEV_SM_CLOCK"}
    sent = next(rows for (name, labels), rows in found.items()
                if name == "node_infiniband_port_data_transmitted_bytes_total" and 'device="mlx5_3"' in labels)  # fmt: skip
    own = signals.filter((pl.col("scope") == "node1/nic3") & (pl.col("metric") == "data_sent"))

    assert sorted(p.name for p in tmp_path.iterdir()) == ["node0.prom", "node1.prom"]
    assert len(clocks) == 8
    assert {value for rows in clocks.values() for _, value in rows} == {1980.0}
    assert all('Hostname="node1"' in labels and 'modelName="NVIDIA H100 80GB HBM3"' in labels for labels in clocks)
    assert [value for _, value in sent] == pytest.approx(own["value"].to_list(), rel=1e-8)
    assert [at for at, _ in sent] == [(WALL_NS + t) // 1_000_000 for t in own["time_ns"]]
    assert ("node_cpu_seconds_total", 'cpu="111",mode="idle"') in found


def test_counters_before_and_after(signals: pl.DataFrame, tmp_path: Path) -> None:
    write_counters(tmp_path, signals, a_job(PLAN))
    port = Path("node1/mlx5_3/ports/1")
    words = [int((tmp_path / moment / port / "counters/port_xmit_data").read_text()) for moment in ("before", "after")]
    moved = signals.filter((pl.col("scope") == "node1/nic3") & (pl.col("metric") == "data_sent"))["value"]

    assert (tmp_path / "after" / port / "rate").read_text() == "400 Gb/sec (4X NDR)\n"
    assert (tmp_path / "after" / port / "state").read_text() == "4: ACTIVE\n"
    assert (words[1] - words[0]) * 4 == pytest.approx(float(moved[-1] - moved[0]), abs=8)  # type: ignore[operator]
    assert (tmp_path / "after" / port / "hw_counters/out_of_sequence").read_text() == "0\n"


def logs(job: Job) -> list[str]:
    prepared = some_steps(job, steps=1)[0].prepared
    return [nccl_log(prepared, rank, process_groups(job)) for rank in range(job.ranks)]


def test_the_log_of_a_healthy_job() -> None:
    found = logs(a_job(PLAN))
    ring = re.search(r"Channel 00/(\d+) : ([\d ]+)\n", found[0])
    hops = [(int(a), int(b)) for log in found for a, b in re.findall(r"Channel 00/0 : (\d+)\[\d\] -> (\d+)\[\d\](?! \[rec)", log)]

    assert "NCCL version 2.30.7+cuda13.0\n" in found[0]
    assert "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB" in found[3]
    assert all("Using network IB" in log and "Init COMPLETE" in log for log in found)
    assert ring is not None
    order = [int(r) for r in ring[2].split()]
    assert sorted(order) == list(range(16))
    assert sorted(hops) == sorted(zip(order, [*order[1:], order[0]], strict=True))
    assert all(line.endswith("/GDRDMA") for log in found for line in log.splitlines() if "via NET/IB" in line)
    assert re.search(r"AllGather: \d+ Bytes -> Algo RING proto SIMPLE channel\{Lo\.\.Hi\}=\{0\.\.15\}", found[0])
    assert not re.search(r"set by environment|SHM", "".join(found))


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 7, 8])
def test_trees_join_every_rank_and_agree(nodes: int) -> None:
    orders = [[8 * n + g for g in range(8)] for n in range(nodes)]
    inner = []
    for mirrored in (False, True):
        found = {me: neighbours(orders, me, mirrored) for me in range(8 * nodes)}
        roots = [me for me, (up, _) in found.items() if up == -1]
        assert len(roots) == 1
        assert {(up, me) for me, (up, _) in found.items() if up >= 0} == {
            (me, b) for me, (_, below) in found.items() for b in below
        }
        assert max(len(below) for _, below in found.values()) <= 3
        reached, edge = set(), roots
        while edge:
            reached |= set(edge)
            edge = [b for me in edge for b in found[me][1]]
        assert reached == set(found)
        inner.append({me // 8 for me in range(0, 8 * nodes, 8) if len(found[me][1]) > 1})
    assert nodes % 2 or not inner[0] & inner[1]


def test_the_log_shows_what_nccl_sees_and_no_more() -> None:
    far = logs(crossed(a_job(PLAN)))
    job = a_job(PLAN)
    weak = replace(job, cluster=job.cluster.with_links(
        *(msgspec.structs.replace(link, capacity_bytes_per_s=link.capacity_bytes_per_s / 2) for link in job.cluster.cables(1, 3))
    ))  # fmt: skip

    assert "/SYS)" in far[11]
    assert "via NET/IB/3\n" in far[11]
    assert "via NET/IB/3/GDRDMA" in far[3]
    assert logs(weak) == logs(job)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (NcclSettings(p2p=False), ["NCCL_P2P_DISABLE set by environment to 1.", "via SHM/direct/direct"]),
        (NcclSettings(algorithm="tree"), ["NCCL_ALGO set by environment to Tree."]),
        (NcclSettings(protocol="LL"), ["NCCL_PROTO set by environment to LL.", "proto LL "]),
        (NcclSettings(nics=2), ["NCCL_IB_HCA set by environment to mlx5_0,mlx5_1.", "Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]"]),
        (NcclSettings(gpudirect=False), ["via NET/IB/0\n"]),
        (NcclSettings(network="socket"), ["Using network Socket", "via NET/Socket/0\n"]),
    ],
)
def test_what_is_forced_shows_in_the_log(settings: NcclSettings, said: list[str]) -> None:
    found = logs(replace(a_job(PLAN), nccl=settings))[0]

    for text in said:
        assert text in found


def test_a_dump_of_a_job_that_went_on(tmp_path: Path) -> None:
    steps = some_steps(a_job(PLAN))
    for rank in range(16):
        (tmp_path / f"dump_rank_{rank}.json").write_text(dump(steps, rank, process_groups(a_job(PLAN))) or "")
    found = read_dumps(sorted(tmp_path.iterdir(), key=lambda p: int(re.findall(r"\d+", p.name)[0])))
    calls = sum(op.count for step in steps for op in step.prepared.work.program.ops if op.kind == "collective")

    assert not found.gaps
    assert {(d.version, d.entries, tuple(d.states), d.groups["1"]) for d in found.dumps} == {
        ("2.10", calls, ("completed",), (calls, calls))
    }


def test_entries_are_in_the_order_of_the_host() -> None:
    steps = some_steps(a_job("fsdp=8,tp=2,seq=2048"))
    document = json.loads(dump(steps, 5, process_groups(steps[0].prepared.job)) or "")
    entries = document["entries"]

    assert [e["record_id"] for e in entries] == list(range(entries[0]["record_id"], entries[-1]["record_id"] + 1))
    assert all(a["time_created_ns"] <= b["time_created_ns"] for a, b in pairwise(entries))
    assert all(e["time_created_ns"] < e["time_discovered_completed_ns"] for e in entries)
    assert {tuple(e["process_group"]) for e in entries} == {("2", "mesh_fsdp"), ("5", "mesh_tp")}
    assert document["pg_config"]["5"] == {"desc": "mesh_tp", "name": "5", "ranks": "[4, 5]"}


@pytest.mark.parametrize(
    ("cause", "absent", "odd"),
    [("rank_died", {5}, set()), ("host_stalled", set(), {5}), ("gpu_stalled", set(), set()), ("collective_mismatch", set(), {5})],
)
def test_a_hang_in_the_dumps(cause: str, absent: set[int], odd: set[int]) -> None:
    job = a_job(PLAN)
    steps = some_steps(job)
    fault = parse_fault(f"hang.{cause}@rank5,at_step=1", job)
    hang = hang_at(fault, steps[-1], Draw(3, 0))
    found = {rank: dump(steps, rank, process_groups(job), hang) for rank in range(16)}
    first = {}
    for rank, text in found.items():
        if text is not None:
            waiting = [e for e in json.loads(text)["entries"] if e["state"] == "scheduled"]
            first[rank] = (waiting[0]["collective_seq_id"], waiting[0]["profiling_name"]) if waiting else None
    usual = first[0]

    assert {rank for rank, text in found.items() if text is None} == absent
    assert {rank for rank, at in first.items() if at != usual} == odd
    if cause == "host_stalled":
        assert first[5] is None
    if cause == "collective_mismatch":
        assert first[5] is not None and usual is not None
        assert first[5][0] == usual[0] and first[5][1] != usual[1]
