"""`stepscope plan`: does it fit, what takes the bytes and when, and what would make it fit?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli import options
from stepscope.cli.presenting import Answer, Presenting
from stepscope.cli.reading import Reading
from stepscope.model.errors import BadInput, GateTripped, UsageMistake

if TYPE_CHECKING:
    from stepscope.model.snapshot import MeasuredMemory
    from stepscope.planner.request import Request


@click.command("plan", short_help="Does it fit, what takes the bytes, and what would help?")
@click.argument("model", metavar="MODEL")
@click.option("--system", metavar="SYS", help="A cluster of the catalog (hgx-h100, p4d, ...) or a TOML file.")
@click.option("--plan", metavar="P", help="How the job is laid out, for example fsdp=16,mbs=1,seq=8192.")
@click.option("--stack", metavar="NAME", help="The software: a stack of the catalog or a TOML file (default: as for simulate).")
@click.option("--recipe", metavar="NAME", help="Which states a parameter has: fsdp2-mixed, pure-bf16, ddp-autocast, megatron, "
              "megatron-distopt, zero1, zero2, zero3, adam8bit, muon, sgd (default: by plan and stack).")  # fmt: skip
@click.option("--loss", metavar="NAME", help="The loss head: eager, loss-parallel, vocab-parallel, hf, bf16, compiled, chunked, "
              "fused-linear (default: the stack's).")  # fmt: skip
@click.option("--expandable", is_flag=True, help="With expandable_segments in the allocator.")
@click.option("--table", is_flag=True, help="The textbook table of states alone; needs neither --system nor --plan.")
@click.option("--no-master", is_flag=True, help="With --table: without fp32 master weights.")
@click.option("--grads", type=click.Choice(("bf16", "fp32")), default="bf16", help="With --table: gradients of 2 or 4 bytes.")
@click.option("--fit", is_flag=True, help="Walk to what fits: a smaller micro-batch, then more shards, and what each step costs.")
@click.option("--checkpoint", metavar="C", is_flag=False, flag_value="",
              help="What a save costs, how often; words: mode=async,mtbf_hours=24,recover_s=600,tolerate_s=1800.")  # fmt: skip
@click.option(
    "--measured", metavar="IN", help="A Run, a torch memory snapshot (pickle), or nvidia-smi's CSV to lay beside the plan."
)
@options.presenting
@options.quiet_option
def command(
    model: str,
    presenting: Presenting,
    quiet: bool,
    table: bool,
    no_master: bool,
    grads: str,
    fit: bool,
    checkpoint: str | None,
    measured: str | None,
    **asked: Any,
) -> None:
    """Plan the memory of MODEL (a name of the catalog, or a TOML file): every term with its formula, at the fullest moment.

    What does not fit ends with exit code 3, after its document.

    \b
    Examples:
      stepscope plan illustrative-3b --table
      stepscope plan llama3-8b --system hgx-h100 --plan fsdp=16,mbs=1,seq=8192
      stepscope plan llama3-70b --system hgx-h100 --plan fsdp=64,mbs=4,seq=8192 --fit
      stepscope plan llama3-8b --system hgx-h100 --plan fsdp=16,seq=8192 --checkpoint mode=async,tolerate_s=1800
      stepscope plan llama3-8b --system hgx-h100 --plan fsdp=16,seq=8192 --measured snapshot.pickle
    """
    from stepscope.planner.request import Request

    presenting.check()
    request = Request(model=model, **asked)
    if table:
        _table(request, presenting, not no_master, grads)
        return
    if no_master or grads != "bf16":
        raise UsageMistake("--no-master and --grads are variants of the table: add --table, or choose a --recipe")
    _plan(request, presenting, quiet, fit, checkpoint, measured)


def _table(request: Request, presenting: Presenting, master: bool, grads: str) -> None:
    from stepscope.show import plan as screen
    from stepscope.show import plan_json

    found = request.table(master, grads)
    presenting.show(
        Answer(lambda: screen.textbook(found), lambda: plan_json.textbook(found), lambda: plan_json.textbook_rows(found))
    )


def _plan(request: Request, presenting: Presenting, quiet: bool, fit: bool, checkpoint: str | None, measured: str | None) -> None:
    from stepscope.planner.advice import advise, largest_micro_batch
    from stepscope.planner.cost import Cost
    from stepscope.planner.measured import compared
    from stepscope.planner.walk import walk
    from stepscope.show import plan as screen
    from stepscope.show import plan_json
    from stepscope.simulator.predict import predictor

    workload, planner = request.workload(), request.planner()
    found = planner(workload)
    cost = Cost(planner.system, predictor(planner.system, planner.stack))
    seen = None if measured is None else _measured(measured, quiet)
    shown = screen.Shown(
        plan=found,
        advice=[] if found.fits else advise(planner, workload, cost),
        largest_micro_batch=largest_micro_batch(planner, workload),
        walk=walk(planner, workload, cost) if fit else (),
        checkpoint=None if checkpoint is None else request.checkpoint(checkpoint),
        compared=() if seen is None else compared(found, seen),
        measured_from=None if seen is None else seen.source,
        notes=() if seen is None else seen.notes,
    )
    presenting.show(Answer(lambda: screen.blocks(shown), lambda: plan_json.document(shown), lambda: plan_json.rows(found)))
    if not found.fits and not (shown.walk and shown.walk[-1].fits):
        over = -found.headroom_bytes / 2**30
        raise GateTripped(f"{found.model}: {found.plan} does not fit, {over:.1f} GiB too much; see the advice, or add --fit")


def _measured(word: str, quiet: bool) -> MeasuredMemory:
    """By what the file is, not by its name: a folder is a Run or traces, a pickle a snapshot, text with commas a CSV."""
    path = Path(word)
    if not path.exists():
        raise BadInput(f"{word}: no such file or folder; check the path")
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(4096)
        if start[:1] == b"\x80":
            from stepscope.sources.memory_snapshot import read_snapshot

            return read_snapshot(path)
        if start[:1] not in (b"{", b"[", b"\x1f"):
            from stepscope.sources.memory_csv import read_memory_csv

            return read_memory_csv(path)
    from stepscope.analysis.memory import measured_memory

    with Reading(quiet=quiet).open([word]) as run:
        return measured_memory(run, word)
