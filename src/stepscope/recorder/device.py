"""When did the device work on each phase? Events on its current stream around the phases, read when they are over.

An event is recorded by the training thread and asked by the recorder's own, never waited for. Windows say from when to when the
stream was inside a phase, or stood for a collective (FSDP2's wait for gathered parameters, the wait of a Work); not what it did
there. Times come onto the host's clock through one event that the recorder's thread saw pass. Written against torch.cuda's
documentation and tried with a stand-in: no run of it on hardware is recorded here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns, sleep
from typing import Any, Final

from stepscope.model.segment import COMMUNICATION, DEVICE

MOST_OPEN: Final = 20_000  # windows that have not passed yet; beyond it the device is far behind and new ones are dropped
ANCHOR_POLL_S: Final = 50e-6  # how exactly the device's clock is laid on the host's
ANCHOR_POLLS: Final = 200


@dataclass(frozen=True, slots=True)
class _Window:
    what: int
    name: int
    start: Any
    end: Any


class Device:
    """The current stream's way through the phases. `cuda` is torch.cuda, or what stands in for it."""

    def __init__(self, cuda: Any, wait_name: int) -> None:
        self._cuda, self._wait_name = cuda, wait_name
        self._open: tuple[int, int, Any] | None = None
        self._windows: deque[_Window] = deque()
        self._free: list[Any] = []
        self._index = cuda.current_device()
        self._base: Any = None
        self._base_ns: int | None = None
        self.dropped = 0

    def begins(self, what: int, name: int) -> None:
        """From here the stream works on that phase."""
        if self._cuda.is_current_stream_capturing():
            return
        event = self._event()
        self._close(event)
        self._open = (what, name, event)

    def ends(self) -> None:
        """What was under way ends here."""
        if self._open is not None and not self._cuda.is_current_stream_capturing():
            self._close(self._event())

    def standing(self, wait: Callable[[], Any]) -> Any:
        """Calls `wait`, in which the stream is told to stand for a collective; what it interrupted goes on after it."""
        before = self._open
        if before is None or before[0] == COMMUNICATION:
            return wait()
        self.begins(COMMUNICATION, self._wait_name)
        try:
            return wait()
        finally:
            self.begins(before[0], before[1])

    def passed(self) -> list[tuple[int, int, int, int, int]]:
        """Rows of the windows that the stream has left, on the host's clock; asked by the recorder's own thread."""
        if self._base_ns is None and not self._anchor():
            return []
        rows = []
        assert self._base_ns is not None
        while self._windows and self._windows[0].end.query():
            window = self._windows.popleft()
            start, end = (self._base_ns + round(self._base.elapsed_time(e) * 1e6) for e in (window.start, window.end))
            rows.append((DEVICE, window.what, start, max(end, start), window.name))
            self._free.append(window.start)  # the end may be the next one's start
        return rows

    def _anchor(self) -> bool:
        """An event on a stream of its own, which nothing holds up: it passes between the two looks at the host's clock."""
        began = monotonic_ns()
        base = self._cuda.Event(enable_timing=True)
        base.record(self._cuda.Stream(self._index))
        for _ in range(ANCHOR_POLLS):
            if base.query():
                self._base, self._base_ns = base, (began + monotonic_ns()) // 2
                return True
            sleep(ANCHOR_POLL_S)
        return False

    def _close(self, event: Any) -> None:
        if self._open is None:
            return
        what, name, start = self._open
        self._open = None
        if len(self._windows) >= MOST_OPEN:
            self.dropped += 1
        else:
            self._windows.append(_Window(what, name, start, event))

    def _event(self) -> Any:
        event = self._free.pop() if self._free else self._cuda.Event(enable_timing=True)
        event.record()
        return event
