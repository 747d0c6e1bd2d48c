"""`stepscope show`: what a run, a trace folder or a folder of flight-recorder dumps holds."""

from __future__ import annotations

from pathlib import Path

import click

from stepscope.cli import options
from stepscope.cli.presenting import Answer, Presenting
from stepscope.cli.reading import Reading, expand


@click.command("show", short_help="What does a run, a trace folder or a dump hold?")
@options.inputs
@options.presenting
@options.reading
def command(inputs: tuple[str, ...], presenting: Presenting, reading: Reading) -> None:
    """Say what a run, a trace folder or a folder of flight-recorder dumps holds: ranks, devices, steps, collectives, gaps.

    \b
    Examples:
      stepscope show fri.run
      stepscope show traces/ --format json
      stepscope show dumps/
    """
    presenting.check()
    from stepscope.sources.flight_recorder import find_dumps

    paths = expand(inputs)
    name = inputs[0] if len(inputs) == 1 else f"{len(inputs)} inputs"
    is_run = any((path / "run.json").is_file() for path in paths)
    if dumps := [] if is_run else find_dumps(paths):
        _dumps(presenting, dumps, name)
        return
    from stepscope.show.contents import contents

    with reading.open(inputs) as run:
        held = contents(run)

    from stepscope.show import csv, json
    from stepscope.show import run as screen

    presenting.show(
        Answer(lambda: screen.shown(held, name), lambda: json.shown(held), lambda: csv.table(screen.ranks(held.info)))
    )


def _dumps(presenting: Presenting, files: list[Path], name: str) -> None:
    from stepscope.show import csv
    from stepscope.show import dump as screen
    from stepscope.sources.flight_recorder import read_dumps

    held = read_dumps(files)
    presenting.show(
        Answer(lambda: screen.shown(held, name), lambda: screen.document(held), lambda: csv.table(screen.table(held)))
    )
