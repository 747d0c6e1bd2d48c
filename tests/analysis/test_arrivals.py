"""Who was waited for: known lateness on known clocks, and nothing where it cannot be known."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import stepscope
from stepscope.analysis.arrivals import Arrivals, arrivals
from stepscope.analysis.matching import match_collectives
from stepscope.model.info import RunInfo
from stepscope.model.run import Run, load
from stepscope.model.store import save_info
from stepscope.sources.clock import align
from tests.analysis.cluster import Cluster
from tests.sources.make import BASE, COMM, device, gpu_trace, launch, write


def run_of(frame: pl.DataFrame, info: RunInfo, folder: Path) -> Run:
    """A run that holds collectives only."""
    matched = match_collectives(frame, info)
    info.clock, _ = align(matched, info)
    save_info(folder, info, matched)
    return load(folder)


def arrivals_of(cluster: Cluster, folder: Path) -> Arrivals:
    """Arrivals of a cluster."""
    return arrivals(run_of(*cluster.build(), folder))


def last(found: Arrivals) -> Counter[int | None]:
    """How often each rank was last."""
    return Counter(c.last_rank for c in found.collectives)


@pytest.mark.parametrize("sequence", [True, False])
def test_the_late_rank_is_named_across_hosts_whose_clocks_are_seconds_apart(tmp_path: Path, sequence: bool) -> None:
    cluster = Cluster(3, 2, 40, offset_ns={1: 2_700_000_000}, drift_ppm={2: 200.0}, late={3: 30_000_000}, sequence=sequence)
    found = arrivals_of(cluster, tmp_path)
    assert last(found) == {3: 120}
    for collective in found.collectives:
        assert collective.n_ranks == 6
        assert 2_000_000 <= collective.transfer_ns <= 4_100_000  # type: ignore[operator]
        assert collective.skew_ns == pytest.approx(30_000_000, abs=1_500_000)


def test_nobody_is_called_late_where_hosts_share_no_group(tmp_path: Path) -> None:
    groups = ((0, 1), (2, 3), (0, 2))
    frame, info = Cluster(2, 2, groups=groups, ops=("all_to_all",), late={3: 50_000_000}).build()
    found = arrivals(run_of(frame, info, tmp_path))
    across = [c for c in found.collectives if c.group == "2"]
    assert across
    assert {c.last_rank for c in across} == {None}
    inside = [c for c in found.collectives if c.group == "1"]
    assert {c.last_rank for c in inside} == {3}


def test_a_spread_within_three_residuals_names_nobody(tmp_path: Path) -> None:
    cluster = Cluster(2, 2, 20, noise_ns=2_000_000, jitter_ns=10, late={3: 1_000_000})
    assert last(arrivals_of(cluster, tmp_path)) == {None: 60}


def test_a_missing_rank_leaves_lower_bounds_and_names_nobody(tmp_path: Path) -> None:
    frame, info = Cluster(2, 2, late={3: 30_000_000}).build()
    info.ranks = info.ranks[:3]
    found = arrivals(run_of(frame.filter(pl.col("rank") < 3), info, tmp_path))
    assert last(found) == {None: 60}
    for collective in found.collectives:
        assert (collective.n_ranks, collective.transfer_ns, collective.busbw_bytes_per_s) == (4, None, None)
        assert 0 <= collective.wait_ns < 2_000_000  # type: ignore[operator]
    assert found.transfers == {}


def test_of_several_groups_that_nobody_names_nothing_is_split(tmp_path: Path) -> None:
    frame, info = Cluster(1, 4, groups=((0, 1), (2, 3)), late={3: 30_000_000}).build()
    nameless = frame.with_columns(group=pl.lit(None, dtype=pl.String), group_size=pl.lit(None, dtype=pl.Int64))
    found = arrivals(run_of(nameless, info, tmp_path))
    assert last(found) == {None: len(found.collectives)}
    assert found.transfers == {}


def test_bus_bandwidth_follows_nccl_tests(tmp_path: Path) -> None:
    frame, info = Cluster(1, 4, 1, ops=("all_reduce",), noise_ns=0, jitter_ns=10).build()
    (one,) = arrivals(run_of(frame, info, tmp_path)).collectives
    assert one.busbw_bytes_per_s == pytest.approx(1_000_000 / (one.transfer_ns * 1e-9) * 2 * 3 / 4)  # type: ignore[operator]


@pytest.mark.parametrize("cut", [1, 2, 7])
def test_a_window_cut_at_either_end_still_matches(tmp_path: Path, cut: int) -> None:
    frame, info = Cluster(2, 2, late={1: 30_000_000}).build()
    kept = frame.filter(~((pl.col("rank") == 2) & (pl.col("id") < cut)) & ~((pl.col("rank") == 0) & (pl.col("id") >= 60 - cut)))
    found = arrivals(run_of(kept, info, tmp_path))
    whole = [c for c in found.collectives if c.transfer_ns is not None]
    assert len(found.collectives) == 60
    assert len(whole) == 60 - 2 * cut
    assert {c.last_rank for c in whole} == {1}


def test_a_time_axis_stretched_by_two_percent_makes_no_wait_longer_than_the_trace(tmp_path: Path) -> None:
    frame, info = Cluster(2, 2, drift_ppm={1: 20_000.0}).build()
    found = arrivals(run_of(frame, info, tmp_path))
    longest = int((frame["end_ns"] - frame["arrive_ns"]).max())  # type: ignore[arg-type]
    assert all(0 <= c.wait_ns <= longest for c in found.collectives)  # type: ignore[operator]
    assert last(found) == {None: 60}


def test_wait_and_transfer_reach_the_parts_of_every_rank(tmp_path: Path) -> None:
    for rank, late in ((0, 0), (1, 40)):
        document = gpu_trace(rank, 2, steps=1)
        meta = {
            "Collective name": "allreduce",
            "Process Group Name": "0",
            "Process Group Ranks": "[0, 1]",
            "Seq": 1,
            "Group size": 2,
        }
        kernel = device("ncclDevKernel_AllReduce_2", 90, BASE + 760 + late, 100 - late, COMM, **meta)
        document["traceEvents"] += [launch(90, BASE + 755), kernel]
        write(tmp_path / f"rank{rank}.json", document)
    with stepscope.read(tmp_path) as run:
        steps = stepscope.breakdown(run).steps
    # The first all-reduce (480 to 630, computed over until 530) is matched too: its 150 µs are transfer on both ranks.
    waits = [(s.parts_ns["comm_wait"], s.parts_ns["comm_transfer"], s.parts_ns["comm_unsplit"]) for s in steps]
    assert waits == [(40_000, 100_000 + 60_000, 0), (0, 100_000 + 60_000, 0)]
