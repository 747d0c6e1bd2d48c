"""Dumps of torch's flight recorder (JSON, version 2.10): the last collectives that each rank enqueued, and how far each got.

Of a job that stands a dump is what the watchdogs write after their timeout: a rank whose process is gone has none. States are
`scheduled` and `completed`, as without TORCH_NCCL_ENABLE_TIMING; completion shows when the watchdog looked, every 100 ms.
`time_created_ns` is when the host enqueued. Sequence numbers count from the first step that was recorded.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from stepscope.simulator.costs import axes
from stepscope.simulator.emit.inventory import NCCL, WALL_NS, ProcessGroup
from stepscope.simulator.emit.kineto import WIDTH
from stepscope.simulator.faults.hang import Hang
from stepscope.simulator.job import Job
from stepscope.simulator.program import Op
from stepscope.simulator.simulation import Step
from stepscope.simulator.spans.tables import dtype_of

VERSION: Final = "2.10"
RING: Final = 2000  # TORCH_FR_BUFFER_SIZE's default
TIMEOUT_MS: Final = 600_000  # torch's default for NCCL
POLL_NS: Final = 100_000_000  # how often the watchdog looks
NAMES: Final = {"all_gather": "_all_gather_base", "reduce_scatter": "_reduce_scatter_base", "all_reduce": "all_reduce"}


def dump(steps: Sequence[Step], rank: int, groups: Sequence[ProcessGroup], hang: Hang | None = None) -> str | None:
    """One rank's dump; None for a rank that is no more. `hang` belongs to the last of the steps."""
    if hang is not None and bool(hang.gone[rank]):
        return None
    own = [group for group in groups if rank in group.ranks]
    job = steps[0].prepared.job
    numbers = {group.axis: i for i, group in enumerate(own)}
    status = {i: {"enqueued": -1, "completed": -1} for i in numbers.values()}
    entries: list[dict[str, Any]] = []
    phase = zlib.crc32(f"watchdog {rank}".encode()) % POLL_NS
    for record, (op, created, ended) in enumerate(_calls(steps, rank, hang)):
        assert op.comm is not None
        group = own[numbers[op.comm.axis]]
        number = numbers[op.comm.axis]
        seq = max(status[number]["enqueued"], 0) + 1
        status[number]["enqueued"] = seq
        seen = 0
        if ended is not None:
            seen = WALL_NS + round(ended + (phase - ended) % POLL_NS)
            status[number]["completed"] = seq
        entries.append(_entry(job, op, group, (record, number, seq), WALL_NS + round(created), seen))
    document: dict[str, Any] = {
        "comm_lib_version": NCCL,
        "nccl_comm_state": {},
        "pg_config": {g.name: {"desc": g.description, "name": g.name, "ranks": str(list(g.ranks))} for g in own},
        "pg_status": {
            str(i): {
                "last_completed_collective": str(s["completed"]),
                "last_enqueued_collective": str(s["enqueued"]),
                "last_started_collective": "-1",
            }
            for i, s in status.items()
        },
        "version": VERSION,
    }
    if entries:
        document["entries"] = entries[-RING:]
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _calls(steps: Sequence[Step], rank: int, hang: Hang | None) -> Iterator[tuple[Op, float, float | None]]:
    """Every collective that the rank enqueued: what, when, and when it ended (None: not)."""
    for step in steps:
        standing = hang if hang is not None and step.number == hang.step else None
        yield from _of_step(step, rank, standing)


def _of_step(step: Step, rank: int, hang: Hang | None) -> Iterator[tuple[Op, float, float | None]]:
    prepared, times = step.prepared, step.times
    sizes = axes(prepared.job.mesh, prepared.job.workload.plan)
    pace = float(np.broadcast_to(times.host_pace, times.host_start.shape)[rank])
    wrong = hang is not None and hang.called is not None and rank in hang.culprits
    skipped = False
    for k, op in enumerate(prepared.work.program.ops):
        if op.kind != "collective" or op.comm is None or sizes[op.comm.axis][0] == 1:
            continue
        if hang is not None and not hang.issued[k, rank]:
            continue
        called = op
        if wrong and hang is not None and hang.called is not None:
            if k == hang.place:
                called = hang.called
            elif not skipped and k > hang.place and op is hang.called:
                skipped = True  # it was called before its turn
                continue
        done = hang is None or bool(hang.ended[k, rank])
        each = pace * prepared.work.codes[k].host_ns / op.count
        for n in range(op.count):
            last = float(times.end[k, rank] - (op.count - 1 - n) * (times.end[k, rank] - times.begin[k, rank]) / op.count)
            yield called, float(times.issue[k, rank]) + n * each, last if done else None


def _entry(job: Job, op: Op, group: ProcessGroup, ids: tuple[int, int, int], created: int, completed: int) -> dict[str, Any]:
    record, number, seq = ids
    dtype = dtype_of(job, op.nbytes, op)
    whole = -(-op.nbytes // WIDTH[dtype])
    part = -(-whole // len(group.ranks))
    into, out = {"all_gather": (part, whole), "reduce_scatter": (whole, part)}.get(op.name, (whole, whole))
    thread = "pt_autograd_0" if op.pass_ == "backward" else "python"
    return {
        "collective_seq_id": seq,
        "input_dtypes": [dtype],
        "input_sizes": [[into]],
        "is_p2p": False,
        "op_id": seq,
        "output_dtypes": [dtype],
        "output_sizes": [[out]],
        "p2p_seq_id": 0,
        "pg_id": number,
        "process_group": [group.name, group.description],
        "profiling_name": f"nccl:{NAMES[op.name]}",
        "record_id": record,
        "retired": completed > 0,
        "state": "completed" if completed else "scheduled",
        "thread_id": str(139_800_000_000_000 + zlib.crc32(thread.encode())),
        "thread_name": thread,
        "time_created_ns": created,
        "time_discovered_completed_ns": completed,
        "time_discovered_started_ns": 0,
        "timeout_ms": TIMEOUT_MS,
    }
