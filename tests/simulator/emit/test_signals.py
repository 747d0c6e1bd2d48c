"""Signals: each follows from links, bytes, clocks or the state of the machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from stepscope.model.metrics import BY_WORD, METRICS
from stepscope.simulator.conditions import Conditions, Stall
from stepscope.simulator.job import Job
from stepscope.simulator.noise import Noise
from stepscope.simulator.sensors import GpuState, HostState, PortState, Sensors
from stepscope.simulator.signals import signals_of
from tests.simulator.emit.build import a_job, some_steps

PLAN = "fsdp=16,seq=2048"


def sampled(job: Job) -> pl.DataFrame:
    return signals_of(some_steps(job, noise=Noise.none()))


def values(signals: pl.DataFrame, metric: str) -> dict[str, float]:
    """Of each scope a gauge's last value, or how far a counter came."""
    rows = signals.filter(pl.col("metric") == metric).group_by("scope", maintain_order=True)
    counter = BY_WORD[metric].kind == "counter"
    found = rows.agg(last=pl.col("value").last(), moved=pl.col("value").last() - pl.col("value").first())
    return dict(zip(found["scope"], found["moved" if counter else "last"], strict=True))


@pytest.fixture(scope="module")
def healthy() -> pl.DataFrame:
    return sampled(a_job(PLAN))


def test_samples_stand_at_the_ends_of_steps_and_each_second(healthy: pl.DataFrame) -> None:
    steps = some_steps(a_job(PLAN), noise=Noise.none())
    times = set(healthy["time_ns"].unique().to_list())

    assert {round(float(step.times.host_start.min())) for step in steps} <= times
    assert {t for t in range(0, max(times), 1_000_000_000) if t >= min(times)} <= times
    assert set(healthy["metric"].unique()) <= set(BY_WORD)
    assert len(BY_WORD) == len(METRICS)


def test_nics_carry_what_the_collectives_put_on_cables(healthy: pl.DataFrame) -> None:
    job = a_job(PLAN)
    steps = some_steps(job, noise=Noise.none())
    program = steps[0].prepared.work.program
    ring = sum(op.nbytes * op.count for op in program.ops if op.kind == "collective" and op.nbytes > 4)
    sent = values(healthy, "data_sent")

    for nic in range(8):  # a ring's edge carries 15/16 of the bytes, and one of eight rings is each NIC's
        assert sent[f"node1/nic{nic}"] == pytest.approx(2 * ring * 15 / 16 / 8 * 1.013, rel=0.01)
    assert sent["leaf3/port1"] == pytest.approx(values(healthy, "data_received")["node1/nic3"])


def test_a_slow_clock_is_hot_and_a_capped_one_is_not() -> None:
    clock = np.ones(16)
    clock[11] = 0.6
    hot = sampled(replace(a_job(PLAN), conditions=Conditions(clock=clock)))
    capped = Sensors(gpus=(GpuState(1, 3, power_cap=0.5),))
    cool = sampled(replace(a_job(PLAN), conditions=Conditions(clock=clock, sensed=capped)))

    assert values(hot, "sm_clock")["node1/gpu3"] == 1185e6
    assert values(hot, "sm_clock")["node1/gpu2"] == 1980e6
    assert (values(hot, "clock_reasons")["node1/gpu3"], values(cool, "clock_reasons")["node1/gpu3"]) == (0x60, 0x4)
    assert values(hot, "gpu_temperature")["node1/gpu3"] >= 86 > 60 > values(cool, "gpu_temperature")["node1/gpu3"]
    assert values(cool, "power_limit")["node1/gpu3"] == 350 == pytest.approx(values(cool, "power")["node1/gpu3"], abs=20)


def test_memory_that_is_slow_shows_at_its_clock() -> None:
    hbm = np.ones(16)
    hbm[4] = 0.5
    found = values(sampled(replace(a_job(PLAN), conditions=Conditions(hbm=hbm))), "memory_clock")

    assert (found["node0/gpu4"], found["node0/gpu5"]) == (pytest.approx(1309.5e6, abs=1e6), 2619e6)


