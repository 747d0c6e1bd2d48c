"""The six phases always have the same signals; what is not recorded is None, never 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

import stepscope
from stepscope.analysis.breakdown import breakdown
from stepscope.analysis.compare import compare
from stepscope.model.compare import Comparison, Signal
from stepscope.model.spans import ATTRIBUTION, SIGNALS, RankTables
from stepscope.model.words import PHASES
from tests.analysis.build import Rank, run_of


def signals(found: Comparison) -> dict[tuple[str, str], Signal]:
    return {(p.phase, s.signal): s for p in found.phases for s in p.inspect}


def on_a_gpu() -> RankTables:
    """One step of 1,000 ns: 300 ns of forward kernels, of which 100 in bf16, 200 of backward, half of them again."""
    rank = Rank(device_kind="cuda")
    rank.step(0, 1000)
    rank.host(0, 5, kind="annotation")
    for start, end, part in ((10, 110, "forward"), (110, 310, "forward"), (310, 410, "backward"), (410, 510, "backward")):
        rank.device(start, end, part)
    rank.device(510, 560, "input_wait", kind="memcpy")
    tables = rank.tables()
    names = ["marker", "gemm_bf16", "volta_sgemm", "volta_sgemm", "volta_sgemm", "Memcpy HtoD"]
    phases: list[Any] = [None, "forward", "forward", "backward", "backward", "input"]
    tables.spans = tables.spans.with_columns(name=pl.Series(names))
    tables.attribution = tables.attribution.with_columns(
        phase=pl.Series(phases, dtype=ATTRIBUTION["phase"]), recompute=pl.Series([False, False, False, True, False, False])
    )
    tables.signals = pl.DataFrame(
        [(5, "rank 0", "memory_allocated", v, "bytes", "test") for v in (7.0, 9.0)], schema=SIGNALS, orient="row"
    )
    return tables


def test_device_signals_of_each_phase() -> None:
    run = run_of(on_a_gpu())
    found = signals(compare(run, run))
    assert found["forward", "kernel_time"] == Signal("kernel_time", 300e-9, 300e-9, "s")
    assert found["forward", "kernel_time_bf16"].run == 1 / 3
    assert found["forward", "kernel_time_fp32"].base == 2 / 3
    assert found["backward", "recomputation_time"].run == 100e-9
    assert found["backward", "peak_memory"].run == 9.0
    assert found["input", "next_batch_copy"].run == 50e-9
    assert found["input", "batch_wait"].run == 50e-9
    assert found["forward", "gemm_shapes"].run is None
    assert found["optimizer", "memory_bandwidth"].run is None
    assert found["checkpoint", "stall"].run is None


def test_every_phase_is_there_in_order(demo_dir: Path) -> None:
    base, run = (stepscope.read(demo_dir / name) for name in ("healthy", "slow-rank"))
    found = compare(base, run, broken_down=(breakdown(base), breakdown(run)))
    assert [p.phase for p in found.phases] == list(PHASES)
    known = signals(found)
    assert known["forward", "kernel_time"].base is None  # no kernel was recorded on a CPU
    spread, whole = known["synchronization", "arrival_spread"], known["synchronization", "collective_duration"]
    assert spread.base is not None
    assert spread.run is not None
    assert spread.run > 2 * spread.base
    assert whole.base is not None
