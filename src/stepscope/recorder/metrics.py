"""`--metrics :9400`: this rank's step, parts and lateness for Prometheus to scrape. Needs the package prometheus-client.

Seconds and bytes, counters end in `_total`; each rank serves on the port plus its local rank, on loopback unless told otherwise.
Lateness is against the ranks of the same folder: who waits least in collectives came last, by as much as the others wait longer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stepscope.model.segment import BACKWARD, CHECKPOINT, COMMUNICATION, FORWARD, INPUT, OPTIMIZER

if TYPE_CHECKING:
    from stepscope.recorder.journal import Journal
    from stepscope.recorder.steps import Steps
    from stepscope.recorder.watch import Watch

PARTS: Final = {
    INPUT: "input_wait", FORWARD: "forward", BACKWARD: "backward", OPTIMIZER: "optimizer", CHECKPOINT: "checkpoint",
    COMMUNICATION: "communication",
}  # fmt: skip


class Server:
    """Serves until `close`. Raises ImportError without prometheus-client, OSError where the port is taken."""

    def __init__(self, host: str, port: int, steps: Steps, journal: Journal, watch: Watch) -> None:
        from prometheus_client import CollectorRegistry, start_http_server

        registry = CollectorRegistry()
        registry.register(_Collector(steps, journal, watch))
        self._server, self._thread = start_http_server(port, addr=host, registry=registry)

    def close(self) -> None:
        """Frees the port."""
        threading.Thread(target=self._server.shutdown, daemon=True).start()
        self._server.server_close()


class _Collector:
    def __init__(self, steps: Steps, journal: Journal, watch: Watch) -> None:
        self.steps, self.journal, self.watch = steps, journal, watch

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily as Counter
        from prometheus_client.core import GaugeMetricFamily as Gauge

        steps, rank = self.steps, str(self.journal.who.rank)

        def one(kind: Any, name: str, says: str, value: float | None) -> Any:
            family = kind(name, says, labels=["rank"])
            if value is not None:
                family.add_metric([rank], value)
            return family

        done = list(steps.done)
        seconds = steps.total_ns / 1e9
        yield one(Counter, "stepscope_steps", "Steps that this rank has finished.", float(steps.number))
        yield one(Counter, "stepscope_step_seconds", "Time of those steps.", seconds)
        parts = Counter(
            "stepscope_step_part_seconds",
            "Time of those steps by part; the rest is other work and idle.",
            labels=["rank", "part"],
        )
        for what, part in PARTS.items():
            parts.add_metric([rank, part], steps.totals[what] / 1e9)
        yield parts
        yield one(Gauge, "stepscope_last_step_seconds", "Time of the last step.", done[-1][1] / 1e9 if done else None)
        yield one(Counter, "stepscope_exposed_communication_seconds", "Time that the training thread stood in collectives.",
                  steps.totals[COMMUNICATION] / 1e9)  # fmt: skip
        yield one(Counter, "stepscope_tokens", "Tokens of those steps, where the loop tells them.", float(steps.total_tokens))
        yield one(Gauge, "stepscope_tokens_per_second", "Tokens a second since the start, where the loop tells them.",
                  steps.total_tokens / seconds if seconds and steps.total_tokens else None)  # fmt: skip
        yield one(Gauge, "stepscope_lateness_seconds", "How much later this rank was than the first, last step.",
                  self._lateness())  # fmt: skip
        yield one(Counter, "stepscope_stalls", "Times without progress for as long as --stall says.", float(self.watch.stalls))
        yield one(Counter, "stepscope_lost_rows", "Rows that could not be written.", float(self.journal.lost))
        yield one(Counter, "stepscope_recorder_cpu_seconds", "CPU time of the recorder itself.",
                  (self.watch.cpu_ns + self.journal.cost_ns) / 1e9)  # fmt: skip

    def _lateness(self) -> float | None:
        folder = Path(self.journal.segment.folder)
        mine = {number: waited for number, _, waited in list(self.steps.done)}
        others = _told(folder)
        others[self.journal.who.rank] = mine
        if len(others) < 2:
            return None
        common = set(mine).intersection(*others.values())
        if not common:
            return None
        step = max(common)
        return (max(o[step] for o in others.values()) - mine[step]) / 1e9


def tell(folder: Path, rank: int, steps: Steps) -> None:
    """The last steps' waiting for the other ranks of the folder to compare with: a few lines, replaced whole."""
    path = folder / f"lately-{rank}"
    part = path.with_suffix(".part")
    part.touch(mode=0o600)
    part.write_text("".join(f"{number} {waited}\n" for number, _, waited in list(steps.done)))
    part.replace(path)


def _told(folder: Path) -> dict[int, dict[int, int]]:
    found: dict[int, dict[int, int]] = {}
    for path in folder.glob("lately-*"):
        try:
            rank = int(path.name.removeprefix("lately-"))
            found[rank] = {int(a): int(b) for a, b in (line.split() for line in path.read_text().splitlines())}
        except (OSError, ValueError):
            continue
    return found
