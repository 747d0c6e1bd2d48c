"""For every cause a job of 2 x 8 GPUs in which it bites, its place there, and strengths from weak to strong."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stepscope.catalog.cause import causes
from stepscope.model.workload import Checkpoint, Loader
from stepscope.simulator.faults.fault import WAITS, parse_fault
from stepscope.simulator.faults.schedule import Schedule
from stepscope.simulator.job import Job
from stepscope.simulator.simulation import Simulation, Step, step_ns
from tests.simulator.jobs import job

COUNT: Final = 4  # steps: in one of four there is a pause
PLAIN, NEVER = Loader(), Checkpoint()
READS: Final = Loader(workers=1, prefetch=1, bytes_per_token=4_000_000, cpu_us=100_000)
IMAGES: Final = Loader(workers=16, bytes_per_token=100_000)


@dataclass(frozen=True)
class Bite:
    """A job and where the fault sits in it; `weak_first` are strengths, () for low, default and high of the catalog."""

    plan: str = "fsdp=16,seq=2048"
    model: str = "llama3-8b"
    loader: Loader = PLAIN
    checkpoint: Checkpoint = NEVER
    place: str = ""
    weak_first: tuple[float | str, ...] = ()

    @property
    def job(self) -> Job:
        return built(self.plan, self.model, self.loader, self.checkpoint)


@lru_cache
def built(plan: str, model: str, loader: Loader, checkpoint: Checkpoint) -> Job:
    return job(plan, model, loader=loader, checkpoint=checkpoint)


SMALL: Final = {"plan": "fsdp=16,seq=512", "model": "gpt-125m"}  # the host is what holds it back
BITES: Final = {
    "storage.slow_mount": Bite(loader=READS, place="node1:/data"),
    "storage.slow_all": Bite(loader=READS),
    "storage.checkpoint_stall": Bite(checkpoint=Checkpoint(every=4)),
    "app.small_batch": Bite(weak_first=(0.95, 0.5, 0.25, 0.1)),
    "app.loader_starved": Bite(weak_first=(0.98, 0.5, 0.1)),
    "app.unpinned_transfer": Bite(plan="fsdp=16,seq=2048,ga=4", loader=IMAGES, weak_first=(0.95, 0.5, 0.05)),
    "app.host_memory_pressure": Bite(**SMALL),
    "app.host_sync_point": Bite(**SMALL, weak_first=(1, 4, 32, 256, 4096)),
    "app.accumulation_syncs_every_microbatch": Bite(plan="fsdp=16,seq=2048,ga=4"),
    "framework.units_too_coarse": Bite(plan="fsdp=16,seq=8192", weak_first=(8, 16, 32, 128)),
    "framework.units_too_fine": Bite(plan="fsdp=16,seq=512"),
    "framework.shard_across_slow_fabric": Bite(weak_first=(0.9, 0.5, 0.25, 0.02)),
    "parallel.tp_across_nodes": Bite(plan="fsdp=2,tp=8,mbs=4,seq=8192", weak_first=(2,)),
    "kernels.unfused_optimizer": Bite(**SMALL),
    "kernels.launch_bound": Bite(**SMALL),
    "kernels.bad_shape": Bite(weak_first=(0.98, 0.6, 0.05)),
    "nccl.forced_algorithm": Bite(plan="ddp=16,seq=2048", weak_first=("nvls", "tree")),
    "nccl.low_protocol": Bite(weak_first=("LL128", "LL")),
    "nccl.few_nics": Bite(weak_first=(8, 4, 2, 1)),
    "nccl.few_channels": Bite(weak_first=(16, 8, 2, 1)),
    "nccl.p2p_off": Bite(weak_first=(0.6, 0.1, 0.02)),
    "transport.no_gpudirect": Bite(weak_first=(0.9, 0.5, 0.2)),
    "transport.tcp_fallback": Bite(weak_first=(0.4, 0.05, 0.005)),
    "fabric.congestion": Bite(weak_first=(0.95, 0.5, 0.02)),
    "fabric.link_degraded": Bite(weak_first=(0.95, 0.25, 0.01)),
    "fabric.rail_down": Bite(weak_first=(1, 2, 4, 7)),
    "interconnect.pcie_downtrained": Bite(weak_first=(8, 4, 2, 1)),
    "interconnect.acs_on": Bite(weak_first=(0.95, 0.5, 0.1)),
    "interconnect.nvlink_degraded": Bite(weak_first=(0.97, 0.5, 0.03)),
    "gpu.thermal_throttle": Bite(weak_first=(0.97, 0.6, 0.2)),
    "gpu.power_cap": Bite(weak_first=(0.98, 0.7, 0.2)),
    "gpu.hbm_degraded": Bite(weak_first=(0.97, 0.6, 0.1)),
}
SLOWING: Final = tuple(c for c, cause in causes().items() if cause.kind != "hang" and c != WAITS)
HANGS: Final = tuple(c for c, cause in causes().items() if cause.kind == "hang")
PLACES: Final = {
    "job": "job",
    "node": "node1",
    "gpu": "node1/gpu3",
    "rank": "rank11",
    "nic": "node1/nic3",
    "port": "leaf3/port1",
    "leaf": "leaf3",
    "rail": "rail3",
    "mount": "/data",
}


def bite(cause: str) -> Bite:
    return BITES.get(cause, Bite())


def place(cause: str) -> str:
    return bite(cause).place or PLACES[causes()[cause].places[0]]


def strengths(cause: str) -> tuple[float | str, ...]:
    """From weak to strong."""
    known = causes()[cause].strength
    assert isinstance(known.low, float) or bite(cause).weak_first
    return bite(cause).weak_first or (known.low or 0.0, known.default, known.high or 0.0)


def words(cause: str, strength: float | str | None = None, at: str = "") -> str:
    value = "" if strength is None else f",{causes()[cause].strength.name}={strength}"
    return f"{cause}@{at or place(cause)}{value}"


def run(one: Job, *faults: str, seed: int = 1, count: int = COUNT) -> list[Step]:
    """Steps of a job with faults, without noise."""
    schedule = Schedule(one, [parse_fault(text) for text in faults], seed)
    return list(Simulation(schedule).steps(count))


def per_step(steps: list[Step]) -> NDArray[np.float64]:
    """Milliseconds of each step on its slowest rank."""
    return np.array([step_ns(step).max() for step in steps]) / 1e6


@lru_cache(maxsize=256)
def mean_ms(cause: str, strength: float | str | None, healthy: bool = False, at: str = "") -> float:
    """Mean step of the cause's job with the fault (or without any), per token where the fault changes their number."""
    one = bite(cause).job
    steps = run(one, *(() if healthy else (words(cause, strength, at),)))
    tokens = steps[0].prepared.job.workload.tokens / one.workload.tokens
    return float(per_step(steps).mean()) / tokens
