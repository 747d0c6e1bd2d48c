"""`stepscope show`: what a run or a trace folder holds."""

from __future__ import annotations

import click

from stepscope.cli import options
from stepscope.cli.presenting import Answer, Presenting
from stepscope.cli.reading import Reading


@click.command("show", short_help="What does a run or a trace folder hold?")
@options.inputs
@options.presenting
@options.reading
def command(inputs: tuple[str, ...], presenting: Presenting, reading: Reading) -> None:
    """Say what a run or a trace folder holds: ranks, devices, steps, collectives, gaps.

    \b
    Examples:
      stepscope show fri.run
      stepscope show traces/ --format json
    """
    presenting.check()
    from stepscope.show.contents import contents

    with reading.open(inputs) as run:
        held = contents(run)

    from stepscope.show import csv, json
    from stepscope.show import run as screen

    name = inputs[0] if len(inputs) == 1 else f"{len(inputs)} inputs"
    presenting.show(
        Answer(lambda: screen.shown(held, name), lambda: json.shown(held), lambda: csv.table(screen.ranks(held.info)))
    )
