"""The hops that are work of this rank itself: batch, forward, kernels, backward, optimizer, save. Times in ns from the step's
start; a hop takes the spans of its phase that start inside the step.

On a rank without device work the operators of the training thread stand for kernels. Bytes and floating-point operations are
those that the spans carry, and unknown where one of them carries none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from stepscope.analysis.account import Account
from stepscope.analysis.columns import NONE, PART, Mask, SpanColumns
from stepscope.analysis.intervals import Intervals
from stepscope.model.hops import NS_PER_S, WAYS, Hop
from stepscope.model.info import Step
from stepscope.model.spans import RankTables

NO_SAVE = "no save in this step"
NOT_SEEN = f"{NO_SAVE} that the recording shows: saves are found by Python stacks or --mark REGEX=checkpoint"
NO_BATCH = "no loader and no copy of the batch was recorded in this step"
NO_BATCH_SIZE = "the batch's size was not recorded: its copy to a device would tell"
NO_TRAFFIC = "what kernels read and write in HBM was not recorded"
NOT_BY_UNIT = "kernels are not tied to this unit: those of the whole step"
HOST_ONLY = "no device work was recorded: this rank computes on its CPU"
BY_KERNELS = "the host's calls were not recorded; from the kernels"


@dataclass(slots=True)
class Work:
    """One rank's spans with the masks that the hops ask for. `started`: starts inside the step."""

    tables: RankTables
    spans: SpanColumns
    account: Account
    step: Step
    on_device: bool
    started: Mask

    @classmethod
    def of(cls, tables: RankTables, spans: SpanColumns, account: Account, step: Step) -> Work:
        """`account` is that of the same spans."""
        started = spans.owns & (spans.start >= step.start_ns) & (spans.start < step.end_ns)
        return cls(tables, spans, account, step, account.waits is None, started)

    def batch(self) -> Hop:
        """Hop 1. The size is the loader's, where it says one, else that of the copies to the device."""
        phase = self._phase("input")
        loader, copies = phase & self._thread(), phase & self.spans.is_kind("memcpy")
        sized = loader & self.tables.spans["bytes"].is_not_null().to_numpy()
        source = sized if sized.any() else copies
        hop = self._row(1, None, loader | copies, NO_BATCH)
        if hop.known == "unknown":
            return hop
        size, busy = self._sum("bytes", source), self._union(source).total_ns
        return replace(
            hop,
            bytes=size,
            bytes_per_s=size * NS_PER_S / busy if size is not None and busy else None,
            stalled_ns=self._stood("input_wait"),
            why=NO_BATCH_SIZE if size is None else None,
        )

    def call(self, n: int, phase: str) -> Hop:
        """Hops 2, 10 and 17: the loop hands over to the framework, seen from the host."""
        host = self._phase(phase) & self.spans.is_host
        if phase != "backward":
            host &= self._thread()
        pass_ = phase if phase in ("forward", "backward") else None
        if host.any():
            return self._row(n, pass_, host, "")
        hop = self._row(n, pass_, self._phase(phase) & self.spans.is_kind("kernel"), f"no {phase} was recorded in this step")
        return hop if hop.known == "unknown" else replace(hop, known="derived", why=BY_KERNELS)

    def kernels(self, n: int, phase: str, unit: str | None) -> Hop:
        """Hops 8, 11 and 18: kernels of a phase, of that unit where kernels are tied to units."""
        return self._computed(n, phase, unit, self.spans.is_kind("kernel") if self.on_device else self._operators())

    def device(self, unit: str | None) -> Hop:
        """Hop 9: when the GPU worked for forward, copies inside its memory included."""
        if not self.on_device:
            return Hop(n=9, pass_="forward", what=WAYS[9].what, unit=unit, known="unknown", why=HOST_ONLY)
        hop = self._computed(9, "forward", unit, self.spans.is_kind("kernel", "memcpy", "memset"))
        return hop if hop.bytes is not None or hop.why is not None else replace(hop, why=NO_TRAFFIC)

    def save(self) -> Hop:
        """Hop 19."""
        saving = self._phase("checkpoint")
        seen = self.tables.info.recorded.get("saves", False)
        hop = self._row(19, None, saving, NO_SAVE if seen else NOT_SEEN)
        if hop.known == "unknown":
            return hop
        sized = saving & self.tables.spans["bytes"].is_not_null().to_numpy()
        size, busy = self._sum("bytes", sized) if sized.any() else None, self._union(sized).total_ns
        rate = size * NS_PER_S / busy if size is not None and busy else None
        why = "what the save wrote was not recorded" if size is None else None
        return replace(hop, bytes=size, bytes_per_s=rate, stalled_ns=self._stood("checkpoint"), why=why)

    def backward_from_ns(self) -> int:
        """When backward begins, from the run's origin; the step's end where it is not recorded."""
        starts = self.spans.start[self._phase("backward")]
        return int(starts.min()) if len(starts) else self.step.end_ns

    def _computed(self, n: int, phase: str, unit: str | None, kinds: Mask) -> Hop:
        chosen = self._phase(phase) & kinds
        pass_ = phase if phase in ("forward", "backward") else None
        of_unit = chosen & self._of(unit) if unit is not None else chosen
        tied = unit is not None and bool(of_unit.any())
        chosen = of_unit if tied else chosen
        hop = self._row(n, pass_, chosen, f"no kernel of {phase} was recorded in this step", computed=True)
        if hop.known == "unknown":
            return hop
        why = NOT_BY_UNIT if unit is not None and not tied else None
        return replace(
            hop, unit=unit if tied else None, bytes=self._sum("bytes", chosen), flops=self._sum("flops", chosen), why=why
        )

    def _of(self, unit: str) -> Mask:
        found: Mask = (self.tables.attribution["unit"] == unit).fill_null(False).to_numpy()
        return found

    def _row(self, n: int, pass_: str | None, chosen: Mask, absent: str, computed: bool = False) -> Hop:
        if not chosen.any():
            return Hop(n=n, pass_=pass_, what=WAYS[n].what, known="unknown", why=absent)
        union = self._union(chosen)
        return Hop(
            n=n,
            pass_=pass_,
            what=WAYS[n].what,
            count=int(chosen.sum()),
            start_ns=int(self.spans.start[chosen].min()) - self.step.start_ns,
            end_ns=int(self.spans.end[chosen].max()) - self.step.start_ns,
            busy_ns=(union & self.account.compute).total_ns if computed and not self.on_device else union.total_ns,
        )

    def _phase(self, phase: str) -> Mask:
        found: Mask = self.started & (self.tables.attribution["phase"] == phase).fill_null(False).to_numpy()
        return found

    def _thread(self) -> Mask:
        found: Mask = self.spans.is_host & (self.spans.thread == self.spans.training_thread(self.tables.info.main_thread))
        return found

    def _operators(self) -> Mask:
        found: Mask = self._thread() & self.spans.is_kind("op") & (self.spans.part != NONE)
        return found

    def _union(self, chosen: Mask) -> Intervals:
        return Intervals.of(self.spans.start[chosen], self.spans.end[chosen])

    def _sum(self, column: str, chosen: Mask) -> int | None:
        """None where one of the chosen does not say."""
        values = self.tables.spans[column].filter(pl.Series(chosen))
        return None if not len(values) or values.null_count() else int(values.sum())

    def _stood(self, part: str) -> int:
        inside = self.account.parts.clip(self.step.start_ns, self.step.end_ns)
        return inside.instants([PART[part]]).total_ns
