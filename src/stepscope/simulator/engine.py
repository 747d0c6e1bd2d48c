"""When does each operation of a step run on every rank? The recurrences, a vector over ranks per operation. Times in ns.

Streams run in order. A collective starts moving when its last member has joined and ends on all of them together; two of one
communicator never overlap. The host runs ahead and is never waited for, except that nothing starts before it was issued. Compute
goes slower while a collective moves beside it; collectives of two communicators on one link each get half of it while both move.
What is exposed, who waits and who is last follow from that.

Not modelled: the depth of the launch queue, and more than two collectives on one link at the same moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from stepscope.simulator.work import Work

Array = NDArray[np.float64]
Draws = NDArray[np.float32] | Array


@dataclass(slots=True)
class State:
    """What one step leaves to the next: when host, streams, communicators and the upload of the last checkpoint are free. ns."""

    host: Array
    streams: list[Array]
    uploaded: Array
    comms: dict[str, Array] = field(default_factory=dict)

    @classmethod
    def fresh(cls, ranks: int, streams: int) -> State:
        """Everything free at 0."""
        return cls(np.zeros(ranks), [np.zeros(ranks) for _ in range(streams)], np.zeros(ranks))


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Times of one step, [operations, ranks] ns. `begin` of a collective is when its last member had joined, else its start.

    `issue` is when the host began to issue the operation; `host_start` and `host_end` [ranks] are the host's step, `host_pace`
    what its issuing was multiplied with in it.
    """

    start: Array
    begin: Array
    end: Array
    issue: Array
    host_start: Array
    host_end: Array
    host_pace: Array | float = 1.0


