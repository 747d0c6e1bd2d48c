"""`stepscope breakdown`: where every rank's step went."""

from __future__ import annotations

import click

from stepscope.cli import options
from stepscope.cli.presenting import Answer, Presenting
from stepscope.cli.reading import Reading


@click.command("breakdown", short_help="Where did the step go, on every rank?")
@options.inputs
@options.presenting
@options.reading
def command(inputs: tuple[str, ...], presenting: Presenting, reading: Reading) -> None:
    """Say where the step went: exclusive parts per rank and step, communication, collectives, units.

    IN is a .run folder, or raw input (trace files, a folder of them, a quoted glob), which is imported on the fly.
    The parts of a step add up to it exactly.

    \b
    Examples:
      stepscope breakdown fri.run
      stepscope breakdown traces/ --mark 'save_.*=checkpoint'
      stepscope breakdown 'traces/rank*.json.gz' --format json -o fri.json
      stepscope breakdown fri.run --format csv > fri.csv
    """
    presenting.check()
    with reading.open(inputs) as run:
        result = reading.break_down(run)
        info = run.info

    from stepscope.show import breakdown, csv, json

    presenting.show(Answer(lambda: breakdown.blocks(result, info), lambda: json.breakdown(result), lambda: csv.breakdown(result)))
