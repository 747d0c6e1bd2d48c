"""Small simulated jobs for the emitted formats: a model of a billion parameters on HGX nodes, two steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stepscope.catalog.model import load_model
from stepscope.catalog.stack import load_stack
from stepscope.catalog.system import load_system
from stepscope.model.plan import parse_plan
from stepscope.model.workload import Workload
from stepscope.simulator.conditions import Conditions
from stepscope.simulator.job import Job, job_on
from stepscope.simulator.noise import Noise
from stepscope.simulator.simulation import Simulation, Step

MODEL = "llama3.2-1b"


def a_job(plan: str, system: str = "hgx-h100", slow_rank: int | None = None) -> Job:
    """A job of that plan; `slow_rank` runs at two thirds of its clock."""
    workload = Workload(model=MODEL, shape=load_model(MODEL).shape, plan=parse_plan(plan))
    job = job_on(load_system(system), workload, load_stack("torch-eager"))
    if slow_rank is None:
        return job
    clock = np.ones(job.ranks)
    clock[slow_rank] = 2 / 3
    return replace(job, conditions=Conditions(clock=clock))


def some_steps(job: Job, steps: int = 2, noise: Noise | None = None, seed: int = 7) -> list[Step]:
    """Its steps, with the noise of real ones unless told otherwise."""
    return list(Simulation(lambda _: job, noise=Noise() if noise is None else noise, seed=seed).steps(steps))
