"""The command line: one file per verb, `main` around them. Imports nothing heavy until a verb runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType


class Stopped(KeyboardInterrupt):
    """SIGTERM or SIGHUP: unwound like Ctrl-C, so that nothing half-written stays."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


@contextmanager
def _stoppable() -> Iterator[None]:
    """Signals that ask to stop are raised, but for those that the caller ignores (nohup)."""

    def stop(number: int, _: FrameType | None) -> None:
        raise Stopped(number)

    asked = [s for name in ("SIGTERM", "SIGHUP") if (s := getattr(signal, name, None)) is not None]
    try:
        ours = [s for s in asked if signal.getsignal(s) is signal.SIG_DFL]
        for number in ours:
            signal.signal(number, stop)
    except ValueError:  # not the main thread: whoever runs it there sees to signals
        ours = []
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit code; never raises but for SystemExit (shell completion). None means sys.argv."""
    try:  # the imports too: Ctrl-C may come this early
        with _stoppable():
            from stepscope.cli.verbs import run

            return run(arguments)
    except (Exception, KeyboardInterrupt) as error:
        from stepscope.cli import endings

        return endings.say(error)
