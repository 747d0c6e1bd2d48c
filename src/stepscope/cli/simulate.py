"""`stepscope simulate`: the step of a model on a cluster, healthy or with faults, as figures and as a Run."""

from __future__ import annotations

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


class RanksType(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic only in newer click
    """`0-7,12` as a list of ranks."""

    name = "RANKS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        found: set[int] = set()
        for word in str(value).split(","):
            low, dash, high = word.strip().partition("-")
            if not low.isdecimal() or (dash and not high.isdecimal()) or (dash and int(high) - int(low) > 1 << 20):
                self.fail(f"{value!r} is not a list of ranks such as 0-7,12.", param, ctx)
            found.update(range(int(low), int(high or low) + 1))
        return tuple(sorted(found))


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
@click.option("--sweep", "sweeps", metavar="KEY=V,V", help="A table over values of one word of the plan, without noise.")
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
    sweeps: str | None,
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
    from stepscope.simulator.request import Request

    presenting = Presenting(format_, Output(None), color)
    request = Request(model=model, **asked)
    if sweeps is not None:
        if output or emit or fit:
            raise UsageMistake("--sweep prints a table and keeps nothing: leave -o, --emit and --fit away")
        _sweep(request, sweeps, presenting, quiet)
        return
    _simulate(request, presenting, _Kept(Path(output) if output else None, emit, force, ranks, detail), fit, quiet)


class _Kept:
    """What is written besides the answer."""

    def __init__(
        self, run: Path | None, emit: Path | None, force: bool, ranks: tuple[int, ...] | None, detail: str | None
    ) -> None:
        self.run, self.emit, self.force, self.ranks, self.detail = run, emit, force, ranks, detail
        for path in filter(None, (run, emit)):
            if path.exists() and not force:
                raise OutputRefused(f"{path}: exists already; use -f to replace it, or another name")
            if not path.absolute().parent.is_dir():
                raise OutputRefused(f"{path}: there is no folder {path.parent}; make it first")


def _simulate(request: Request, presenting: Presenting, kept: _Kept, fit: bool, quiet: bool) -> None:
    from stepscope.simulator.keep import emit_steps, keep_run

    changes = request.fitted() if fit else []
    if changes:
        request = request.with_plan(changes[-1].plan)
    with Bar("simulating", quiet) as bar:
        ran, result = request.run()
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
