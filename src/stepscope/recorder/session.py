"""The recorder as the job's own code asks for it: `with record("fri.run") as rec:` and `for batch in rec.steps(loader):`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from stepscope.model.errors import OutputRefused
from stepscope.model.segment import INPUT
from stepscope.recorder.hooks import collectives, functional, install, loader
from stepscope.recorder.live import LIVE, clock
from stepscope.recorder.settings import KEEP_BYTES, STALL_S, Settings, address_of

Batch = TypeVar("Batch")


class Recording:
    """One process's recording, from `with` to its end."""

    def __init__(self, out: str | Path, *, keep: int = KEEP_BYTES, stall: float = STALL_S, metrics: str = "") -> None:
        if metrics:
            address_of(metrics)
        self.settings = Settings(str(Path(out).absolute()), keep, stall, metrics, alone=True)

    def __enter__(self) -> Recording:
        if (Path(self.settings.out) / "run.json").exists():
            raise OutputRefused(f"{self.settings.out}: exists already; choose another name")
        collectives.forget()
        functional.PENDING.clear()
        LIVE.arm(self.settings)
        install()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        LIVE.close()

    def steps(self, batches: Iterable[Batch], tokens: int = 0) -> Iterator[Batch]:
        """The batches; each begins a step, and fetching it is the step's input. `tokens` of each step on this rank, if known."""
        source = iter(batches)
        while True:
            journal, steps = LIVE.seen(), LIVE.steps
            if journal is None or steps is None:
                yield from source
                return
            steps.explicit = True
            began = clock()
            steps.boundary(began)
            before = steps.communicated
            steps.fetching = True
            try:
                batch = next(source)
            except StopIteration:
                steps.start = -1  # what was begun for a batch that never came is no step
                return
            finally:
                steps.fetching = False
                journal.calls += 1
            steps.span(INPUT, began, clock(), journal.name(loader.NAME), before)
            steps.tokens = tokens
            yield batch

    def tokens(self, count: int) -> None:
        """Tokens of the step under way, on this rank."""
        if LIVE.steps is not None:
            LIVE.steps.tokens = int(count)
