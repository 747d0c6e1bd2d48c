"""From a job to work for the engine: which program its framework issues, and what each operation of it takes.

`width` ranks are computed: all of them, or 1 that stands for all of a healthy job without noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from stepscope.model.mesh import Mesh
from stepscope.model.plan import Plan
from stepscope.simulator.delays import delay_costs, spread, with_delays
from stepscope.simulator.job import Job
from stepscope.simulator.joining import Joining
from stepscope.simulator.kernel_costs import Kernels, compute_ns, copy_ns, gathered_bytes, kernels_of
from stepscope.simulator.loader import mount_at, read_ns
from stepscope.simulator.nccl.groups import Groups
from stepscope.simulator.nccl.model import Collectives
from stepscope.simulator.program import Op, Program
from stepscope.simulator.programs.ddp import ddp
from stepscope.simulator.programs.fsdp import Sizes, fsdp
from stepscope.simulator.programs.units import Units, units_of
from stepscope.simulator.saving import save_ns, upload_share
from stepscope.simulator.stalls import stalled
from stepscope.simulator.work import Batches, Costs, Duration, Work, fill

REDUCED_BYTES = {"fp32": 4, "bf16": 2}
TOKEN_BYTES = 16  # int64 ids and labels, as torch's loss takes them
CALLS = 3  # host operations of one collective: copy-in, the call, its event


@dataclass(frozen=True)
class Prepared:
    """A job made ready: its work, and what it was made from (for spans and figures)."""

    job: Job
    work: Work
    units: Units
    kernels: Kernels
    collectives: Collectives
    costs: Costs
    width: int


def program_of(job: Job, units: Units, save: bool) -> Program:
    """What the job's framework issues in a step."""
    plan, shape = job.workload.plan, job.workload.shape
    tokens = plan.mbs * job.workload.seq
    width = gathered_bytes(plan)
    sizes = Sizes(width, REDUCED_BYTES[plan.reduce], tokens * shape.hidden * width if plan.tp > 1 else 0)
    kind = job.stack.framework.kind
    eager = frozenset(spread(plan.ga - 1, ceil(job.conditions.eager_syncs * (plan.ga - 1))))
    if plan.strategy in ("ddp", "zero1") or plan.data_ranks == 1:
        return ddp(plan, units, sizes, save=save, eager=eager)
    late = frozenset(spread(len(units.layers), ceil(job.conditions.late_gathers * len(units.layers))))
    return fsdp(plan, units, sizes, "fsdp1" if kind == "fsdp1" else "fsdp2", save=save, late=late, eager=eager)


def prepare(job: Job, batches: Batches, *, width: int | None = None, save: bool = False, kernels: Kernels | None = None,
            collectives: Collectives | None = None) -> Prepared:  # fmt: skip
    """A job's work. `kernels` and `collectives` of another job may be handed in where this one does not differ in them."""
    ranks = job.ranks if width is None else width
    units = units_of(job.workload.shape, job.workload.plan)
    kernels = kernels or kernels_of(job, units)
    collectives = collectives or Collectives(job.cluster, job.gpu, job.nccl, job.ranks, job.transport)
    program = with_delays(program_of(job, units, save), job.conditions.delays)
    joinings = {name: Joining(size, stride, ranks) for name, (size, stride) in axes(job.mesh, job.workload.plan).items()}
    costs = _costs(job, program, units, kernels, collectives, joinings)
    codes = stalled(job, program, fill(program, costs, joinings), joinings, axes(job.mesh, job.workload.plan))
    work = Work(
        program=program,
        codes=codes,
        batches=batches,
        host_pace=job.conditions.host_pace,
        launch_latency_ns=float(job.gpu.launch.latency_ns) if job.gpu.launch else 0.0,
        overlap_slowdown=job.stack.overlap.slowdown,
    )
    return Prepared(job, work, units, kernels, collectives, costs, ranks)


def axes(mesh: Mesh, plan: Plan) -> dict[str, tuple[int, int]]:
    """Size and stride of the groups behind each axis that a program names."""
    found = {axis.name: (axis.size, axis.stride) for axis in mesh.axes}
    found["world"] = (mesh.world_size, 1)
    if plan.reshard > 1:
        found["reshard"] = (plan.reshard, mesh.axis("fsdp").stride)
    return found


