"""The three calls of Linux that Python 3.11 has no name for: `unshare`, `setns`, and dying with one's parent."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

CLONE_NEWUTS: Final = 0x04000000  # linux/sched.h
CLONE_NEWNET: Final = 0x40000000
PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


def _ask(name: str, *args: int) -> None:
    libc: Any = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*args) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    """This process gets namespaces of its own."""
    _ask("unshare", flags)


def enter(pid: int, *kinds: str) -> None:
    """This process moves into namespaces (`net`, `uts`) of another."""
    for kind in kinds:
        file = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _ask("setns", file, 0)
        finally:
            os.close(file)


def die_with_parent() -> None:
    """The kernel kills this process when the one that forked it is gone, however that ended."""
    _ask("prctl", PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def forked(work: Callable[[], object], log: Path | None = None) -> int:
    """The process id of a child that does `work` and leaves, with 0 or, after an exception, 1. It never outlives this process."""
    parent, child = os.getpid(), os.fork()
    if not child:
        _child(work, parent, log)
    return child


def _child(work: Callable[[], object], parent: int, log: Path | None) -> NoReturn:
    code = 1
    try:
        die_with_parent()
        if os.getppid() != parent:  # it was gone before the kernel was asked
            os._exit(1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the launcher decides how a job ends
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if log is not None:
            file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            os.dup2(file, 1)
            os.dup2(file, 2)
        work()
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def end(pids: list[int]) -> None:
    """Kills these children and takes their ends."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    for pid in pids:
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            continue
