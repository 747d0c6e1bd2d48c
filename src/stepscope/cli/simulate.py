"""`stepscope simulate`: the step of a model on a cluster, healthy or with faults, as figures and as a Run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli import options
from stepscope.cli.output import Output, note
from stepscope.cli.presenting import Answer, Presenting
from stepscope.cli.progress import Bar
from stepscope.model.errors import OutputRefused, UsageMistake

if TYPE_CHECKING:
    from stepscope.simulator.request import Request

UNIT_DETAIL_FROM = 64
"""Ranks from which --detail is units unless asked otherwise: a run of 1,024 ranks with every kernel is gigabytes."""

MOST_KEPT = 1024
"""Ranks whose spans are kept at most; all are simulated, and --ranks chooses."""


class RanksType(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only in newer click
    """`0-7,12` as a list of ranks."""

    name = "RANKS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        found: set[int] = set()
        for word in str(value).split(","):
            found.update(self._span(word.strip(), param, ctx))
        return tuple(sorted(found))

    def _span(self, word: str, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """The ranks of `3` or `0-7`, both ends included."""
        from stepscope.model.plan import MAX_RANKS

        low, dash, high = word.partition("-")
        ends = (low, high) if dash else (low, low)
        if not all(end.isascii() and end.isdecimal() and len(end) < 10 for end in ends):
            self.fail(f"{word[:40]!r} is no rank and no range of ranks; give for example 0-7,12.", param, ctx)
        first, last = map(int, ends)
        if not first <= last < MAX_RANKS:
            self.fail(f"{word!r} is no range of ranks: give the lower one first, at most {MAX_RANKS - 1}.", param, ctx)
        return range(first, last + 1)


@click.command("simulate", short_help="What would a step cost on that cluster, and what does a weakness cost?")
@click.argument("model", metavar="MODEL")
@click.option("--system", required=True, metavar="SYS", help="A cluster of the catalog (hgx-h100, p4d, ...) or a TOML file.")
@click.option("--plan", required=True, metavar="P", help="How the job is laid out, for example fsdp=16,mbs=1,seq=8192.")
@click.option("--stack", metavar="NAME", help="The software: a stack of the catalog or a TOML file (default: torch-compile).")
@click.option("--fault", "faults", multiple=True, metavar="CAUSE@PLACE", help="A weakness, with [,key=value]; may be repeated.")
@click.option("--steps", type=click.IntRange(1, 10_000), default=4, show_default=True, help="Steps to run.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Same seed, same bytes.")
@click.option("--noise/--no-noise", default=True, show_default=True, help="Whether equal operations differ a little.")
@click.option("--loader", metavar="L", help="workers=4,prefetch=2,bytes_per_token=4,cpu_us=2000,pinned=true,path=/data.")
@click.option("--checkpoint", metavar="C", help="every=100,mode=async,bytes_per_parameter=12,path=/data.")
@click.option("--anchor", type=click.FloatRange(min=0, min_open=True), metavar="S",
              help="A measured healthy step in seconds: stretches the stack's kernels to it.")  # fmt: skip
@click.option("--fit", is_flag=True, help="Where it does not fit: a smaller micro-batch or more shards, and what that costs.")
@click.option(
    "--sweep", "sweeps", multiple=True, metavar="KEY=V,V", help="A table over values of one word of the plan, without noise."
)
@click.option("--ranks", type=RanksType(), help="Keep the spans of these ranks alone, for example 0-7,12.")
@click.option("--detail", type=click.Choice(("kernels", "units")), help="Spans per kernel, or per unit (default from 65 ranks).")
@click.option("--emit", type=click.Path(path_type=Path), metavar="DIR",
              help="Also write what the real tools would have left; the truth goes to DIR.truth.json.")  # fmt: skip
@options.output_option("The Run folder to make.", "RUN")
@options.force_option
@options.format_option()
@options.color_option
@options.quiet_option
def command(
    model: str,
    output: str | None,
    force: bool,
    format_: str,
    color: Any,
    quiet: bool,
    sweeps: tuple[str, ...],
    ranks: tuple[int, ...] | None,
    detail: str | None,
    emit: Path | None,
    fit: bool,
    **asked: Any,
) -> None:
    """Simulate the step of MODEL (a name of the catalog, or a TOML file): framework, kernels, NCCL, links, storage.

    \b
    Examples:
      stepscope simulate llama3-8b --system hgx-h100 --plan fsdp=16,mbs=1,seq=8192
      stepscope simulate llama3-8b --system hgx-h100 --plan fsdp=16,seq=2048 -o ok.run
      stepscope simulate llama3-8b --system p5 --plan fsdp=16 --fault gpu.thermal_throttle@node1/gpu3
      stepscope simulate mpt-7b --system dgx-a100 --plan fsdp=8,mbs=16 --fit
      stepscope simulate llama3-8b --system hgx-h100 --plan seq=2048,mbs=1 --sweep fsdp=8,16,32,64
    """
    if output in ("", "-"):
        raise UsageMistake("-o: a Run is a folder, so it needs a name such as ok.run")
    if emit is not None and str(emit) in (".", "-"):
        raise UsageMistake("--emit: the files go into a folder, so it needs a name such as seen")
    from stepscope.simulator.request import Request

    presenting = Presenting(format_, Output(None), color)
    from stepscope.planner.predict import Planner

    request = Request(model=model, **asked)
    request = replace(request, memory=Planner(request.the_system(), request.the_stack()))
    if len(sweeps) > 1:
        raise UsageMistake("--sweep: one word at a time; leave the others away")
    if sweeps:
        if output or emit or fit:
            raise UsageMistake("--sweep prints a table and keeps nothing: leave -o, --emit and --fit away")
        _sweep(request, sweeps[0], presenting, quiet)
        return
    _simulate(request, presenting, _Kept(Path(output) if output else None, emit, force, ranks, detail), fit, quiet)


class _Kept:
    """What is written besides the answer, and of which ranks. What cannot be written is refused before the long work."""

    def __init__(
        self, run: Path | None, emit: Path | None, force: bool, ranks: tuple[int, ...] | None, detail: str | None
    ) -> None:
        self.run, self.emit, self.force, self.ranks, self.detail = run, emit, force, ranks, detail
        if run is not None and emit is not None and run.absolute() == emit.absolute():
            raise UsageMistake(f"--emit: {emit} is the Run of -o too; give it a folder of its own")
        for path in filter(None, (run, emit)):
            if not str(path).isprintable():  # polars takes names in UTF-8 alone, and who could type the others?
                raise UsageMistake(f"{str(path)[:80]!r}: holds what no screen shows; name the output in letters and digits")
            if path.exists() and not force:
                raise OutputRefused(f"{path}: exists already; use -f to replace it, or another name")
            if not path.absolute().parent.is_dir():
                raise OutputRefused(f"{path}: there is no folder {path.parent}; make it first")

    @property
    def anything(self) -> bool:
        """Whether the steps are needed after their figures are known."""
        return self.run is not None or self.emit is not None

    def check(self, world: int) -> None:
        """UsageMistake where the job has no such ranks, or so many that their spans fill a disk."""
        if self.ranks is not None and max(self.ranks) >= world:
            raise UsageMistake(f"--ranks: the job has ranks 0 to {world - 1}; name some of those")
        if self.anything and len(self.ranks or range(world)) > MOST_KEPT:
            raise UsageMistake(f"--ranks: spans of {len(self.ranks or range(world))} ranks are too many to keep, at most "
                               f"{MOST_KEPT}; name some, for example --ranks 0-63")  # fmt: skip


def _simulate(request: Request, presenting: Presenting, kept: _Kept, fit: bool, quiet: bool) -> None:
    from stepscope.simulator.keep import emit_steps, keep_run

    changes = request.fitted() if fit else []
    if changes:
        request = request.with_plan(changes[-1].plan)
    from stepscope.model.plan import parse_plan

    kept.check(parse_plan(request.plan).world_size)
    with Bar("simulating", quiet) as bar:
        ran, result = request.run(kept.anything, lambda a, b: bar.step(a, b, "step", "simulating"))
        if kept.run is not None:
            from stepscope.analysis.attribution import RULES

            units = kept.detail == "units" or (kept.detail is None and len(kept.ranks or range(result.ranks)) > UNIT_DETAIL_FROM)
            keep_run(kept.run, request.job(), ran, RULES, kept.force, kept.ranks, units, lambda a, b: bar.step(a, b, "rank"))
        if kept.emit is not None:
            emit_steps(kept.emit, request, ran, kept.force, kept.ranks, lambda a, b: bar.step(a, b, "rank"))

    from stepscope.show import simulate as screen
    from stepscope.show import simulate_json

    name = None if kept.run is None else str(kept.run)
    presenting.show(
        Answer(
            lambda: screen.blocks(result, changes),
            lambda: simulate_json.document(result, name, changes),
            lambda: simulate_json.rows(result),
        )
    )
    for path in filter(None, (kept.run, kept.emit)):
        note(f"wrote {path}", quiet)


def _sweep(request: Request, text: str, presenting: Presenting, quiet: bool) -> None:
    from stepscope.show import simulate as screen
    from stepscope.show import simulate_json

    points = []
    with Bar("simulating", quiet) as bar:
        tried = request.sweep_plans(text)
        for n, point in enumerate(request.sweep(tried)):
            points.append(point)
            bar.step(n + 1, len(tried), point.plan)
    presenting.show(
        Answer(lambda: screen.sweep(points), lambda: simulate_json.sweep(points), lambda: simulate_json.sweep_rows(points))
    )