def _costs(job: Job, program: Program, units: Units, kernels: Kernels, collectives: Collectives,
           joinings: dict[str, Joining]) -> Costs:  # fmt: skip
    costs = Costs()
    stack, plan = job.stack, job.workload.plan
    copies = plan.sharded and stack.framework.kind != "fsdp1"
    for op in program.ops:
        if op.work not in costs.duration:
            if op.kind == "compute":
                ns, host, tail = compute_ns(job, kernels, op.work)
                costs.duration[op.work] = ns + (_copied_out(job, op, units) if copies else 0.0)
                costs.host_ns[op.work], costs.tail_ns[op.work] = host, tail
            elif op.kind == "collective":
                costs.duration[op.work] = collective_ns(job, op, collectives, joinings)
                costs.host_ns[op.work] = CALLS * stack.host.launch_us * 1e3
        if op.lead and op.lead not in costs.duration:
            nbytes = float(op.lead.partition("@")[2])
            costs.duration[op.lead] = copy_ns(job, nbytes) if copies else 0.0
    delay_costs(costs, job.conditions.delays)
    _around(job, costs)
    _shares(program, costs, collectives, job)
    share = upload_share(job.workload, job.cluster)
    for name, (size, stride) in axes(job.mesh, plan).items():
        if share and (size - 1) * stride >= job.cluster.gpus_per_node:  # its groups leave their nodes
            costs.background[name] = share
    return costs


def _around(job: Job, costs: Costs) -> None:
    """The loop itself, the batch's copy, and a checkpoint."""
    conditions, workload = job.conditions, job.workload
    costs.duration["loop"] = job.stack.host.step_us * 1e3
    nbytes = workload.plan.mbs * workload.seq * max(TOKEN_BYTES, workload.loader.bytes_per_token)
    rate = job.cluster.node.pcie_bytes_per_s * conditions.copy_fraction * conditions.slot
    costs.duration["batch copy"] = nbytes / rate * 1e9
    costs.host_ns["batch copy"] = 2 * job.stack.host.launch_us * 1e3
    held: Duration = 0.0
    hidden = 0.0
    if workload.checkpoint.every:
        held, hidden = save_ns(workload, job.cluster, workload.shape.parameters())
    costs.duration["save"] = held + conditions.save_ns
    costs.hidden_ns["save"] = hidden
    if not workload.loader.pinned or np.any(conditions.pageable):
        costs.holds_host = frozenset({"batch copy"})
        if workload.loader.pinned and np.ndim(conditions.pageable):
            costs.only["batch copy"] = np.asarray(conditions.pageable) > 0


def _copied_out(job: Job, op: Op, units: Units) -> float:
    """Copying gathered parameters to where the kernels want them, once before a unit's kernels."""
    name, _, layers = op.work.partition("@")
    if name == "embedding.forward":
        return copy_ns(job, units.root.parameters * gathered_bytes(job.workload.plan))
    if name not in ("layer.forward", "layer.backward", "attention.forward", "mlp.backward"):
        return 0.0
    if name.endswith("backward") and not job.workload.plan.reshard:
        return 0.0
    per_layer = sum(unit.parameters for unit in units.layers) / job.workload.shape.layers
    return copy_ns(job, per_layer * float(layers) * gathered_bytes(job.workload.plan))


def collective_ns(job: Job, op: Op, collectives: Collectives, joinings: dict[str, Joining]) -> Duration:
    """ns of a collective once all have joined: a number where all groups are alike, else of each rank."""
    assert op.comm is not None
    size, stride = axes(job.mesh, job.workload.plan)[op.comm.axis]
    if size == 1:
        return 0.0
    ns = collectives.time(op.name, op.nbytes, Groups.regular(job.ranks, size, stride)).ns
    joining = joinings[op.comm.axis]
    if joining.ranks < job.ranks or np.ptp(ns) == 0:
        return float(ns.max())
    spread: Duration = np.ascontiguousarray(ns[joining.group_of()])
    return spread


def _shares(program: Program, costs: Costs, collectives: Collectives, job: Job) -> None:
    """Which two communicators are on one link at a time."""
    axis = axes(job.mesh, job.workload.plan)
    for op in program.ops:
        for w in op.contends:
            other = program.ops[w]
            if op.comm is None or other.comm is None or (op.comm.name, other.comm.name) in costs.shares:
                continue
            mine, theirs = (Groups.regular(job.ranks, *axis[comm.axis]) for comm in (op.comm, other.comm))
            alone = 1 in (mine.size, theirs.size)
            costs.shares[op.comm.name, other.comm.name] = 0.0 if alone else collectives.shares(mine, theirs, op.name, other.name)


def queue_costs(job: Job) -> tuple[Duration, Duration]:
    """(ns to make one batch, ns on top of it) of each rank."""
    workload, conditions = job.workload, job.conditions
    loader, plan = workload.loader, workload.plan
    mount = mount_at(job.cluster, loader.path)
    per_node = min(job.cluster.gpus_per_node, job.ranks)
    read = read_ns(loader, mount, plan.mbs, workload.seq, per_node, job.ranks)
    made = (plan.mbs * loader.cpu_us * 1e3 + read * conditions.read) * conditions.fetch
    return made, conditions.batch_delay_ns
