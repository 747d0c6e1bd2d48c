"""Who is missing, behind, late or calling something else: rings built by hand, and recorded ones whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from stepscope.analysis.dumps import standing
from stepscope.model.dump import Dump, Dumps, Held
from stepscope.model.info import Gap
from stepscope.sources.flight_recorder import find_dumps, read_dumps

MS = 1_000_000
WORLD = ("0", "default_pg")


def held(
    number: int, at_ms: float, done: bool = True, group: tuple[str, str] = WORLD, op: str = "all_reduce", shape: str = "[[4]]"
) -> Held:
    return Held(group[0], group[1], number, op, shape, 10**18 + round(at_ms * MS), done)


def dumps(
    rings: dict[int, Sequence[Held]], members: dict[str, tuple[int, ...]] | None = None, absent: tuple[int, ...] = ()
) -> Dumps:
    found = tuple(
        Dump(f"d{r}", r, "pickle", entries=len(ring), held=tuple(ring), members=members or {}) for r, ring in rings.items()
    )
    return Dumps(found, (Gap("ranks without a dump", absent, "gone"),) if absent else ())


def test_a_healthy_job_stands_in_nothing() -> None:
    found = standing(dumps({r: [held(n, 10 * n + r / 100) for n in range(5)] for r in range(4)}))
    assert found.stuck == found.mismatched == found.late == ()
    assert found.first == ()


def test_the_rank_that_never_came_is_missing() -> None:
    rings = {r: [held(0, 0), *([held(1, 10 + r, done=False)] if r != 2 else [])] for r in range(4)}
    found = standing(dumps(rings))
    (one,) = found.stuck
    assert (one.sequence, one.joined, one.missing, one.since_ns) == (1, (0, 1, 3), (2,), 10**18 + 10 * MS)
    assert found.first == (2,)


def test_a_rank_without_a_dump_is_missing_and_the_first_to_look_at() -> None:
    found = standing(dumps({r: [held(0, 0), held(1, 10, done=False)] for r in (0, 1)}, absent=(2,)))
    assert found.stuck[0].missing == (2,)
    assert found.first == (2,)


def test_a_rank_that_waits_elsewhere_is_missing_but_not_first() -> None:
    """Rank 1 does not join the world since it waits for rank 2 in their own group; rank 2 came to neither."""
    pair = ("1", "pair")
    rings = {
        0: [held(0, 0), held(1, 10, done=False)],
        1: [held(0, 0), held(0, 5, done=False, group=pair)],
        2: [held(0, 0)],
    }
    members = {"0": (0, 1, 2), "1": (1, 2)}
    found = standing(dumps(rings, members))
    assert [(s.group, s.missing) for s in found.stuck] == [("1", (2,)), ("0", (1, 2))], "the first to stand is on top"
    assert found.first == (2,)


def test_groups_of_one_name_are_told_apart_by_their_ranks() -> None:
    pairs = ("1", "tp")
    rings: dict[int, list[Held]] = {r: [held(0, r, group=pairs)] for r in range(4)}
    rings[2] = [held(0, 0, done=False, group=pairs)]
    rings[3] = []
    found = Dumps(
        tuple(
            Dump(f"d{r}", r, "pickle", entries=len(ring), held=tuple(ring), members={"1": (0, 1) if r < 2 else (2, 3)})
            for r, ring in rings.items()
        ),
        (),
    )
    (one,) = standing(found).stuck
    assert (one.joined, one.missing) == ((2,), (3,))


def test_a_rank_on_which_it_does_not_end_is_behind() -> None:
    rings = {0: [held(n, n, done=False) for n in range(5, 12)], 1: [held(n, n, done=False) for n in range(9, 12)]}
    found = standing(dumps(rings))
    (one,) = found.stuck
    assert (one.sequence, one.joined, one.missing, one.ended) == (5, (0, 1), (), (1,))
    assert found.first == (0,)


def test_different_calls_under_one_number() -> None:
    rings = {0: [held(3, 0, done=False)], 1: [held(3, 0, done=False)], 2: [held(3, 0, done=False, op="broadcast")]}
    (one,) = standing(dumps(rings)).mismatched
    assert one.calls == (("all_reduce [[4]]", (0, 1)), ("broadcast [[4]]", (2,)))
    sizes = {0: [held(3, 0, done=False)], 1: [held(3, 0, done=False, shape="[[5]]")]}
    assert standing(dumps(sizes)).mismatched[0].calls == (("all_reduce [[4]]", (0,)), ("all_reduce [[5]]", (1,)))
    other = {0: [held(3, 0, op="gather", shape="[[4]]")], 1: [held(3, 0, op="gather", shape="[[9]]")]}
    assert standing(dumps(other)).mismatched == (), "sizes that may differ"


def test_late_is_who_takes_his_own_time_not_who_was_held_up() -> None:
    """Rank 2 takes 50 ms more before its pair's all-reduce; rank 3, which waits for it there, comes late to the world's."""
    rings: dict[int, list[Held]] = {r: [] for r in range(4)}
    for step in range(6):
        at = 200.0 * step
        for r in range(4):
            rings[r].append(held(step, at + 20 + (50 if r == 2 else 0) + r / 10, group=(str(1 + r // 2), f"tp{r // 2}")))
            rings[r].append(held(step, at + (71 if r > 1 else 21) + r / 10))
    found = standing(dumps(rings))
    (one,) = found.late
    assert (one.rank, one.collectives) == (2, 5), "the first has nothing before it"
    assert 49 * MS < one.mean_ns < 51 * MS
    assert one.at.endswith("of group 2 (tp1)")


@pytest.mark.parametrize(
    "rings", [{}, {0: []}, {0: [Held("0", "", None, "send 0->1", "", None, False)]}, {0: [held(0, 0, done=False)]}]
)
def test_little_says_little(rings: dict[int, list[Held]]) -> None:
    found = standing(dumps(rings))
    assert found.late == found.mismatched == ()


TRUTH = {
    "fsdp2_hang": ((3,), None),
    "fsdp2_sigstop": ((), None),
    "gloo_dead": ((), None),
    "gloo_hang": ((), 3),
    "gloo_ok": ((), None),
    "gloo_straggler": ((), 2),
    "gloo_wrap": ((), None),
    "nccl16_cpu_stall": ((9, 14), None),
    "nccl16_gpu_error": ((12, 14), 12),
}


@pytest.mark.parametrize("name", TRUTH)
def test_recorded_dumps_say_who(shared: Path, name: str) -> None:
    held = read_dumps(find_dumps([shared / "dumps" / name]))
    found = standing(held)
    first, late = TRUTH[name]
    assert found.first == first
    assert (found.late[0].rank if found.late else None) == late
    absent = {rank for gap in held.gaps if gap.what == "ranks without a dump" for rank in gap.ranks}
    assert absent == {"fsdp2_sigstop": {3}, "gloo_dead": {1}}.get(name, set())
