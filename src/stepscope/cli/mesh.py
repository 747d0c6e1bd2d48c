"""`stepscope mesh`: which ranks exchange what, with whom, over which links."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepscope.cli import options
from stepscope.cli.presenting import Answer, Presenting
from stepscope.cli.reading import Reading
from stepscope.model.errors import UsageMistake

if TYPE_CHECKING:
    from stepscope.model.exchange import MeshView

ORDERS = ("torchtitan", "megatron", "megatron-tp-pp-dp")
"""As in `model.mesh`, which --help does not wait for."""


@click.command("mesh", short_help="Which ranks exchange what, with whom, over which links?")
@click.argument("inputs", metavar="[IN]...", nargs=-1, type=click.Path(path_type=str))
@click.option("--plan", metavar="P", help="How the job is laid out, for example fsdp=2,tp=8.")
@click.option("--system", metavar="SYS", help="A cluster of the catalog or a TOML file: seats, links and warnings.")
@click.option("--model", metavar="MODEL", help="A model of the catalog or a TOML file: bytes.")
@click.option("--order", type=click.Choice(ORDERS), default="torchtitan", show_default=True, help="How ranks are counted.")
@options.presenting
@options.reading
def command(
    inputs: tuple[str, ...],
    plan: str | None,
    system: str | None,
    model: str | None,
    order: str,
    presenting: Presenting,
    reading: Reading,
) -> None:
    """Say which ranks share or exchange which state: of a plan, or of a run, whose groups are named by what they did.

    \b
    Examples:
      stepscope mesh --plan fsdp=2,tp=8 --system hgx-h100 --model llama3-8b
      stepscope mesh --plan hsdp=2x8,ga=4 --system dgx-a100
      stepscope mesh --plan tp=8,pp=4,ddp=2 --order megatron
      stepscope mesh fri.run
    """
    if bool(inputs) == (plan is not None):
        raise UsageMistake("mesh takes a run, or --plan; give one of them")
    presenting.check()
    view = _of_run(inputs, reading) if plan is None else _of_plan(plan, system, model, order)

    from stepscope.show import mesh as screen
    from stepscope.show import mesh_json

    presenting.show(Answer(lambda: screen.blocks(view), lambda: mesh_json.document(view), lambda: mesh_json.rows(view)))


def _of_run(inputs: tuple[str, ...], reading: Reading) -> MeshView:
    from stepscope.analysis.mesh import mesh_of_run

    with reading.open(inputs) as run:
        return mesh_of_run(run)


def _of_plan(plan: str, system: str | None, model: str | None, order: str) -> MeshView:
    from stepscope.catalog.model import load_model
    from stepscope.catalog.system import load_system
    from stepscope.model.plan import parse_plan
    from stepscope.planner.mesh import mesh_view

    parsed = parse_plan(plan)
    cluster = None
    if system is not None:
        found = load_system(_named(system))
        cluster = found.cluster(found.nodes_for(parsed.world_size))
    shape = None if model is None else load_model(_named(model)).shape
    if model is not None and shape is None:
        raise UsageMistake(f"{model}: has a number of parameters but no shapes; give a model with shapes")
    return mesh_view(parsed, order, shape, cluster)  # type: ignore[arg-type]  # one of ORDERS


def _named(text: str) -> str | Path:
    return Path(text) if "/" in text or text.endswith(".toml") else text
