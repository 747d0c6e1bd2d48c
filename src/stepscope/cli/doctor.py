"""`stepscope doctor`: which questions a recording can answer."""

from __future__ import annotations

import click

from stepscope.cli import options
from stepscope.cli.presenting import Answer, Presenting
from stepscope.cli.reading import Reading


@click.command("doctor", short_help="What can a recording answer, and what not?")
@options.inputs
@options.presenting
@options.reading
def command(inputs: tuple[str, ...], presenting: Presenting, reading: Reading) -> None:
    """Say what a recording can answer, what it cannot, and how to record so that it can.

    \b
    Examples:
      stepscope doctor traces/
      stepscope doctor fri.run --format json
    """
    presenting.check()
    with reading.open(inputs) as run:
        from stepscope.analysis.doctor import examine

        found = examine(run)

    from stepscope.show import csv, doctor, json

    presenting.show(Answer(lambda: doctor.blocks(found), lambda: json.doctor(found), lambda: csv.table(found.table())))