def test_a_port_shows_its_state(healthy: pl.DataFrame) -> None:
    states = (PortState(1, 3, rate=0.5, symbol_errors_per_s=100), PortState(0, 2, lost=1e-3))
    sick = sampled(replace(a_job(PLAN), conditions=Conditions(sensed=Sensors(ports=states), stall=Stall(1, 5, 2e9, 0.5))))

    assert values(healthy, "port_rate")["node1/nic3"] == 50e9
    assert values(sick, "port_rate") | {"node1/nic3": 50e9} == values(healthy, "port_rate")
    assert values(sick, "port_rate")["node1/nic3"] == 25e9
    assert values(sick, "symbol_errors")["node1/nic3"] > 0
    lost = values(sick, "out_of_sequence")
    assert lost["node0/nic2"] == pytest.approx(values(sick, "data_received")["node0/nic2"] / 1.013 / 4096 * 1e-3, rel=0.05)
    assert {scope for scope, n in lost.items() if n} == {"node0/nic2"}
    assert {scope for scope, n in values(sick, "link_downs").items() if n} == {"node1/nic5"}
    assert not any(values(healthy, metric)[scope] for metric in ("symbol_errors", "out_of_sequence", "link_downs")
                   for scope in values(healthy, "port_rate"))  # fmt: skip


def test_a_nic_across_the_sockets_counts_no_error(healthy: pl.DataFrame) -> None:
    job = a_job(PLAN)
    crossed = replace(job, cluster=job.cluster.with_node(1, job.cluster.node.with_nic_across(3)))
    sick = sampled(crossed)

    for metric in ("symbol_errors", "link_downs", "out_of_sequence", "receive_errors", "port_rate"):
        assert values(sick, metric) == values(healthy, metric)
    assert values(sick, "data_sent")["node1/nic3"] == pytest.approx(values(healthy, "data_sent")["node1/nic3"], rel=0.001)


def test_a_cable_that_carries_less_makes_its_port_wait(healthy: pl.DataFrame) -> None:
    job = a_job(PLAN)
    slow = [replace_rate(link, 0.5) for link in job.cluster.cables(1, 3)]
    waits = values(sampled(replace(job, cluster=job.cluster.with_links(*slow))), "transmit_wait")

    assert max(waits, key=lambda scope: waits[scope]) == "node1/nic3"
    assert waits["node1/nic3"] > 10 * max(n for scope, n in waits.items() if scope != "node1/nic3")
    assert values(healthy, "transmit_wait")["node1/nic3"] < waits["node1/nic3"] / 10


def replace_rate(link: object, share: float) -> object:
    import msgspec

    return msgspec.structs.replace(link, capacity_bytes_per_s=link.capacity_bytes_per_s * share)  # type: ignore[attr-defined]


def test_hosts_tell_storage_from_processors(healthy: pl.DataFrame) -> None:
    read = np.ones(16)
    read[8:] = 50.0
    slow = sampled(replace(a_job(PLAN), conditions=Conditions(read=read)))
    fetch = np.ones(16)
    fetch[:8] = 500.0
    busy = sampled(replace(a_job(PLAN), conditions=Conditions(fetch=fetch)))
    short = sampled(replace(a_job(PLAN), conditions=Conditions(host_pace=3.0, sensed=Sensors(hosts=(HostState(0, 0.98, 1e6),)))))

    latency = values(slow, "storage_read_latency")
    assert latency["node1"] == pytest.approx(50 * latency["node0"])
    assert values(busy, "cpu_utilization")["node0"] > 1.5 * values(busy, "cpu_utilization")["node1"]
    assert values(busy, "storage_read_latency") == values(healthy, "storage_read_latency")
    assert values(short, "memory_pressure")["node0"] > 0 == values(short, "memory_pressure")["node1"]
    assert values(short, "host_memory_available")["node0"] < 0.1 * values(short, "host_memory_available")["node1"]


def test_tcp_goes_over_the_front_end(healthy: pl.DataFrame) -> None:
    job = a_job(PLAN)
    import msgspec

    fallen = replace(job, nccl=msgspec.structs.replace(job.nccl, network="socket"))
    sick = sampled(fallen)
    rdma = sum(n for scope, n in values(healthy, "data_sent").items() if scope.startswith("node0/"))

    assert values(sick, "network_sent")["node0"] == pytest.approx(rdma / 1.013, rel=0.01)
    assert values(sick, "data_sent")["node0/nic0"] < 1e6


def test_the_same_steps_give_the_same_signals(healthy: pl.DataFrame) -> None:
    assert healthy.equals(sampled(a_job(PLAN)))
