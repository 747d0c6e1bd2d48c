"""`stepscope hops`: the life of a step, hop by hop."""

from __future__ import annotations

import functools

import click

from stepscope.cli import options
from stepscope.cli.presenting import Answer, Presenting
from stepscope.cli.reading import Reading
from stepscope.model.errors import UsageMistake


@click.command("hops", short_help="What happens in one step, hop by hop, and what is exposed?")
@options.inputs
@click.option("--step", type=int, metavar="K", help="The step (default: the last complete one).")
@click.option("--rank", type=int, metavar="R", help="The rank (default: the lowest).")
@click.option("--unit", metavar="U", help="The unit: layers.3, root, 'bucket 1' (default: the middle one).")
@click.option("--whole-step", is_flag=True, help="All units together, and every other collective of the step.")
@functools.partial(options.presenting, formats=(*options.FORMATS, "mermaid"))
@options.reading
def command(
    inputs: tuple[str, ...],
    step: int | None,
    rank: int | None,
    unit: str | None,
    whole_step: bool,
    presenting: Presenting,
    reading: Reading,
) -> None:
    """Follow one step of one rank from the batch to the save: who hands on to whom, in which layer, how many bytes, how long,
    and which communication compute does not hide.

    \b
    Examples:
      stepscope hops fri.run
      stepscope hops fri.run --whole-step --rank 3 --step 12
      stepscope hops traces/ --unit layers.7 --format json
      stepscope hops fri.run --format mermaid -o step.mmd
    """
    if whole_step and unit is not None:
        raise UsageMistake("--whole-step has all units: leave it or --unit away")
    presenting.check()
    from stepscope.analysis.hops import hops

    with reading.open(inputs) as run:
        found = hops(run, step=step, unit=unit, rank=rank, whole_step=whole_step)

    from stepscope.show import hops as screen
    from stepscope.show import hops_json, mermaid

    presenting.show(
        Answer(
            lambda: screen.blocks(found),
            lambda: hops_json.document(found),
            lambda: hops_json.rows(found),
            lambda: mermaid.sequence(found),
        )
    )
