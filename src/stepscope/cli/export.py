"""`stepscope export FORMAT`: a breakdown, the tables of a run or its timeline as files that other tools open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from stepscope.cli import options
from stepscope.cli.import_ import default_name
from stepscope.cli.numbers import Numbers, NumbersType
from stepscope.cli.output import note
from stepscope.cli.progress import Bar
from stepscope.cli.reading import Reading, expand
from stepscope.model.errors import UsageMistake

TABLES: Final = ("spans", "collectives", "attribution")
WHAT: Final = ("breakdown", *TABLES)


@click.group("export", short_help="Write results and tables as CSV, Parquet or JSON, timelines for Perfetto.")
def command() -> None:
    """Write a breakdown or the tables behind it as CSV, Parquet or JSON, and timelines for Perfetto.

    \b
    Examples:
      stepscope export csv fri.run -o steps.csv
      stepscope export parquet fri.run --what spans -o spans.parquet
      stepscope export json traces/ --what collectives -o collectives.json
      stepscope export perfetto fri.run
    """


def _exporting(function: Callable[..., Any]) -> Callable[..., Any]:
    what = click.option("--what", type=click.Choice(WHAT), default="breakdown", show_default=True, help="Which table to write.")
    output = options.output_option("The file to write (- is stdout).")
    return options.inputs(output(options.force_option(what(options.reading(function)))))


@command.command("csv")
@_exporting
def csv(**given: Any) -> None:
    """Write one table as CSV; text cells cannot act as formulas.

    \b
    Examples:
      stepscope export csv fri.run -o steps.csv
      stepscope export csv fri.run --what collectives > collectives.csv
    """
    _export("csv", **given)


@command.command("parquet")
@_exporting
def parquet(**given: Any) -> None:
    """Write one table as Parquet, for polars, pandas or DuckDB.

    \b
    Examples:
      stepscope export parquet fri.run --what spans -o spans.parquet
    """
    if given["output"] is None:
        raise UsageMistake("export parquet needs -o FILE (or -o - for stdout)")
    _export("parquet", **given)


@command.command("json")
@_exporting
def json(**given: Any) -> None:
    """Write one table as JSON: the breakdown as `breakdown --format json` has it, other tables as rows.

    \b
    Examples:
      stepscope export json fri.run -o breakdown.json
      stepscope export json fri.run --what attribution -o attribution.json
    """
    _export("json", **given)


@command.command("perfetto")
@options.inputs
@options.output_option("The file to write; gzip where the name ends in .gz (default: NAME.pftrace in the current folder).")
@options.force_option
@click.option("--steps", type=NumbersType(), help="Only these steps, such as 3-5 (default: all that is recorded).")
@click.option("--ranks", type=NumbersType(), help="Only these ranks, such as 0,8-15 (default: all).")
@options.reading
def perfetto(
    inputs: tuple[str, ...], output: str | None, force: bool, steps: Numbers | None, ranks: Numbers | None, reading: Reading
) -> None:
    """Write a timeline for https://ui.perfetto.dev, all ranks on one clock.

    Each rank is a process with its steps and their exclusive parts, its waits for other ranks, its threads and its device
    streams. Arrows run from the ranks of a collective to the one that came last.

    \b
    Examples:
      stepscope export perfetto fri.run
      stepscope export perfetto traces/ --steps 3-5 --ranks 0,7 -o fri.pftrace.gz
    """
    name = str(timeline_name(expand(inputs))) if output is None else output
    out = options.output_of(name, force)
    out.check()
    with reading.open(inputs) as run, Bar("writing", reading.quiet) as bar:
        from stepscope.show import perfetto as timeline

        chosen = ranks.pick(run.ranks, "rank") if ranks else None
        there = {step.step for info in run.info.ranks if chosen is None or info.rank in chosen for step in info.steps}
        wanted = steps.pick(there, "step") if steps else None

        def write(path: Path) -> None:
            timeline.write(run, path, packed=name.endswith(".gz"), ranks=chosen, steps=wanted, progress=begun)

        def begun(rank: int) -> None:
            bar.stage(f"writing rank {rank}")

        out.fill(write)
    if out.path is not None:
        note(f"wrote {out.path}; open it at https://ui.perfetto.dev", reading.quiet)


def timeline_name(paths: Sequence[Path]) -> Path:
    """`fri.pftrace` in the current folder for `fri.run` or the traces of `fri`."""
    return Path(default_name(paths).name.removesuffix(".run").removesuffix(".run") + ".pftrace")


def _export(kind: str, inputs: tuple[str, ...], output: str | None, force: bool, what: str, reading: Reading) -> None:
    out = options.output_of(output, force)
    out.check()
    with reading.open(inputs) as run:
        if what != "breakdown":
            from stepscope.show import tables

            out.fill(lambda path: tables.write(run, what, kind, path))
            return
        result = reading.break_down(run)
    if kind == "parquet":
        out.fill(lambda path: result.frame().write_parquet(path))
    elif kind == "csv":
        from stepscope.show import csv as as_csv

        out.write(as_csv.breakdown(result))
    else:
        from stepscope.show import json as as_json

        out.write(as_json.encode(as_json.breakdown(result)))
