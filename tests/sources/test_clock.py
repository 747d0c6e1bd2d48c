"""Clocks of hosts: offsets and drifts that are known come back within the residual that is stated; nothing else is claimed."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.analysis.matching import match_collectives
from stepscope.model.info import Clock
from stepscope.sources.clock import align
from tests.analysis.cluster import Cluster


def clock_of(cluster: Cluster) -> Clock:
    """The clock found from the cluster's collectives."""
    frame, info = cluster.build()
    return align(match_collectives(frame, info), info)[0]


def errors(cluster: Cluster, clock: Clock) -> list[int]:
    """How far the common times of all hosts differ at the beginning, the middle and the end of the window."""
    worst = []
    for share in (0.0, 0.5, 1.0):
        true = 1_000_000_000 + round(share * cluster.steps * cluster.step_ns)
        shown = [
            int(clock.to_common(f"node{h}", np.array([cluster.clock(h * cluster.per_host, true)], dtype=np.int64))[0])
            for h in range(cluster.hosts)
        ]
        worst.append(max(shown) - min(shown))
    return worst


OFFSETS = [{}, {1: 3_000}, {1: -40_000_000}, {1: 2_700_000_000, 2: -900_000_000}]


@pytest.mark.parametrize("sequence", [True, False])
@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("drifts", [{}, {1: 200.0, 2: -150.0}])
@pytest.mark.parametrize("seed", [0, 1])
def test_offsets_and_drifts_are_recovered_within_the_residual(
    sequence: bool, offsets: dict[int, int], drifts: dict[int, float], seed: int
) -> None:
    cluster = Cluster(3, 2, 40, offset_ns=offsets, drift_ppm=drifts, late={4: 30_000_000}, sequence=sequence, seed=seed)
    clock = clock_of(cluster)
    assert clock.aligned is True
    assert clock.residual_ns is not None
    assert clock.residual_ns < 100_000
    assert max(errors(cluster, clock)) <= clock.residual_ns


def test_one_host_shares_a_clock_and_is_never_adjusted() -> None:
    clock = clock_of(Cluster(1, 4, noise_ns=2_000_000))
    assert (clock.aligned, clock.residual_ns) == (True, 0)
    assert clock.hosts["node0"].offset_ns == 0


def test_ranks_without_a_named_host_that_agree_are_not_adjusted() -> None:
    clock = clock_of(Cluster(1, 4, named_hosts=False))
    assert clock.aligned is True
    assert {h.offset_ns for h in clock.hosts.values()} == {0}
    assert clock.residual_ns


def test_hosts_that_no_group_joins_stay_apart() -> None:
    cluster = Cluster(4, 2, groups=((0, 1, 2, 3), (4, 5, 6, 7)))
    frame, info = cluster.build()
    clock, gaps = align(match_collectives(frame, info), info)
    assert clock.aligned is False
    assert [clock.hosts[f"node{h}"].component for h in range(4)] == [0, 0, 1, 1]
    assert [(g.what, g.ranks) for g in gaps] == [("clocks not aligned", (4, 5, 6, 7))]


def test_hosts_are_joined_over_others() -> None:
    offsets = {1: 5_000_000, 2: -7_000_000}
    cluster = Cluster(3, 2, 40, groups=((0, 1, 2, 3), (2, 3, 4, 5)), offset_ns=offsets)
    clock = clock_of(cluster)
    assert clock.aligned is True
    assert max(errors(cluster, clock)) <= clock.residual_ns  # type: ignore[operator]


def test_operations_that_do_not_end_together_align_nothing() -> None:
    assert clock_of(Cluster(2, 2, ops=("all_to_all", "broadcast"))).aligned is False


def test_a_time_axis_that_no_clock_has_is_refused() -> None:
    clock = clock_of(Cluster(2, 2, 40, drift_ppm={1: 20_000.0}))
    assert clock.aligned is False


def test_drift_is_not_fitted_below_ten_seconds() -> None:
    clock = clock_of(Cluster(2, 2, 10, drift_ppm={1: 200.0}))
    assert clock.hosts["node1"].drift_ppm == 0.0
    assert clock.residual_ns is not None
    assert clock.residual_ns > 100_000
