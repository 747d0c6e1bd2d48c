"""Options that several verbs share, gathered into the values `Reading` and `Presenting` before a verb sees them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from stepscope.cli.output import Output
from stepscope.cli.presenting import Presenting
from stepscope.cli.reading import Mark, Reading
from stepscope.model.errors import UsageMistake
from stepscope.model.words import PHASES

Function = Callable[..., Any]

FORMATS: Final = ("text", "json", "csv", "markdown")


class MarkType(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only in newer click
    """`REGEX=phase`; the last `=` divides, so the expression may hold some."""

    name = "REGEX=PHASE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Mark:
        if isinstance(value, tuple):
            return value
        pattern, equals, phase = str(value).rpartition("=")
        if not equals or not pattern:
            self.fail(f"{value!r} is not REGEX=PHASE, for example 'save_.*=checkpoint'.", param, ctx)
        if phase not in PHASES:
            self.fail(f"{phase!r} is no phase; the phases are {', '.join(PHASES)}.", param, ctx)
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            self.fail(f"{pattern!r} is no regular expression: {error}.", param, ctx)
        return pattern, phase


def inputs(function: Function) -> Function:
    """IN...: files, folders, quoted globs."""
    return click.argument("inputs", metavar="IN...", nargs=-1, required=True, type=click.Path(path_type=str))(function)


def reading(function: Function) -> Function:
    """--mark, --rank-map, --hosts, --jobs and --quiet as `reading: Reading`."""

    @functools.wraps(function)
    def gathered(
        marks: Sequence[Mark], rank_map: Path | None, hosts: Path | None, jobs: int | None, quiet: bool, **rest: Any
    ) -> Any:
        return function(reading=Reading(tuple(marks), rank_map, jobs, quiet, hosts), **rest)

    mark = "Spans whose name matches belong to that phase, one of " + ", ".join(PHASES) + "; may be repeated."
    return _with(
        gathered,
        click.option("--mark", "marks", multiple=True, type=MarkType(), help=mark),
        click.option(
            "--rank-map",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Which file is which rank: a JSON object, or lines `file rank`.",
        ),
        click.option(
            "--hosts",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Which rank sits where: a hostfile, lines `rank node [gpu] [nic]`, Slurm's or kubectl's output.",
        ),
        click.option("-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Files read at once (default: one per core)."),
        quiet_option,
    )


def presenting(function: Function, formats: Sequence[str] = FORMATS) -> Function:
    """--format, -o, -f and --color as `presenting: Presenting`."""

    @functools.wraps(function)
    def gathered(format_: str, output: str | None, force: bool, color: Any, **rest: Any) -> Any:
        return function(presenting=Presenting(format_, output_of(output, force), color), **rest)

    return _with(
        gathered, format_option(formats), output_option("Write to FILE instead (- is stdout)."), force_option, color_option
    )


def format_option(formats: Sequence[str] = FORMATS) -> Callable[[Function], Function]:
    """--format with the shapes that the verb has."""
    return click.option(
        "--format", "format_", type=click.Choice(formats), default="text", show_default=True, help="Shape of the output."
    )


def output_option(words: str, metavar: str = "FILE") -> Callable[[Function], Function]:
    """-o with the meaning that the verb gives it."""
    return click.option("-o", "--output", metavar=metavar, help=words)


def output_of(name: str | None, force: bool) -> Output:
    """What -o and -f ask for; `-` and no name are stdout."""
    if name == "":
        raise UsageMistake("-o: the name is empty; give a file, or - for stdout")
    return Output(None if name is None or name == "-" else Path(name), force)


def color_option(function: Function) -> Function:
    """--color."""
    words = "Colour on the screen (auto: where stdout is a terminal and NO_COLOR is not set)."
    return click.option("--color", type=click.Choice(("auto", "always", "never")), default="auto", help=words)(function)


force_option = click.option("-f", "--force", is_flag=True, help="Replace an output that exists.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress and no notes on stderr.")


def _with(function: Function, *options: Callable[[Function], Function]) -> Function:
    for option in reversed(options):
        function = option(function)
    return function
