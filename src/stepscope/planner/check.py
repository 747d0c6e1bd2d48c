"""Plans that cannot be: one line that names the number."""

from __future__ import annotations

from stepscope.model.errors import UsageMistake
from stepscope.model.workload import Workload


def check(workload: Workload) -> None:
    """UsageMistake for a plan that its model cannot have."""
    plan, shape, name = workload.plan, workload.shape, workload.model
    if plan.ep > 1:
        raise UsageMistake(f"plan: ep={plan.ep}: {name} is dense and has no experts; leave ep out")
    for noun, size in (("heads", shape.heads), ("ffn", shape.ffn)):
        if size % plan.tp:
            raise UsageMistake(f"plan: tp={plan.tp} does not divide the {size} {noun} of {name}; take a divisor of {size}")
    if plan.pp > shape.layers:
        raise UsageMistake(f"plan: pp={plan.pp}: {name} has {shape.layers} layers; take at most those")
    cut = plan.tp * plan.cp
    if workload.seq % cut:
        raise UsageMistake(f"plan: tp x cp = {cut} does not divide seq={workload.seq}; take a multiple of {cut}")
    if plan.layers_per_unit > shape.layers:
        raise UsageMistake(f"plan: unit={plan.layers_per_unit}: {name} has {shape.layers} layers; take at most those")
