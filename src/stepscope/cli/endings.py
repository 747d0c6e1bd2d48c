"""How a call ends: every error becomes one line on stderr and an exit code. Never a traceback.

0 done (also when the reader of a pipe went away) · 1 bad data or a broken machine · 2 usage · 3 a gate · 130 interrupted ·
143 asked to stop (128 and the signal's number).
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path

import click

from stepscope.model.errors import StepscopeError

INTERRUPTED = 130


class ReaderGone(Exception):
    """Whoever read stdout has closed it, as `head` does."""


def say(error: BaseException) -> int:
    """Prints what the user needs to know of that error and returns the exit code."""
    if isinstance(error, ReaderGone | BrokenPipeError):
        _abandon_stdout()
        return 0
    if isinstance(error, KeyboardInterrupt | click.Abort):
        asked = error if isinstance(error, KeyboardInterrupt) else error.__cause__  # click wraps it
        return int(getattr(asked, "exit_code", INTERRUPTED))
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, StepscopeError):
        _line(str(error))
        return error.exit_code
    if isinstance(error, OSError):
        _abandon_stdout()
        _line(_of_the_machine(error))
    elif isinstance(error, MemoryError):
        _line("memory: not enough to read this input; give fewer files, or -j 1")
    else:
        what = f"{type(error).__name__}: {error} (in {_place(error)})"
        _line(f"this should not have happened: {what}; please report it with the input")
    return 1


def _line(message: str) -> None:
    from stepscope.show import safe

    with suppress(OSError):  # nobody may be left to read it
        click.echo(f"stepscope: {safe.terminal(message)}", err=True)


def _of_the_machine(error: OSError) -> str:
    what = error.strerror or str(error) or type(error).__name__
    mends = {
        errno.ENOSPC: "make room or choose another place",
        errno.EACCES: "check the permissions",
        errno.EROFS: "choose another place",
        errno.EMFILE: "raise ulimit -n",
    }
    mend = mends.get(error.errno or 0)
    where = (
        "output"
        if error.filename is None
        else os.fsdecode(error.filename)
        if isinstance(error.filename, str | bytes)
        else "output"
    )
    return f"{where}: {what[:1].lower()}{what[1:]}" + (f"; {mend}" if mend else "")


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else "an unknown place"


def _abandon_stdout() -> None:
    """What stdout still buffers would fail again when the interpreter ends: let it go nowhere."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
