"""`stepscope record`: a torch job with the recorder in every rank, and the Run that it leaves."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from stepscope.cli import options
from stepscope.cli.output import note
from stepscope.model.errors import BadInput, OutputRefused, UsageMistake


@click.command(
    "record", short_help="Run a job with the recorder in every rank.", context_settings={"allow_interspersed_args": False}
)
@click.argument("words", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
@options.output_option("The Run folder to make.", "RUN")
@click.option("--keep", default="256MB", show_default=True, metavar="SIZE", help="Newest bytes to keep of each rank.")
@click.option("--stall", type=click.FloatRange(min=0), default=60.0, show_default=True, metavar="S",
              help="Write stacks and the flight recorder after so long without progress (0: never).")  # fmt: skip
@click.option("--metrics", default="", metavar="[HOST]:PORT", help="Serve Prometheus text; port plus local rank, on loopback.")
@options.force_option
@options.quiet_option
def command(words: tuple[str, ...], output: str | None, keep: str, stall: float, metrics: str, force: bool, quiet: bool) -> int:
    """Run COMMAND (torchrun and its script, say) with a recorder in every rank, and put what they note into the folder RUN.

    The script needs no change. RUN can be read at any time, also while the job runs and after it was killed. On several nodes
    give the same RUN on a shared file system. The exit code is that of COMMAND.

    \b
    Examples:
      stepscope record -o fri.run -- torchrun --nproc-per-node 8 train.py
      stepscope record -o fri.run --metrics :9400 --stall 120 -- torchrun --nnodes 2 ... train.py
    """
    from stepscope.recorder.settings import Settings, address_of, size_of
    from stepscope.recorder.start import environment

    if not output or output == "-":
        raise UsageMistake("-o: name the Run folder to make, for example -o fri.run")
    if not words:
        raise UsageMistake("record: no command; write it after --, for example -- torchrun --nproc-per-node 8 train.py")
    if not stall >= 0:  # nan
        raise UsageMistake("--stall: give seconds, or 0 for never")
    if shutil.which(words[0]) is None:  # before an older Run is replaced
        raise UsageMistake(f"{words[0]}: no such command; check what stands after --")
    if metrics:
        address_of(metrics)
        _needs_prometheus()
    out = Path(output).absolute()
    settings = Settings(str(out), size_of(keep), stall, metrics)
    _make(out, output, force)
    code = _run(words, {**os.environ, **environment(settings)})
    _finish(out, output, quiet)
    return code


def _needs_prometheus() -> None:
    from importlib.util import find_spec

    if find_spec("prometheus_client") is None:
        raise UsageMistake("--metrics: needs the package prometheus-client; pip install prometheus-client")


def _make(out: Path, name: str, force: bool) -> None:
    """The folder with its segments; another node of the same job may have made it already."""
    from stepscope.model.segment import FOLDER, is_live

    if out.exists() and not (is_live(out) and not any((out / FOLDER).iterdir())):
        if not force:
            raise OutputRefused(f"{name}: exists already; choose another name or say -f to replace it")
        _remove(out, name)
    try:
        out.mkdir(mode=0o700, parents=True, exist_ok=True)
        (out / FOLDER).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise OutputRefused(f"{name}: cannot be made ({error.strerror}); choose another place") from None


def _remove(out: Path, name: str) -> None:
    from stepscope.model.store import holds_a_run_alone

    if out.is_symlink() or not out.is_dir() or not holds_a_run_alone(out):
        raise OutputRefused(f"{name}: exists and holds other things than a run; choose another name")
    shutil.rmtree(out)


def _run(words: Sequence[str], environment: dict[str, str]) -> int:
    """The command to its end; signals that ask for an end go on to it. Its exit code, 128 + n for a signal."""
    try:
        process = subprocess.Popen(list(words), env=environment)
    except OSError as error:
        raise UsageMistake(f"{words[0]}: cannot be started ({error.strerror}); check the command after --") from None

    def forward(number: int, frame: Any) -> None:
        process.send_signal(number)

    def interrupt(number: int, frame: Any) -> None:
        if not _in_front():  # else the terminal asks the command, too
            process.send_signal(number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
    try:
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _in_front() -> bool:
    """Is this the job of a terminal that its keys reach, and with it the command?"""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False


def _finish(out: Path, name: str, quiet: bool) -> None:
    """Makes the tables where every rank of the job left its part here; else the folder is read as it is."""
    from stepscope.analysis.attribution import RULES
    from stepscope.model.segment import FOLDER
    from stepscope.sources.live.run import close_run

    if not any((out / FOLDER).glob("*.seg")):
        print(
            f"stepscope: {name}: nothing was recorded: no process of the command trained with torch for a step", file=sys.stderr
        )
        return
    try:
        info = close_run(out, RULES)
    except BadInput as error:
        print(f"stepscope: {error}", file=sys.stderr)
        return
    if quiet:
        return
    steps = max((len(rank.steps) for rank in info.ranks), default=0)
    note(f"{name}: {len(info.ranks)} of {info.world_size} ranks, {steps} steps")
    for gap in info.gaps:
        note(f"{gap.what}: {gap.why}")
