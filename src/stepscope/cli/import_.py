"""`stepscope import`: raw input to a Run folder, read once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepscope.cli import options
from stepscope.cli.output import Output, note
from stepscope.cli.presenting import Answer, Presenting
from stepscope.cli.reading import Reading, expand
from stepscope.model.errors import OutputRefused, UsageMistake

if TYPE_CHECKING:
    from stepscope.model.info import RunInfo

_ENDINGS = re.compile(r"(\.gz|\.zip|\.json|\.pt|\.trace)+$", re.IGNORECASE)


@click.command("import", short_help="Read traces once into a .run folder.")
@options.inputs
@options.output_option("The Run folder to make (default: named after the input, in the current folder).", "RUN")
@options.force_option
@click.option("--good/--not-good", default=None, help="Mark the run as one to compare with (last-good); works on a RUN too.")
@options.format_option()
@options.color_option
@options.reading
def command(
    inputs: tuple[str, ...],
    output: str | None,
    force: bool,
    good: bool | None,
    format_: str,
    color: str,
    reading: Reading,
) -> None:
    """Read traces once into a .run folder that every other verb opens at once.

    IN is trace files, folders of them, or quoted globs, one job together. A .run folder is only marked: with --good, the
    newest such run of a folder is what `compare --base last-good` takes.

    \b
    Examples:
      stepscope import traces/ -o fri.run
      stepscope import 'traces/rank*.json.gz' --rank-map ranks.txt
      stepscope import fri.run --good
    """
    if good is not None and len(inputs) == 1 and (Path(inputs[0]) / "run.json").is_file():
        if output is not None:
            raise UsageMistake("-o: a run that exists is marked where it lies; leave -o away")
        info = _mark(Path(inputs[0]), good)
        if format_ != "text":
            _show(info, inputs[0], format_, color)
        note(f"{inputs[0]}: {'marked good' if good else 'no longer marked good'}", reading.quiet)
        return
    if output in ("", "-"):
        raise UsageMistake("-o: a Run is a folder, so it needs a name such as fri.run")
    out = Path(output) if output else default_name(expand(inputs))
    if out.exists() and not force:
        raise OutputRefused(f"{out}: exists already; use -f to replace it, or another name with -o")
    if not out.absolute().parent.is_dir():
        raise OutputRefused(f"{out}: there is no folder {out.parent}; make it first")
    run = reading.into(inputs, out, force)
    _show(_mark(out, good) if good else run.info, str(out), format_, color)
    note(f"wrote {out}", reading.quiet)


def _show(info: RunInfo, name: str, format_: str, color: str) -> None:
    from stepscope.show import csv, json
    from stepscope.show import run as screen

    answer = Answer(lambda: screen.imported(info, name), lambda: json.imported(info, name), lambda: csv.table(screen.ranks(info)))
    Presenting(format_, Output(None), "always" if color == "always" else "never" if color == "never" else "auto").show(answer)


def _mark(path: Path, good: bool) -> RunInfo:
    from stepscope.model.store import mark_good

    return mark_good(path, good)


def default_name(paths: Sequence[Path]) -> Path:
    """`NAME.run` in the current folder, after the only input, or after the folder that several inputs lie in."""
    first = paths[0].resolve()
    source = first if len(paths) == 1 else first.parent
    name = _ENDINGS.sub("", source.name) or source.name or "job"
    return Path(f"{name}.run")
