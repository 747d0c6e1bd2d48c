"""What every step has around forward and backward: the batch, its copy, clipping, the optimizer, the loss read, a checkpoint."""

from __future__ import annotations

from stepscope.simulator.program import COMPUTE, REDUCE, Comm, Op, Program

WORLD = Comm("world", "world")
NORM_BYTES = 4  # one fp32 number, the squared norm


def batch(program: Program, micro: int) -> int:
    """The host waits for a micro-batch and copies it; the copy."""
    if not micro:
        program.add(Op("host", "loop", "loop"))
    program.add(Op("input", "next batch", "input", micro=micro))
    return program.add(Op("copy", "batch to device", "batch copy", stream=COMPUTE, micro=micro))


def update(program: Program, after: tuple[int, ...], norms: tuple[Comm, ...], last: int) -> int:
    """Gradient norm over `norms`, clipping, optimizer; the host then reads the loss, so that it waits for all of it."""
    done = program.add(Op("compute", "gradient norm", "norm", after=after, micro=last))
    for comm in norms:
        op = Op("collective", "all_reduce", f"all_reduce:{comm.axis}:{NORM_BYTES}", stream=REDUCE, comm=comm, nbytes=NORM_BYTES,
                after=(done,), micro=last)  # fmt: skip
        done = program.add(op)
    program.add(Op("compute", "clip", "clip", after=(done,), micro=last))
    return program.add(Op("compute", "optimizer", "optimizer", micro=last))


def close(program: Program, after: int, save: bool) -> None:
    """The end of a step."""
    program.add(Op("sync", "read the loss", "sync", after=(after,)))
    if save:
        program.add(Op("save", "checkpoint", "save", comm=WORLD))
