"""Hand-made ranks, written as one would draw them: spans with start and end in ns, linked by name of variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import polars as pl

from stepscope.model.info import RankInfo, RunInfo, Step
from stepscope.model.run import Run
from stepscope.model.spans import ATTRIBUTION, COLLECTIVES, EDGES, SPANS, RankTables, conform, empty
from stepscope.model.words import HOST_KINDS, PARTS

LOOP = 1  # thread that runs the training loop
OTHER = 2


@dataclass
class Rank:
    """A rank in the making; `host`, `device` and `collective` return the row they added."""

    rank: int = 0
    device_kind: str = "cpu"
    main_thread: int | None = LOOP
    spans: list[dict[str, Any]] = field(default_factory=list)
    edges: list[dict[str, Any]] = field(default_factory=list)
    collectives: list[dict[str, Any]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    windows: list[tuple[int, int]] = field(default_factory=list)

    def step(self, start: int, end: int, complete: bool = True) -> None:
        self.steps.append(Step(len(self.steps), start, end, complete))

    def host(
        self,
        start: int,
        end: int,
        part: str | None = None,
        *,
        name: str = "op",
        kind: str = "op",
        thread: int = LOOP,
        flags: int = 0,
    ) -> int:
        row = {"lane": "host", "thread": thread, "kind": kind, "name": name, "part": part, "flags": flags}
        return self._span(start, end, row)

    def device(
        self,
        start: int,
        end: int,
        part: str | None = None,
        *,
        kind: str = "kernel",
        stream: int = 7,
        launch: int | None = None,
        flags: int = 0,
    ) -> int:
        row = {"lane": "device", "stream": stream, "kind": kind, "name": kind, "part": part, "flags": flags}
        span = self._span(start, end, row)
        if launch is not None:
            self.edges.append({"source": launch, "target": span, "kind": "launch"})
        return span

    def collective(
        self,
        arrive: int,
        end: int,
        *,
        span: int | None = None,
        stream: int | None = None,
        step: int | None = 0,
        op: str = "all_reduce",
        **more: Any,
    ) -> int:
        row = {
            "rank": self.rank,
            "arrive_ns": arrive,
            "end_ns": end,
            "span": span,
            "stream": stream,
            "step": step,
            "op": op,
            **more,
        }
        self.collectives.append(row)
        return len(self.collectives) - 1

    def _span(self, start: int, end: int, row: dict[str, Any]) -> int:
        self.spans.append({"start_ns": start, "end_ns": end, **row})
        return len(self.spans) - 1

    def tables(self, order: Sequence[int] | None = None, shift: int = 0) -> RankTables:
        """The tables, all times later by `shift`, spans (and collectives) in `order` instead of the order of writing."""
        rows = list(order) if order is not None else list(range(len(self.spans)))
        new = {old: place for place, old in enumerate(rows)}
        spans = [dict(self.spans[old], parent=self.parent(old)) for old in rows]
        for span in spans:
            span["parent"] = new.get(span["parent"])
        frame = pl.DataFrame(spans, infer_schema_length=None) if spans else empty({**SPANS, **ATTRIBUTION})
        frame = frame.with_columns(pl.int_range(pl.len()).alias("id"), pl.col("start_ns", "end_ns") + shift)
        shuffled = sorted(self.collectives, key=lambda c: new.get(c["span"], 0)) if order is not None else self.collectives
        collectives = pl.DataFrame(
            [{**c, "span": new.get(c["span"]), "id": place} for place, c in enumerate(shuffled)],
            schema_overrides={"arrive_ns": pl.Int64, "end_ns": pl.Int64},
            infer_schema_length=None,
        )
        if collectives.width:
            collectives = collectives.with_columns(pl.col("arrive_ns", "end_ns") + shift)
        edges = [{**e, "source": new[e["source"]], "target": new[e["target"]]} for e in self.edges]
        return RankTables(
            info=RankInfo(
                rank=self.rank,
                identified_by="simulated",
                device=self.device_kind,
                main_thread=self.main_thread,
                windows=[(start + shift, end + shift) for start, end in self.windows],
                steps=[Step(s.step, s.start_ns + shift, s.end_ns + shift, s.complete) for s in self.steps],
            ),
            spans=conform(frame, SPANS),
            edges=conform(pl.DataFrame(edges), EDGES) if edges else empty(EDGES),
            attribution=conform(frame, ATTRIBUTION),
            collectives=conform(collectives, COLLECTIVES) if collectives.height else empty(COLLECTIVES),
        )

    def parent(self, row: int) -> int | None:
        """The innermost host span around it on its thread; of equal ones the one written before it."""
        me = self.spans[row]
        around = [
            (other["start_ns"], -other["end_ns"], place)
            for place, other in enumerate(self.spans)
            if place != row
            and other["kind"] in HOST_KINDS
            and me["kind"] in HOST_KINDS
            and other["thread"] == me["thread"]
            and (other["start_ns"], -other["end_ns"], place) < (me["start_ns"], -me["end_ns"], row)
            and other["end_ns"] >= me["end_ns"]
        ]
        return max(around)[2] if around else None


class Held:
    """A Run whose tables are held in memory."""

    def __init__(self, *tables: RankTables, **info: Any) -> None:
        self.info = RunInfo(ranks=[t.info for t in tables], world_size=info.pop("world_size", len(tables)), **info)
        self.path = Path("held.run")
        self._tables = {t.info.rank: t for t in tables}

    @property
    def ranks(self) -> list[int]:
        return list(self._tables)

    def tables(self, rank: int, columns: Sequence[str] | None = None) -> RankTables:
        return self._tables[rank]

    def collectives(self) -> pl.DataFrame:
        frames = [t.collectives.with_columns(rank=pl.lit(rank, dtype=pl.Int64)) for rank, t in self._tables.items()]
        return pl.concat(frames) if frames else empty(COLLECTIVES)


def run_of(*ranks: Rank | RankTables, **info: Any) -> Run:
    """These ranks as a Run."""
    return cast(Run, Held(*(r.tables() if isinstance(r, Rank) else r for r in ranks), **info))


def parts(**known: int) -> dict[str, int]:
    """All parts, 0 but for those named."""
    assert set(known) <= set(PARTS)
    return {part: known.get(part, 0) for part in PARTS}
