"""The recorder's own thread: writes what was noted, samples the host, and says what a stalled job stands in.

Once a second. A stall is that no hook ran for `--stall` seconds after the first; time in which this thread itself did not run (a
stopped process, a suspended machine) does not count, and is a signal of its own. A job that holds Python's lock inside C leaves
this thread standing, too: then faulthandler's own thread, which needs no lock, writes the stacks.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from time import thread_time_ns
from typing import IO, Any, Final

from stepscope.model.segment import METRICS, STALLS, Lost, Sample, Stalled
from stepscope.recorder.hooks import collectives, functional
from stepscope.recorder.journal import PAUSED, Journal
from stepscope.recorder.live import clock
from stepscope.recorder.settings import Settings, address_of
from stepscope.recorder.signals import Signal, Signals
from stepscope.recorder.steps import Steps

LATE: Final = 4  # times the interval after which this thread was kept from running
COUNT_EVERY: Final = 10  # samples between two counts of torch's own, which take some 60 µs
MARGIN_S: Final = 5.0  # by which faulthandler's thread lets this one go first
REARM_S: Final = 5.0
OVERDUE_NS: Final = 5_000_000_000  # after which a collective that nobody has waited for is written without an end


class Watch(threading.Thread):
    """Runs until `stop`."""

    def __init__(self, settings: Settings, journal: Journal, steps: Steps) -> None:
        super().__init__(name="stepscope", daemon=True)
        self.settings, self.journal, self.steps = settings, journal, steps
        self.signals = Signals(journal.who.main_thread, machine=journal.who.local_rank == 0)
        self.last: list[Signal] = []
        self.cpu_ns = 0
        self.stopped_s = 0.0
        self.stalls = 0
        self._end = threading.Event()
        self._told: set[tuple[int, int]] = set()
        self._stacks: IO[bytes] | None = None
        self._others_timer = False
        self._server: Any = None
        self._issued_before = 0
        self._samples = 0

    def run(self) -> None:
        """Whatever goes wrong here, the job does not notice."""
        try:
            self._begin()
            self._loop()
        except Exception as error:
            print(f"stepscope: the recorder's thread ended ({type(error).__name__}: {error})", file=sys.stderr)

    def stop(self) -> None:
        """Ends the thread and waits for it."""
        self._end.set()
        if self is not threading.current_thread():
            self.join(timeout=5)
        if self._stacks is not None:
            faulthandler.cancel_dump_traceback_later()
            self._stacks.close()
            self._stacks = None
            path = self._path("stacks-without-lock")
            try:
                if path.stat().st_size == 0:
                    path.unlink()
                    path.parent.rmdir()
            except OSError:
                pass  # the folder holds something
        if self._server is not None:
            self._server.close()

    def _begin(self) -> None:
        self._issued_before = _issued() or 0
        if self.journal.who.device == "cuda":
            from stepscope.recorder.nvml import Nvml

            with suppress(OSError, AttributeError, ValueError):  # no library, or a device that it does not know
                self.signals.readers.append(Nvml(self.journal.who.local_rank).read)
        if self.settings.metrics:
            from stepscope.recorder.metrics import Server

            host, port = address_of(self.settings.metrics)
            port += self.journal.who.local_rank
            try:
                self._server = Server(host, port, self.steps, self.journal, self)
            except (OSError, ImportError) as error:  # the recording goes on without
                why = f"{host}:{port}: {getattr(error, 'strerror', None) or error}"
                self.journal.tell(Lost(METRICS, why, 0))
                print(f"stepscope: --metrics {why}; the recording goes on without", file=sys.stderr)

    def _loop(self) -> None:
        interval = self.settings.interval
        seen, since, last, armed = self.journal.calls, clock(), clock(), 0
        stalled = False
        while not self._end.wait(interval):
            now = clock()
            if now - last > LATE * interval * 1e9:
                self.stopped_s += (now - last) / 1e9 - interval
                since += now - last
            last = now
            if self.journal.calls != seen:
                seen, since, stalled = self.journal.calls, now, False
            self._write(now)
            stall = self.settings.stall
            if not stall:
                continue
            if not stalled and now - since >= stall * 1e9:
                stalled = True
                self._stalled(now, since)
            if not stalled and now - armed >= REARM_S * 1e9:
                armed = now
                self._arm(stall + REARM_S + MARGIN_S)
        self._samples = 0
        self._write(clock())

    def _write(self, now: int) -> None:
        segment = self.journal.segment
        if segment.wants:
            segment.prepare()
        self._overdue(now)
        if self.steps.device is not None:
            self.journal.rows.extend(self.steps.device.passed())
        self.journal.flush(wait=True)
        hooks = self.journal.cost_ns
        own: list[Signal] = [
            ("rank", "gc_pause", "s", PAUSED[0] / 1e9),
            ("rank", "gc_pauses", "count", float(PAUSED[1])),
            ("rank", "process_stopped", "s", self.stopped_s),
            ("rank", "recorder_cpu", "s", (self.cpu_ns + hooks) / 1e9),
            ("rank", "recorder_hooks_cpu", "s", hooks / 1e9),
            ("rank", "recorder_calls", "count", float(self.journal.calls)),
        ]
        if self._samples % COUNT_EVERY == 0 and (issued := _issued()) is not None:
            seen = sum(number + 1 for number in list(collectives.SEQUENCE.values()))
            own.append(("rank", "collectives_issued", "count", float(issued - self._issued_before)))
            own.append(("rank", "collectives_seen", "count", float(seen)))
        self._samples += 1
        self.last = [*self.signals.read(), *own]
        name = self.journal.name
        self.journal.tell(
            Sample(now, [(name(scope), name(metric), name(unit), value) for scope, metric, unit, value in self.last])
        )
        if self._server is not None:
            from stepscope.recorder.metrics import tell

            tell(segment.folder, self.journal.who.rank, self.steps)
        self.cpu_ns = thread_time_ns()

    def _overdue(self, now: int) -> None:
        """Collectives that streams wait for, or that hang: they are written as they stand; a later row replaces them."""
        for pending in (collectives.PENDING, functional.PENDING):
            for row in list(pending.values()):
                if now - row[3] > OVERDUE_NS and (row[6], row[7]) not in self._told:
                    self._told.add((row[6], row[7]))
                    self.journal.rows.append(tuple(row))
        if len(self._told) > collectives.MOST_PENDING:
            self._told.clear()

    def _arm(self, seconds: float) -> None:
        """Should this thread never run again, faulthandler's own writes the stacks. A job that uses that timer keeps it."""
        if self._others_timer:
            return
        if self._stacks is None:
            original = faulthandler.dump_traceback_later

            def theirs(*args: Any, **kwargs: Any) -> None:
                self._others_timer = True
                original(*args, **kwargs)

            self._timer = original
            self._stacks = self._open("stacks-without-lock")
            if self._stacks is None:
                self._others_timer = True
                return
            faulthandler.dump_traceback_later = theirs
        self._timer(seconds, repeat=False, file=self._stacks, exit=False)

    def _stalled(self, now: int, since: int) -> None:
        """Stacks of all threads, torch's flight recorder, the last signals and what is under way: into files of this rank."""
        self.stalls += 1
        files = []
        if (file := self._open(f"stacks-{self.stalls}")) is not None:
            with file:
                faulthandler.dump_traceback(file, all_threads=True)
            files.append(file.name)
        if (dump := _flight_recorder()) and (
            file := self._open(f"fr-{self.stalls}", f"fr_trace_{self.journal.who.rank}")
        ) is not None:
            with file:
                file.write(dump)
            files.append(file.name)
        pending = [self._said(row) for pending in (collectives.PENDING, functional.PENDING) for row in list(pending.values())]
        issuing = list(collectives.ISSUING.items())
        pending += [
            f"{op} of group {group.group_name}, not yet issued, for {(now - at) / 1e9:.1f} s" for op, (group, at) in issuing
        ]
        if (file := self._open(f"signals-{self.stalls}")) is not None:
            with file:
                for line in [f"no progress for {(now - since) / 1e9:.0f} s", *(f"under way: {p}" for p in pending)]:
                    file.write(f"{line}\n".encode())
                for scope, metric, unit, value in self.last:
                    file.write(f"{scope} {metric} {value:g} {unit}\n".encode())
            files.append(file.name)
        self.journal.tell(Stalled(now, since, [Path(str(f)).name for f in files], pending))
        rank = self.journal.who.rank
        print(f"stepscope: rank {rank} has made no progress for {(now - since) / 1e9:.0f} s; what it stands in is in "
              f"{Path(self.settings.out) / STALLS}", file=sys.stderr)  # fmt: skip

    def _said(self, row: list[int]) -> str:
        names = {number: text for text, number in list(self.journal._names.items())}
        groups = {g.number: g.name for g in list(self.journal._groups.values())}
        since = (clock() - row[2]) / 1e9
        return f"{names.get(row[8], '?')} of group {groups.get(row[6], '?')}, number {row[7]}, for {since:.1f} s"

    def _path(self, what: str) -> Path:
        who = self.journal.who
        return Path(self.settings.out) / STALLS / f"{what}.rank-{who.rank}.{who.attempt}.txt"

    def _open(self, what: str, plain: str | None = None) -> IO[bytes] | None:
        path = self._path(what)
        if plain is not None:
            path = path.with_name(plain)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            return open(path, "wb", buffering=0, opener=lambda name, _: os.open(name, flags, 0o600))
        except OSError:
            return None


def _issued() -> int | None:
    """How many collectives torch's own flight recorder has counted, over all groups; None where it does not say."""
    try:
        c10d = sys.modules["torch"]._C._distributed_c10d
        status = json.loads(c10d._dump_fr_trace_json(includeCollectives=False, onlyActive=False)).get("pg_status", {})
        return sum(max(int(group["last_enqueued_collective"]), 0) for group in status.values())
    except Exception:
        return None


def _flight_recorder() -> bytes:
    """Torch's own dump, without stacks of C++; nothing where this torch has none."""
    try:
        c10d = sys.modules["torch"]._C._distributed_c10d
        dump: bytes = c10d._dump_fr_trace(includeCollectives=True, includeStackTraces=True, onlyActive=False)
        return dump
    except Exception:
        return b""
