"""Step, phase, unit, layer, pass and part of every span of one rank: the rules of the design, applied to raw spans.

Derived and versioned apart from what was recorded: a better rule is applied to the spans again, never to the traces.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from stepscope.analysis import rules
from stepscope.analysis.copies import batch_copies
from stepscope.analysis.layers import layers
from stepscope.analysis.matching import match_collectives
from stepscope.analysis.parts import parts
from stepscope.analysis.phases import Hosts, phases
from stepscope.analysis.steps import find_steps, step_of
from stepscope.analysis.unit_ranges import unit_codes
from stepscope.model.info import Gap
from stepscope.model.spans import ATTRIBUTION, Attributed, Marks, RankTables, Rules, conform, enum_of
from stepscope.model.words import PASSES, PHASES


def attribute(tables: RankTables, marks: Marks = ()) -> Attributed:
    """Applies the rules to one rank. `tables.attribution` is not read; spans must be in order of start."""
    spans, gaps = tables.spans, []
    steps, marker_gap = find_steps(tables)
    gaps += marker_gap
    host = Hosts.of(tables, marks)
    found = phases(host, steps)
    gaps += found.gaps
    operator = _operators(tables, host.parent)
    on_device = operator >= 0
    phase = np.where(on_device, found.phase[operator], found.phase)
    recompute = np.where(on_device, found.recompute[operator], found.recompute)
    unit_names, unit = unit_codes(host)
    unit = np.where(on_device, unit[operator], unit)
    batch = batch_copies(tables, host, phase, steps)
    collective = (spans["kind"] == "collective").to_numpy() | spans["collective_id"].is_not_null().to_numpy()
    shown = np.where(collective, rules.SYNCHRONIZATION, np.where(batch, rules.INPUT, phase))
    passes = np.where(phase == rules.FORWARD, 0, np.where(phase == rules.BACKWARD, 1, -1))
    frame = pl.DataFrame(
        {
            "id": spans["id"],
            "step": step_of(host.start, steps),
            "phase": enum_of(shown, PHASES),
            "unit": enum_of(unit, unit_names).cast(pl.String),
            "layer": layers(host, shown),
            "pass": enum_of(passes, PASSES),
            "recompute": recompute,
            "part": parts(host, phase, batch, collective),
        }
    )
    frame = conform(frame, ATTRIBUTION)
    gaps += _unlinked(tables, host, phase)
    return Attributed(frame, _collectives(tables, frame), steps, gaps)


RULES = Rules(derive=attribute, match=match_collectives)
"""The rules that every import is handed."""


def _operators(tables: RankTables, parent: rules.Codes) -> rules.Codes:
    """For each device span the host row whose phase it takes: what encloses its launch; -1 where nothing links it."""
    operator = np.full(tables.spans.height, -1, dtype=np.int64)
    launch = tables.edges.filter(pl.col("kind") == "launch")
    source, target = launch["source"].to_numpy(), launch["target"].to_numpy()
    is_runtime = (tables.spans["kind"] == "runtime").to_numpy()[source]
    operator[target] = np.where(is_runtime & (parent[source] >= 0), parent[source], source)
    return operator


def _collectives(tables: RankTables, frame: pl.DataFrame) -> pl.DataFrame:
    """The rank's collectives with step, unit and pass; all-reduces of DDP are its buckets, in order within the step."""
    collectives = tables.collectives
    if not collectives.height:
        return collectives
    order = list(collectives.columns)
    own = frame[collectives["span"].to_numpy()]
    filled = collectives.with_columns(step=own["step"], unit=own["unit"], **{"pass": own["pass"]})
    names = tables.spans["name"]
    if names.str.starts_with("DistributedDataParallel.").any() and not names.str.starts_with("FSDP::").any():
        bucket = (pl.col("op") == "all_reduce") & (pl.col("pass") == "backward")
        number = bucket.cum_sum().over("step") - 1
        filled = filled.with_columns(unit=pl.when(bucket).then(pl.format("bucket {}", number)).otherwise("unit"))
    return filled.select(order)


def _unlinked(tables: RankTables, host: Hosts, phase: rules.Codes) -> list[Gap]:
    """Device work whose phase nothing tells: a graph launched outside every phase, or kernels without a launch."""
    kernels = (tables.spans["kind"] == "kernel").to_numpy()
    total = int(kernels.sum())
    if not total:
        return []
    linked = np.zeros(len(kernels), dtype=bool)
    launch = tables.edges.filter(pl.col("kind") == "launch")
    linked[launch["target"].to_numpy()] = True
    gaps = []
    lost = int((kernels & ~linked).sum())
    if lost:
        gaps.append(
            Gap("kernels without a launch", (), f"{lost} of {total} kernels have no recorded launch; their phase is unknown")
        )
    graph = host.rows_named(lambda name: "GraphLaunch" in name)
    by_graph = np.zeros(len(kernels), dtype=bool)
    by_graph[launch["target"].to_numpy()] = graph[launch["source"].to_numpy()]
    blind = int((by_graph & kernels & (phase < 0)).sum())
    if blind:
        gaps.append(
            Gap(
                "phases of a CUDA graph",
                (),
                f"{blind} of {total} kernels were launched by a graph outside every phase; they count as other_compute",
            )
        )
    return gaps
