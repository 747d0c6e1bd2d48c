"""The command line: one file per verb, `main` around them. Imports nothing heavy until a verb runs."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.cli import endings
from stepscope.cli.verbs import stepscope


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one verb and returns the exit code; never raises but for SystemExit (shell completion). None means sys.argv."""
    try:
        code = stepscope.main(args=None if arguments is None else list(arguments), prog_name="stepscope", standalone_mode=False)
        endings.flush()
    except (Exception, KeyboardInterrupt) as error:
        return endings.say(error)
    return code if isinstance(code, int) else 0
