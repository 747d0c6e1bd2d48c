"""The group `stepscope`: verbs in the order in which a user needs them, each loaded only when it is asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import click

from stepscope.cli.endings import ReaderGone
from stepscope.model.errors import OutputRefused

VERBS: Final = {
    "doctor": "doctor",
    "import": "import_",
    "show": "show",
    "breakdown": "breakdown",
    "hops": "hops",
    "compare": "compare",
    "simulate": "simulate",
    "plan": "plan",
    "mesh": "mesh",
    "record": "record",
    "export": "export",
    "demo": "demo",
    "completion": "completion",
}
"""Verb and the module of this folder that holds it, as `command`."""


class Verbs(click.Group):
    """Finds a verb by its module, so that the others are not imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command = import_module(f"stepscope.cli.{VERBS[cmd_name]}").command
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """A closed pipe leaves as ReaderGone: click itself would end with exit code 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGone from error

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS, n=1)
            if not near or "Did you mean" in error.message:
                raise
            raise click.UsageError(f"{error.message} Did you mean '{near[0]}'?", ctx) from error


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from stepscope import __version__

    click.echo(f"stepscope {__version__}")
    ctx.exit()


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version.")
def stepscope() -> None:
    """Explains one distributed training step: why did this step take this long?

    Give it the profiler traces of a job, one file per rank, or a .run folder made by `import`.

    \b
    Examples:
      stepscope demo                          two small runs, one of them with a slow rank
      stepscope doctor traces/                what can these traces answer?
      stepscope breakdown traces/             where did the step go?
      stepscope hops traces/                  one step, hop by hop
      stepscope import traces/ -o fri.run     read once, ask often
      stepscope compare mon.run fri.run       what grew?
    """


def run(arguments: Sequence[str] | None) -> int:
    """One call, its output brought out, so that a full disk or a closed pipe is seen while it can still be told."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stderr is None:  # closed by the caller: notes go nowhere
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123  # open as long as the process is
    if sys.stdout is None and not any(word.startswith(("-o", "--output")) for word in given):
        raise OutputRefused("stdout: is closed; open it, or write to a file with -o")
    code = stepscope.main(args=given, prog_name="stepscope", standalone_mode=False)
    if sys.stdout is not None:
        sys.stdout.flush()
    return code if isinstance(code, int) else 0
