"""What would help, the walk, the largest micro-batch, checkpoints and the textbook table."""

from __future__ import annotations

from math import sqrt

import pytest

from stepscope.catalog.stack import load_stack
from stepscope.catalog.system import load_system
from stepscope.model.errors import UsageMistake
from stepscope.planner.advice import advise, largest_micro_batch
from stepscope.planner.checkpoint import Terms, checkpoint, parse_terms
from stepscope.planner.cost import Cost, largest
from stepscope.planner.predict import Planner
from stepscope.planner.textbook import textbook
from stepscope.planner.walk import walk
from stepscope.simulator.predict import predictor
from tests.planner.jobs import workload

SYSTEM = load_system("hgx-h100")
PLANNER = Planner(SYSTEM, load_stack("torchtitan"))
COST = Cost(SYSTEM, predictor(SYSTEM, load_stack("torchtitan")))


def test_the_largest_micro_batch_fits_and_one_more_does_not() -> None:
    most = largest_micro_batch(PLANNER, workload("fsdp=16,seq=1024"))
    assert most > 1
    assert PLANNER(workload(f"fsdp=16,seq=1024,mbs={most}")).fits
    assert not PLANNER(workload(f"fsdp=16,seq=1024,mbs={most + 1}")).fits


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 7, 8, 100])
def test_the_search_finds_the_limit(limit: int) -> None:
    assert largest(lambda n: n <= limit, 64) == min(limit, 64)


def test_advice_says_what_each_change_saves_and_costs() -> None:
    job = workload("fsdp=8,mbs=4,seq=8192")
    now = PLANNER(job)
    found = advise(PLANNER, job, COST)
    by_change = {a.change: a for a in found}
    assert not now.fits
    assert [a.fits for a in found] == sorted((a.fits for a in found), reverse=True)
    assert all(a.saves_bytes > 0 for a in found)
    full = by_change["ac=full"]
    assert full.plan is not None
    assert now.total_bytes - full.saves_bytes == PLANNER(workload(full.plan)).total_bytes
    assert full.step_cost_ns is not None
    assert full.step_cost_ns > by_change["ac=selective"].step_cost_ns > 0  # type: ignore[operator]  # compared above
    assert {"fsdp=16", "--loss chunked", "offload the optimizer to host memory", "--expandable"} <= by_change.keys()


def test_advice_without_a_predictor_knows_bytes_and_no_costs() -> None:
    found = {a.change: a for a in advise(PLANNER, workload("fsdp=8,mbs=4,seq=8192"), Cost(SYSTEM, None))}
    assert found["ac=full"].step_cost_ns is None
    assert found["ac=full"].saves_bytes > 0


def test_the_walk_ends_with_a_plan_that_fits_and_pays_for_it() -> None:
    found = walk(PLANNER, workload("fsdp=8,mbs=8,seq=4096"), COST)
    assert [w.fits for w in found[:-1]] == [False] * (len(found) - 1)
    assert found[-1].fits
    assert found[0].saved_bytes == 0
    assert found[0].lost_ns == 0
    sizes = [w.total_bytes for w in found]
    assert sizes == sorted(sizes, reverse=True)
    assert found[-1].exposed_ns > found[0].exposed_ns  # type: ignore[operator]  # FSDP is simulated
    assert found[-1].lost_ns > 0  # type: ignore[operator]


def test_the_walk_does_not_double_shards_that_no_longer_help() -> None:
    found = walk(PLANNER, workload("fsdp=8,seq=24576"), COST)
    assert found[-1].fits
    assert found[-1].ranks < 4096
    assert any(w.why == "full checkpointing" for w in found)


def test_a_checkpoint_in_closed_form() -> None:
    cluster = SYSTEM.cluster(2)
    found = checkpoint(workload("fsdp=16,seq=8192"), load_stack("torchtitan"), cluster, Terms(mtbf_hours=24, recover_s=600))
    held = found.stall_sync_ns / 1e9  # type: ignore[operator]  # the system says its storage
    assert found.total_bytes == 12 * 8_030_261_248
    assert found.rank_bytes == found.total_bytes / 16
    assert found.stall_async_ns == pytest.approx(found.rank_bytes / cluster.node.pcie_bytes_per_s * 1e9)
    assert found.stall_sync_ns > found.write_ns > found.stall_async_ns  # type: ignore[operator]
    assert found.interval_ns / 1e9 == pytest.approx(sqrt(2 * held * 86400), rel=1e-6)  # type: ignore[operator]
    best = held + sqrt(2 * (86400 + 600) * held + held**2)
    assert found.interval_available_ns / 1e9 == pytest.approx(best, rel=1e-6)  # type: ignore[operator]
    assert found.lost_share == pytest.approx(held / best + (best / 2 + 600) / 86400, rel=1e-6)


def test_replicas_write_once_and_more_failures_ask_for_more_saves() -> None:
    cluster, stack = SYSTEM.cluster(2), load_stack("torchtitan")
    one = checkpoint(workload("hsdp=2x8,seq=8192"), stack, cluster, Terms(mtbf_hours=24))
    assert one.rank_bytes == one.total_bytes / 8
    often = checkpoint(workload("hsdp=2x8,seq=8192"), stack, cluster, Terms(mtbf_hours=1))
    assert often.interval_ns < one.interval_ns  # type: ignore[operator]


@pytest.mark.parametrize("words", ["mtbf=3", "mode=later", "tolerate_s=-1", "recover_s=x", "mode=sync,mode=sync"])
def test_words_of_a_checkpoint_that_cannot_be(words: str) -> None:
    with pytest.raises(UsageMistake, match=r"^checkpoint: "):
        parse_terms(words)


@pytest.mark.parametrize(
    ("master", "gradients", "total"), [(True, "bf16", (16, 48)), (False, "bf16", (12, 36)), (True, "fp32", (18, 54))]
)
def test_the_textbook_table(master: bool, gradients: str, total: tuple[int, int]) -> None:
    found = textbook("illustrative-3b", 3_000_000_000, master=master, gradients=gradients)
    *states, last = found.rows
    assert (last.bytes_per_parameter, last.bytes // 10**9) == total
    assert sum(row.bytes for row in states) == last.bytes
    assert ("Master weights" in {row.row for row in states}) is master
