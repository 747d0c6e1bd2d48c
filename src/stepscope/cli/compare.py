"""`stepscope compare`: what grew from a base to a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from stepscope.cli import options
from stepscope.cli.gate import LimitType, judge
from stepscope.cli.output import note
from stepscope.cli.presenting import Answer, Presenting
from stepscope.cli.reading import Reading, expand
from stepscope.model.errors import GateTripped, UsageMistake

WORD: Final = "last-good"

Tokens = tuple[int | None, int | None]


class TokensType(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only in newer click
    """`N` for both, or `N,M` for base and run."""

    name = "N[,M]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Tokens:
        if isinstance(value, tuple):
            return value
        words = [word.strip().replace("_", "") for word in str(value).split(",")]
        if len(words) > 2 or not all(word.isdecimal() and 0 < len(word) < 19 and int(word) for word in words):
            self.fail(f"{value!r} is not N or N,M: whole numbers of tokens in a step, all ranks together.", param, ctx)
        return int(words[0]), int(words[-1])


@click.command("compare", short_help="What grew from a base to a run, and on which rank?")
@click.argument("inputs", metavar="[BASE] RUN", nargs=-1, required=True, type=click.Path(path_type=str))
@click.option("--base", metavar="BASE", help=f"The base; {WORD} is the newest run marked good in the folder of runs.")
@click.option("--runs", metavar="DIR", type=click.Path(path_type=Path), help=f"The folder of runs for {WORD} (default: RUN's).")
@click.option("--tokens-per-step", "tokens", type=TokensType(), help="Tokens in a step, of both or of base and run.")
@click.option("--fail-above", "limit", type=LimitType(), help="Exit with 3 where the step surely grew by more: 5% or 0.05.")
@options.presenting
@options.reading
def command(
    inputs: tuple[str, ...],
    base: str | None,
    runs: Path | None,
    tokens: Tokens | None,
    limit: float | None,
    presenting: Presenting,
    reading: Reading,
) -> None:
    """Say what grew from a base to a run: which part, by how much, how surely, and on which rank.

    BASE and RUN are .run folders or raw input (a trace file, a folder of them, a quoted glob). The changes of the parts add
    up to the step's. A run is marked good with `stepscope import ... --good`.

    \b
    Examples:
      stepscope compare monday.run friday.run
      stepscope compare --base last-good runs/ friday.run --fail-above 5%
      stepscope compare old/ new/ --tokens-per-step 524288 --format json
      stepscope compare last-good new.run --runs runs/ --format markdown
    """
    first, second = _sides(inputs, base, runs, reading)
    presenting.check()
    from stepscope.analysis.compare import compare

    with reading.open([first]) as one, reading.open([second]) as two:
        results = (reading.break_down(one), reading.break_down(two))
        found = compare(one, two, tokens=tokens or (None, None), broken_down=results)

    from stepscope.show import compare as screen
    from stepscope.show import compare_json

    verdict = judge(found, limit) if limit is not None else None
    said = f"{'Above' if verdict.tripped else 'Within'} the limit: {verdict.why}." if verdict else None
    gate = verdict.document() if verdict else None
    presenting.show(
        Answer(
            lambda: screen.blocks(found, names(first, second), said),
            lambda: compare_json.document(found, gate),
            lambda: compare_json.rows(found),
        )
    )
    if verdict and verdict.tripped:
        raise GateTripped(verdict.why)


def names(first: str, second: str) -> tuple[str, str]:
    """Headings for the two columns: the last parts of their paths, or base and run where those are the same."""
    one, two = (Path(path).resolve().name for path in (first, second))
    return (one, two) if one != two else ("base", "run")


def _sides(inputs: Sequence[str], base: str | None, runs: Path | None, reading: Reading) -> tuple[str, str]:
    """Base and run from the words of the call."""
    words = list(inputs)
    if base is None and len(words) == 2:
        base = words.pop(0)
    elif base == WORD and len(words) == 2 and runs is None:
        runs = Path(words.pop(0))
    if base is None or len(words) != 1:
        raise UsageMistake(f"compare takes BASE and RUN, or --base {WORD}, a folder of runs and RUN; see compare --help")
    if base != WORD:
        if runs is not None:
            raise UsageMistake(f"--runs is the folder in which {WORD} is looked for; with another base leave it away")
        return base, words[0]
    from stepscope.cli.last_good import last_good

    (run, *_) = expand(words)
    chosen = last_good(runs if runs is not None else run.resolve().parent, run)
    note(f"base: {chosen}", reading.quiet)
    return str(chosen), words[0]
