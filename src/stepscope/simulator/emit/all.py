"""Everything that real tools would have left of a simulated job, in one folder; the truth lies beside it, never inside.

    DIR/traces/rank-3.pt.trace.json.gz   torch's profiler      DIR/metrics/node1.prom        DCGM and node_exporter
    DIR/nccl/rank-3.log                  NCCL_DEBUG=INFO       DIR/counters/before|after/…   sysfs of the NICs
    DIR/flight_recorder/dump_rank_3.json torch's recorder      DIR/topology/node1.txt        nvidia-smi topo -m
    DIR/hosts.txt                        a rank per line, with its node, GPU and NIC: for `--hosts`

Of a job that stands the profiler wrote the steps that ended. AMD systems have no NCCL logs, no nvidia-smi and no DCGM.
`DIR.truth.json` says what was simulated.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.model.errors import OutputRefused
from stepscope.simulator.emit.flight_recorder import dump
from stepscope.simulator.emit.inventory import process_groups
from stepscope.simulator.emit.kineto import write_trace
from stepscope.simulator.emit.nccl_log import nccl_log
from stepscope.simulator.emit.nic_counters import write_counters
from stepscope.simulator.emit.prometheus import write_metrics
from stepscope.simulator.emit.topology import nvlink_status, topology
from stepscope.simulator.faults.hang import Hang
from stepscope.simulator.job import Job
from stepscope.simulator.signals import signals_of
from stepscope.simulator.signals.ports import broken_ports
from stepscope.simulator.simulation import Step
from stepscope.simulator.spans.tables import Tables

if TYPE_CHECKING:
    from stepscope.simulator.request import Request
    from stepscope.simulator.simulate import Ran

Progress = Callable[[int, int], None]
"""Called with the ranks done and the ranks to do."""

FOLDERS: Final = ("traces", "nccl", "flight_recorder", "metrics", "counters", "topology")
HOSTS: Final = "hosts.txt"
FILES: Final = (HOSTS, "notes.txt")
NOTE: Final = "No NCCL logs, no nvidia-smi and no DCGM metrics: this system's GPUs are AMD's.\n"
MOST_NODES: Final = 128  # of so many the wiring is written: further ones are alike or few look at them


def emit(
    folder: Path,
    ran: Ran,
    request: Request,
    *,
    ranks: Sequence[int] | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> None:
    """Writes `folder` whole or not at all, and the truth beside it, of these ranks (None: all).

    Raises OutputRefused where the folder exists and `force` is not given, or where it is none that was written here.
    """
    out = folder.absolute()
    truth = out.with_name(f"{out.name}.truth.json")
    _may_write(folder, out, force)
    part = out.with_name(f".{out.name}.{os.getpid()}.partial")
    shutil.rmtree(part, ignore_errors=True)
    try:
        part.mkdir(parents=True)
        _write(part, ran, ranks, progress)
        old = part.with_suffix(".old")
        if out.exists():
            out.rename(old)
        truth.write_text(json.dumps(truth_of(request, ran), indent=1) + "\n", encoding="utf-8")
        part.rename(out)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def truth_of(request: Request, ran: Ran) -> dict[str, Any]:
    """What was simulated: the request in its own words, each fault in full, where the job stands if it does."""
    from stepscope.catalog.cause import load_cause
    from stepscope.simulator.faults.fault import settled

    job = request.job()
    faults = []
    for fault in (settled(f, job) for f in request.the_faults()):
        cause = load_cause(fault.cause)
        faults.append({
            "text": str(fault), "cause": cause.id, "class": cause.kind, "layer": cause.layer, "where": str(fault.where),
            "strength": fault.strength, "first_step": fault.first_step, "last_step": fault.last_step,
        })  # fmt: skip
    stands = None
    if ran.hang is not None and ran.hung is not None:
        op = ran.hung.prepared.work.program.ops[ran.hang.place]
        stands = {"step": ran.hang.step, "operation": op.name, "unit": op.unit, "ranks": ran.hang.culprits.tolist()}
    words = {key: getattr(request, key) for key in ("model", "system", "plan", "stack", "seed", "noise", "loader", "checkpoint")}
    return {"schema": "truth/1", **words, "steps": [step.number for step in ran.steps], "faults": faults, "hang": stands}


def _may_write(folder: Path, out: Path, force: bool) -> None:
    if not (out.exists() or out.is_symlink()):
        return
    if not force:
        raise OutputRefused(f"{folder}: exists already; choose another name or say -f to replace it")
    known = out.is_dir() and not out.is_symlink() and {p.name for p in out.iterdir()} <= {*FOLDERS, *FILES}
    if not known:
        raise OutputRefused(f"{folder}: exists and holds other things; choose another name")


def _write(folder: Path, ran: Ran, ranks: Sequence[int] | None, progress: Progress | None) -> None:
    steps = [*ran.steps, *([] if ran.hung is None else [ran.hung])]
    job = steps[-1].prepared.job  # as the machine is found afterwards
    chosen = list(range(job.ranks)) if ranks is None else sorted(set(ranks))
    nvidia = job.gpu.vendor == "nvidia"
    groups = process_groups(job)
    broken = frozenset() if ran.hang is None else broken_ports(steps[-1], ran.hang)
    for name in ("traces", *(("nccl",) if nvidia else ()), "flight_recorder"):
        (folder / name).mkdir()
    for done, (rank, tables) in enumerate(zip(chosen, Tables(ran.steps).of(chosen), strict=True)):
        write_trace(folder / "traces" / f"rank-{rank}.pt.trace.json.gz", tables, job, groups)
        if nvidia:
            log = nccl_log(steps[0].prepared, rank, groups, broken)
            (folder / "nccl" / f"rank-{rank}.log").write_text(log, encoding="utf-8")
        text = dump(steps, rank, groups, ran.hang)
        if text is not None:
            (folder / "flight_recorder" / f"dump_rank_{rank}.json").write_text(text, encoding="utf-8")
        if progress is not None:
            progress(done + 1, len(chosen))
    if not nvidia:
        (folder / "notes.txt").write_text(NOTE, encoding="utf-8")
    (folder / HOSTS).write_text(_hosts(job), encoding="utf-8")
    _beside(folder, steps, ran.hang)


def _hosts(job: Job) -> str:
    """The placement, a rank per line, as `--hosts` reads it."""
    lines = ["# rank node gpu nic"]
    for rank in range(job.ranks):
        place = job.cluster.place(rank)
        lines.append(f"{rank} {place.node} {place.gpu} {place.nic or '-'}")
    return "\n".join(lines) + "\n"


def _beside(folder: Path, steps: Sequence[Step], hang: Hang | None) -> None:
    """What the nodes' own exporters and tools say."""
    job = steps[-1].prepared.job
    signals = signals_of(steps, hang)
    for name in ("metrics", "counters", *(("topology",) if job.gpu.vendor == "nvidia" else ())):
        (folder / name).mkdir()
    write_metrics(folder / "metrics", signals, job)
    write_counters(folder / "counters", signals, job)
    for node in range(min(-(-job.ranks // job.cluster.gpus_per_node), MOST_NODES)):
        if job.gpu.vendor == "nvidia":
            (folder / "topology" / f"node{node}.txt").write_text(topology(job.cluster.wiring(node), job.gpu), encoding="utf-8")
            status = nvlink_status(job, node)
            if status:
                (folder / "topology" / f"node{node}.nvlink.txt").write_text(status, encoding="utf-8")
