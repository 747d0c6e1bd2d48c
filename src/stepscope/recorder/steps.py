"""Where does a step begin? At the batch, once the optimizer has run; or where the loop says so.

A step begins at the first thing after an update: the loader is asked for a batch, or the model is called. Several batches
before one update (accumulation) are one step. `explicit` leaves it to `rec.steps(loader)`. Only the training thread counts.
Times are ns of the monotonic clock. Where no model call is seen before backward, forward is what lies between the batch and it.
"""

from __future__ import annotations

import sys
from collections import deque

from stepscope.model.segment import BACKWARD, CHECKPOINT, COMMUNICATION, FORWARD, INPUT, OPTIMIZER, SPAN, STEP, UNKNOWN
from stepscope.recorder.device import Device
from stepscope.recorder.journal import Journal

RECENT = 64


class Steps:
    """The training thread's place in its loop."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.explicit = False
        self.number = 0
        self.start = UNKNOWN
        self.updated = False
        self.in_backward = False
        self.fetching = False
        self.tokens = 0
        self.device: Device | None = None
        self.last = UNKNOWN  # end of the last thing seen
        self.forward_at = UNKNOWN  # a model call that is under way or was the last thing
        self.forward_end = UNKNOWN
        self.forward_name = "## forward ##"
        self.communicated = 0  # ns that the training thread has stood in collectives since the job began
        self.forward_before = self.backward_before = 0  # `communicated` when they began
        self.spent = dict.fromkeys(
            (INPUT, FORWARD, BACKWARD, OPTIMIZER, CHECKPOINT, COMMUNICATION), 0
        )  # ns of this step, exclusive
        self.totals = dict(self.spent)
        self.total_ns = 0
        self.total_tokens = 0
        self.done: deque[tuple[int, int, int]] = deque(maxlen=RECENT)  # number, duration, communication of the last steps

    def batch_begins(self, now: int) -> None:
        """The loader is asked."""
        self._forward_without_backward()
        self._arrive(now)

    def span(self, what: int, start: int, end: int, name: int, before: int) -> None:
        """Something of a phase that took the training thread's time; `before` is what `communicated` was when it began."""
        self.journal.rows.append((SPAN, what, self.journal.who.main_thread, start, end, name))
        self.spent[what] += end - start - (self.communicated - before)
        self.last = end

    def stood(self, start: int, end: int) -> None:
        """The training thread stood in a collective."""
        self.communicated += end - start
        self.spent[COMMUNICATION] += end - start
        self.last = end

    def model_begins(self, now: int, name: str) -> None:
        """The outermost module is called."""
        self._arrive(now)
        if self.device is None:
            self.device = self._device()
        if self.device is not None:
            self.device.begins(FORWARD, self.journal.name(name))
        if self.forward_at < 0:
            self.forward_at, self.forward_name, self.forward_before = now, name, self.communicated
        self.forward_end = UNKNOWN

    def model_ends(self, now: int) -> None:
        """It has returned."""
        self.forward_end = self.last = now

    def backward_begins(self, now: int) -> None:
        """Forward goes up to here, the loss included; without a model call it began where the thread was last seen."""
        self._arrive(now)
        start, name, before = self.forward_at, self.forward_name, self.forward_before
        if start < 0:
            start, name, before = max(self.last, self.start), "## forward ##", self.communicated
        if start < now:
            self.span(FORWARD, start, now, self.journal.name(name), before)
        self.forward_at = self.forward_end = UNKNOWN
        self.in_backward, self.backward_before = True, self.communicated
        if self.device is not None:
            self.device.begins(BACKWARD, self.journal.name("## backward ##"))

    def backward_ends(self, start: int, now: int) -> None:
        """The gradients are there."""
        self.in_backward = False
        if self.device is not None:
            self.device.ends()
        self.span(BACKWARD, start, now, self.journal.name("## backward ##"), self.backward_before)

    def optimizer_ends(self, start: int, now: int, name: str, before: int) -> None:
        """The update is done: what comes next begins a step. A step is safe on disk from here on, whatever happens."""
        if self.device is not None:
            self.device.ends()
        self._forward_without_backward()
        self.span(OPTIMIZER, start, now, self.journal.name(name), before)
        self.updated = True
        self._step_row(now)
        self.journal.flush()

    def optimizer_begins(self, name: str) -> None:
        """The update is issued."""
        if self.device is not None:
            self.device.begins(OPTIMIZER, self.journal.name(name))

    def _device(self) -> Device | None:
        """Where the job has a CUDA device in use; asked anew at every model call until there is one."""
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is None or not cuda.is_initialized():
            return None
        return Device(cuda, self.journal.name("waiting for a collective"))

    def boundary(self, now: int) -> None:
        """A step ends and the next begins."""
        written = self.updated
        if self.start >= 0:
            self._step_row(now)
            took = now - self.start
            self.done.append((self.number, took, self.spent[COMMUNICATION]))
            self.total_ns += took
            self.total_tokens += self.tokens
            for what, ns in self.spent.items():
                self.totals[what] += ns
            self.number += 1
        self.spent = dict.fromkeys(self.spent, 0)
        self.start, self.updated, self.tokens = now, False, 0
        if not written:  # else the update has written it, and its exact end can wait for the next one
            self.journal.flush()

    def finish(self) -> None:
        """The last step ends with the last thing in it; one without an update does not count."""
        if self.start >= 0 and self.updated and self.last > self.start:
            self.boundary(self.last)
        self.start = UNKNOWN

    def _arrive(self, now: int) -> None:
        if self.start < 0 or (self.updated and not self.explicit):
            self.boundary(now)

    def _forward_without_backward(self) -> None:
        """Evaluation, or a loop that keeps the loss for later: the model's own time."""
        if self.forward_at >= 0 and self.forward_end > self.forward_at:
            self.span(FORWARD, self.forward_at, self.forward_end, self.journal.name(self.forward_name), self.forward_before)
        self.forward_at = self.forward_end = UNKNOWN

    def _step_row(self, end: int) -> None:
        self.journal.rows.append((STEP, self.number, self.start, end, self.tokens or UNKNOWN, _peak()))


def _peak() -> int:
    """Most bytes that this rank's allocator held on its device so far; -1 without a device."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return UNKNOWN
    try:
        return int(cuda.max_memory_allocated())
    except Exception:
        return UNKNOWN
