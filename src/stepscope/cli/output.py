"""Where a verb's data goes: stdout, or a file that appears only when it is complete. Notes go to stderr."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from stepscope.model.errors import OutputRefused


@dataclass(frozen=True, slots=True)
class Output:
    """`path` None is stdout. An existing file is replaced only with `force`."""

    path: Path | None
    force: bool = False

    @property
    def to_terminal(self) -> bool:
        return self.path is None and sys.stdout.isatty()

    def check(self) -> None:
        """Raises OutputRefused for what `write` would refuse; ask it before the long work."""
        if self.path is None or _is_stream(self.path):
            return
        if self.path.is_dir():
            raise OutputRefused(f"{self.path}: is a folder; give the name of a file with -o")
        if self.path.exists() and not self.force:
            raise OutputRefused(f"{self.path}: exists already; use -f to replace it, or another name")
        if not self.path.parent.is_dir():
            raise OutputRefused(f"{self.path}: there is no folder {self.path.parent}; make it first")

    def write(self, text: str) -> None:
        """The whole text in UTF-8; on a stdout of another encoding, what it cannot write becomes `?`."""
        if self.path is None:
            encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
            click.echo(text.encode(encoding, "replace").decode(encoding), nl=False, color=True)
            return
        data = text.encode("utf-8", "replace")
        self.fill(lambda path: _put(path, data))

    def fill(self, write: Callable[[Path], None]) -> None:
        """Calls `write` with a new file in the same folder, then gives that the name; with stdout, copies it there."""
        self.check()
        try:
            self._fill(write)
        except OSError as error:
            if self.path is None or error.filename is not None or isinstance(error, BrokenPipeError):
                raise
            why = (error.strerror or str(error)).lower()
            raise OutputRefused(f"{self.path}: cannot be written ({why}); make room or choose another place") from error

    def _fill(self, write: Callable[[Path], None]) -> None:
        if self.path is None:
            with tempfile.TemporaryDirectory(prefix="stepscope-") as folder:
                write(Path(folder, "out"))
                with Path(folder, "out").open("rb") as file:
                    shutil.copyfileobj(file, sys.stdout.buffer)
        elif _is_stream(self.path):
            write(self.path)
        else:
            with _appearing(self.path) as path:
                write(path)


def note(text: str, quiet: bool = False) -> None:
    """A line for the user on stderr, beside the data."""
    if not quiet:
        from stepscope.show import safe

        click.echo(safe.terminal(text), err=True)


@contextmanager
def _appearing(path: Path) -> Iterator[Path]:
    target = path.resolve()
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise OutputRefused(
            f"{path}: cannot be written ({(error.strerror or 'refused').lower()}); choose another place"
        ) from error
    os.close(handle)
    part = Path(name)
    try:
        yield part
        part.chmod(0o666 & ~_umask())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _put(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)


def _is_stream(path: Path) -> bool:
    """/dev/stdout, /dev/null, a named pipe: written in place, never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now
