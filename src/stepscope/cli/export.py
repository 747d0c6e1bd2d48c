"""`stepscope export FORMAT`: a breakdown or the tables of a run as files that other tools open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from stepscope.cli import options
from stepscope.cli.reading import Reading
from stepscope.model.errors import UsageMistake

TABLES: Final = ("spans", "collectives", "attribution")
WHAT: Final = ("breakdown", *TABLES)


@click.group("export", short_help="Write results and tables as CSV, Parquet or JSON.")
def command() -> None:
    """Write a breakdown, or the tables behind it, as CSV, Parquet or JSON.

    \b
    Examples:
      stepscope export csv fri.run -o steps.csv
      stepscope export parquet fri.run --what spans -o spans.parquet
      stepscope export json traces/ --what collectives -o collectives.json
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
