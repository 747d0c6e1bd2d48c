"""Small jobs for the simulator's tests."""

from __future__ import annotations

from stepscope.catalog.model import load_model
from stepscope.catalog.stack import load_stack
from stepscope.catalog.system import load_system
from stepscope.model.plan import parse_plan
from stepscope.model.workload import Checkpoint, Loader, Workload
from stepscope.simulator.job import Job, job_on
from stepscope.simulator.noise import Noise
from stepscope.simulator.simulation import Simulation, Step


def job(
    plan: str = "fsdp=16,seq=2048",
    model: str = "llama3-8b",
    system: str = "hgx-h100",
    stack: str = "torch-compile",
    loader: Loader | None = None,
    checkpoint: Checkpoint | None = None,
) -> Job:
    """A healthy job of the catalog."""
    shape = load_model(model).shape
    assert shape is not None
    workload = Workload(
        model=model, shape=shape, plan=parse_plan(plan), loader=loader or Loader(), checkpoint=checkpoint or Checkpoint()
    )
    return job_on(load_system(system), workload, load_stack(stack))


def steps(one: Job, count: int = 1, noise: Noise | None = None, seed: int = 0, width: int | None = None) -> list[Step]:
    """Steps of a job that stays as it is."""
    return list(Simulation(lambda _: one, noise=noise, seed=seed, width=width).steps(count))
