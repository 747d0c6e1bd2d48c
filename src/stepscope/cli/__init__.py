"""The command line: one file per verb, `main` around them. Imports nothing heavy until a verb runs."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit code; never raises but for SystemExit (shell completion). None means sys.argv."""
    try:  # the imports too: Ctrl-C may come this early
        from stepscope.cli.verbs import run

        return run(arguments)
    except (Exception, KeyboardInterrupt) as error:
        from stepscope.cli import endings

        return endings.say(error)
