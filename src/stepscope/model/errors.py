"""What can go wrong, as one tree.

    StepscopeError
    ├── BadInput        the files cannot be read or contradict each other      exit 1
    ├── OutputRefused   an output exists already or cannot be written          exit 1
    ├── UsageMistake    the words of the call do not fit together              exit 2
    └── GateTripped     a limit the user set was passed                        exit 3

A message is one line: the user's noun first, what is wrong, the mend last.
"""

from __future__ import annotations


class StepscopeError(Exception):
    """Every error a caller may see; `exit_code` is what the command returns for it."""

    exit_code = 1


class BadInput(StepscopeError):
    """The input cannot be read, or two inputs contradict each other."""


class OutputRefused(StepscopeError):
    """An output exists already, or its folder cannot be written."""


class UsageMistake(StepscopeError):
    """Options that do not fit together, or a value that cannot be parsed."""

    exit_code = 2


class GateTripped(StepscopeError):
    """A limit that the user set (such as `--fail-above`) was passed."""

    exit_code = 3
