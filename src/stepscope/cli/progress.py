"""A progress bar on stderr for work over two seconds, where stderr is a terminal; silent otherwise."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_S = 2.0


class Bar:
    """A context manager; `step` may be called from anywhere inside it, `stage` names the work between steps."""

    def __init__(self, work: str, quiet: bool = False) -> None:
        self._work = work
        self._done = 0
        self._total: int | None = None
        self._shown: tuple[Progress, TaskID] | None = None
        self._lock = threading.Lock()
        self._over = False
        self._timer: threading.Timer | None = None
        if not quiet and sys.stderr.isatty():
            self._timer = threading.Timer(PATIENCE_S, self._appear)
            self._timer.daemon = True

    def step(self, done: int, total: int, name: str, work: str = "reading") -> None:
        """`done` of `total` pieces; `name` is the piece in work."""
        with self._lock:
            self._done, self._total, self._work = done, total, f"{work} {Path(name).name}"
            self._update()

    def stage(self, work: str) -> None:
        """Work whose length is not known."""
        with self._lock:
            self._done, self._total, self._work = 0, None, work
            self._update()

    def __enter__(self) -> Self:
        if self._timer:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._over = True
            if self._timer:
                self._timer.cancel()
            if self._shown:
                self._shown[0].stop()

    def _appear(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with self._lock:
            if self._over:
                return
            progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._shown = (progress, progress.add_task("", total=None))
            self._update()
            progress.start()

    def _update(self) -> None:
        if self._shown:
            from stepscope.show import safe

            progress, task = self._shown
            words = safe.clip(safe.terminal(self._work), 40)
            progress.update(task, description=words, completed=self._done, total=self._total)
