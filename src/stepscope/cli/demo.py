"""`stepscope demo`: two small recordings side by side, read and explained in seconds."""

from __future__ import annotations

from pathlib import Path

import click

from stepscope.cli import options
from stepscope.cli.presenting import Answer, Presenting
from stepscope.cli.reading import Reading
from stepscope.model.errors import BadInput, UsageMistake

NAMES = ("healthy", "slow-rank")


@click.command("demo", short_help="Explain a healthy job and one with a slow rank.")
@click.argument("inputs", metavar="[FIRST SECOND]", nargs=-1, type=click.Path(path_type=str))
@options.presenting
@options.reading
def command(inputs: tuple[str, ...], presenting: Presenting, reading: Reading) -> None:
    """Explain two recordings side by side: a healthy job, and the same job with a slow rank.

    With FIRST and SECOND, do the same for two runs or trace folders of your own.

    \b
    Examples:
      stepscope demo
      stepscope demo monday.run friday.run
    """
    if presenting.format == "csv":
        raise UsageMistake("demo has no CSV; use --format json, or `stepscope breakdown` on each input")
    if len(inputs) not in (0, 2):
        raise UsageMistake("demo takes two inputs, FIRST and SECOND, or none")
    presenting.check()
    first, second = inputs or recordings()
    results = []
    for path in (first, second):
        with reading.open([path]) as run:
            results.append(reading.break_down(run))
    names = [Path(path).resolve().name for path in (first, second)]
    if names[0] == names[1]:
        names = [first, second] if first != second else ["first", "second"]

    from stepscope.show import demo

    one, other = (names[0], results[0]), (names[1], results[1])
    presenting.show(Answer(lambda: demo.blocks(one, other), lambda: demo.document(one, other)))


def recordings() -> tuple[str, str]:
    """The two folders that come with the package, or with a checkout of its repository."""
    package = Path(__file__).resolve().parents[1]
    for home in (package / "demo_data", package.parents[1] / "demo"):
        if all((home / name).is_dir() for name in NAMES):
            return str(home / NAMES[0]), str(home / NAMES[1])
    raise BadInput("the demo's recordings are not installed; give two inputs: stepscope demo FIRST SECOND")
