"""`stepscope import`: raw input to a Run folder, read once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import click

from stepscope.cli import options
from stepscope.cli.output import Output, note
from stepscope.cli.presenting import Answer, Presenting
from stepscope.cli.reading import Reading, expand
from stepscope.model.errors import OutputRefused, UsageMistake

_ENDINGS = re.compile(r"(\.gz|\.zip|\.json|\.pt|\.trace)+$", re.IGNORECASE)


@click.command("import", short_help="Read traces once into a .run folder.")
@options.inputs
@options.output_option("The Run folder to make (default: named after the input, in the current folder).", "RUN")
@options.force_option
@options.format_option()
@options.color_option
@options.reading
def command(inputs: tuple[str, ...], output: str | None, force: bool, format_: str, color: str, reading: Reading) -> None:
    """Read traces once into a .run folder that every other verb opens at once.

    IN is trace files, folders of them, or quoted globs, one job together.

    \b
    Examples:
      stepscope import traces/ -o fri.run
      stepscope import 'traces/rank*.json.gz' --rank-map ranks.txt
    """
    if output in ("", "-"):
        raise UsageMistake("-o: a Run is a folder, so it needs a name such as fri.run")
    out = Path(output) if output else default_name(expand(inputs))
    if out.exists() and not force:
        raise OutputRefused(f"{out}: exists already; use -f to replace it, or another name with -o")
    if not out.absolute().parent.is_dir():
        raise OutputRefused(f"{out}: there is no folder {out.parent}; make it first")
    run = reading.into(inputs, out, force)

    from stepscope.show import csv, json
    from stepscope.show import run as screen

    info = run.info
    answer = Answer(
        lambda: screen.imported(info, str(out)), lambda: json.imported(info, str(out)), lambda: csv.table(screen.ranks(info))
    )
    Presenting(format_, Output(None), "always" if color == "always" else "never" if color == "never" else "auto").show(answer)
    note(f"wrote {out}", reading.quiet)


def default_name(paths: Sequence[Path]) -> Path:
    """`NAME.run` in the current folder, after the only input, or after the folder that several inputs lie in."""
    first = paths[0].resolve()
    source = first if len(paths) == 1 else first.parent
    name = _ENDINGS.sub("", source.name) or source.name or "job"
    return Path(f"{name}.run")