def run_step(work: Work, state: State, jitter: Draws | None = None) -> StepTimes:
    """Runs one step of a program; `state` moves on. `jitter` [operations, ranks or 1] multiplies durations."""
    codes = work.codes
    ranks, n = len(state.host), len(codes)
    start, end, begin = np.empty((n, ranks)), np.empty((n, ranks)), np.empty((n, ranks))
    issue = np.empty((n, ranks))
    spare = np.empty(ranks)
    other = np.empty(ranks)
    reach = np.empty(ranks)
    host, streams, comms = state.host, state.streams, state.comms
    host_start = host.copy()
    pace, latency, slow = work.host_pace, work.launch_latency_ns, work.overlap_slowdown
    idle = slow / (1 - slow)
    since = 0.0  # ns of issuing since `host` was last exact
    pending = -1  # a computation whose end waits to know what moves beside it
    add, maximum, minimum, multiply, subtract = np.add, np.maximum, np.minimum, np.multiply, np.subtract

    def finish(k: int) -> None:
        """The end of computation k, now that everything issued before the next one is known."""
        code = codes[k]
        s, e = start[k], end[k]
        if jitter is None:
            add(s, code.duration, out=e)
        else:
            multiply(jitter[k], code.duration, out=spare)
            add(s, spare, out=e)
        if slow:
            since_when = s
            for w in code.beside:  # in the order in which they begin; what two of them cover counts once
                maximum(begin[w], since_when, out=spare)
                subtract(e, spare, out=other)  # work left when the collective comes
                multiply(other, 1 + idle, out=other)
                subtract(end[w], spare, out=spare)
                minimum(spare, other, out=spare)
                maximum(spare, 0, out=spare)
                multiply(spare, slow, out=spare)
                add(e, spare, out=e)
                since_when = maximum(since_when, end[w], out=reach)
        if code.tail_ns:  # its last kernel, launched last
            add(issue[k], pace * code.host_ns + code.tail_ns, out=spare)
            maximum(e, spare, out=e)

    for k, code in enumerate(codes):
        kind = code.kind
        s, e, i = start[k], end[k], issue[k]
        if kind <= 1:  # device work: issued, then it runs when it may
            add(host, pace * since, out=i)
            add(i, latency, out=s)
            since += code.host_ns
            if kind == 0:
                if pending >= 0:
                    finish(pending)
                maximum(s, streams[code.stream], out=s)
                for d in code.after:
                    maximum(s, end[d], out=s)
                begin[k] = s
                streams[code.stream] = e
                pending = k
                continue
            if pending >= 0 and code.flush:
                finish(pending)
                pending = -1
            free = comms.get(code.comm)
            if free is not None:
                maximum(s, free, out=s)
            maximum(s, streams[code.stream], out=s)
            for d in code.after if code.count == 1 else ():
                maximum(s, end[d], out=s)
            for d in code.after_start:
                maximum(s, start[d], out=s)
            if code.count > 1:  # the first of several is ready before the whole is
                d = code.after[0]
                subtract(end[d], start[d], out=spare)
                multiply(spare, code.ready, out=spare)
                add(spare, start[d], out=spare)
                maximum(s, spare, out=s)
            if code.lead_ns:
                add(s, code.lead_ns, out=s)
            b = begin[k]
            joining = code.joining
            assert joining is not None
            joining.last(s, b)
            duration = code.duration if jitter is None else code.duration * jitter[k][code.first]
            if code.count > 1:
                add(b, duration * code.count, out=e)
                add(end[code.after[0]], duration, out=spare)
                joining.last(spare, other)
                maximum(e, other, out=e)
            else:
                add(b, duration, out=e)
            for w, share in code.contends:
                subtract(end[w], b, out=spare)
                subtract(e, b, out=other)
                minimum(spare, other, out=spare)
                maximum(spare, 0, out=spare)
                multiply(spare, share, out=spare)
                joining.last(spare, other)
                add(e, other, out=e)
                theirs = codes[w].joining
                assert theirs is not None
                theirs.last(spare, other)
                end[w] += other
            if code.background:  # an upload on the same NICs takes its share until it is through
                subtract(state.uploaded, b, out=spare)
                subtract(e, b, out=other)
                multiply(other, 1 / (1 - code.background), out=other)
                minimum(spare, other, out=spare)
                maximum(spare, 0, out=spare)
                multiply(spare, code.background, out=spare)
                joining.last(spare, other)
                add(e, other, out=e)
            comms[code.comm] = e
            streams[code.stream] = e
            continue
        # the host looks at the device, or a copy may delay it; a wait for an earlier end leaves the last computation open, since
        # what moves beside it may be issued after the wait
        if pending >= 0 and (kind != 2 or pending in code.after):
            finish(pending)
            pending = -1
        add(host, pace * since, out=s)
        since = 0.0
        if kind == 2:  # host waits for the device
            e[:] = s
            for d in code.after:
                maximum(e, end[d], out=e)
            if code.only is not None:
                np.copyto(e, s, where=~code.only)
            host = e
        elif kind == 3:  # host works
            add(s, code.duration, out=e)
            host = e
        elif kind == 4:  # host waits for a batch
            e[:] = work.batches.take(s)
            host = e
        elif kind == 5:  # a copy in stream order; the host goes on, or is held until it has ended
            b = begin[k]
            add(s, latency, out=b)
            maximum(b, streams[code.stream], out=b)
            for d in code.after:
                maximum(b, end[d], out=b)
            add(b, code.duration, out=e)
            streams[code.stream] = e
            i[:] = s
            s[:] = b
            freed = i + pace * code.host_ns
            held = maximum(e, freed)  # a tiny copy ends before the host has issued it
            host = freed if not code.holds_host else held if code.only is None else np.where(code.only, held, freed)
            continue
        else:  # a checkpoint: every rank is held until all have handed theirs over; what is left is uploaded beside the steps
            maximum(s, state.uploaded, out=spare)
            add(spare, code.duration, out=spare)
            if code.joining is not None:
                code.joining.last(spare, e)
            else:
                e[:] = spare
            state.uploaded = e + code.hidden_ns
            host = e
        i[:] = s
        begin[k] = s
    if pending >= 0:
        finish(pending)
    host_end = host + pace * since
    state.host = host_end
    return StepTimes(start, begin, end, issue, host_start, host_end.copy(), pace)
