"""What makes two runs one workload, in plain words."""

from __future__ import annotations

from typing import Any

from stepscope.analysis.workload import Workload, differences
from stepscope.model.compare import Difference
from stepscope.model.info import RankInfo, RunInfo, Step
from stepscope.model.spans import ATTRIBUTION
from tests.analysis.build import Rank


def issued(
    ops: dict[str, int] | None = None,
    kernels: int = 0,
    gathers: int = 0,
    size: int = 3_000_000,
    tokens: int | None = None,
    **info: Any,
) -> Workload:
    """Two steps of one rank, each of which issues this."""
    rank = Rank(device_kind="cuda")
    for k in range(2):
        start = k * 1000
        rank.step(start, start + 1000)
        at = start
        for name, count in (ops or {}).items():
            for _ in range(count):
                rank.host(at, at + 1, name=name)
                at += 1
        for _ in range(kernels):
            rank.device(at, at + 1)
        for i in range(gathers):
            rank.collective(start + i, start + i + 1, op="all_gather", bytes=size, group_size=4)
    tables = rank.tables()
    is_op = (tables.spans["kind"] == "op").to_list()
    tables.attribution = tables.attribution.with_columns(phase=_enum(["forward" if op else None for op in is_op]))
    found = Workload(RunInfo(**{"world_size": 4, "ranks": [tables.info], **info}), tokens)
    found.add(tables, tables.info.steps)
    return found


def _enum(words: list[str | None]) -> Any:
    import polars as pl

    return pl.Series("phase", words, dtype=ATTRIBUTION["phase"])


def texts(found: tuple[Difference, ...]) -> list[str]:
    return [str(d) for d in found]


def test_the_same_is_the_same() -> None:
    one = issued({"aten::mm": 8}, kernels=8, gathers=10)
    assert differences(one, issued({"aten::mm": 8}, kernels=8, gathers=10)) == ()


def test_twice_the_collectives() -> None:
    (found,) = differences(issued(gathers=10), issued(gathers=20))
    assert found == Difference("collectives", "the run issues 20 all_gather of 3 MB over 4 ranks a step, the base 10", True)


def test_other_sizes_and_none() -> None:
    assert texts(differences(issued(gathers=10), issued(gathers=10, size=6_000_000))) == [
        "the run issues 10 all_gather of 6 MB over 4 ranks a step, the base none",
        "the run issues none all_gather of 3 MB over 4 ranks a step, the base 10",
    ]


def test_other_operators_decide_and_other_kernels_do_not() -> None:
    base, run = issued({"aten::mm": 8, "aten::add": 2}, kernels=10), issued({"aten::mm": 8, "aten::softmax": 4}, kernels=30)
    found = differences(base, run)
    assert [(d.kind, d.decisive) for d in found] == [("operators", True), ("kernels", False)]
    assert str(found[0]) == (
        "other operators per step, from the base to the run: 10 to 12 in all, most of all aten::softmax (none to 4), "
        "aten::add (2 to none)"
    )


def test_operators_that_operators_call_do_not_count() -> None:
    rank = Rank()
    rank.step(0, 1000)
    rank.host(0, 100, name="aten::linear")
    rank.host(10, 90, name="aten::addmm")
    tables = rank.tables()
    tables.attribution = tables.attribution.with_columns(phase=_enum(["forward", "forward"]))
    found = Workload(RunInfo(ranks=[tables.info]))
    found.add(tables, tables.info.steps)
    assert dict(found.operators) == {"aten::linear": 1}


def test_what_lies_outside_the_steps_does_not_count() -> None:
    rank = Rank()
    rank.host(0, 10, name="aten::before")
    tables = rank.tables()
    tables.attribution = tables.attribution.with_columns(phase=_enum(["forward"]))
    found = Workload(RunInfo(ranks=[tables.info]))
    found.add(tables, [Step(0, 50, 90)])
    found.add(tables, [])
    assert not found.operators


def test_world_tokens_devices_and_missing_traces() -> None:
    assert texts(differences(issued(world_size=4), issued(world_size=8))) == ["the run has 8 ranks, the base 4"]
    (tokens,) = differences(issued(tokens=1024), issued(tokens=2048))
    assert tokens == Difference("tokens", "the run handles 2,048 tokens a step, the base 1,024", True)
    assert differences(issued(tokens=1024), issued()) == ()
    old, new = ([RankInfo(0, "only_file", device_name=name, versions={"torch": v})] for name, v in (("V100", "1"), ("H100", "2")))
    found = differences(issued(ranks=old), issued(ranks=new))
    assert texts(found) == ["the run ran on H100, the base on V100", "the run was made with torch 2, the base with torch 1"]
    assert not any(d.decisive for d in found)
    two = [RankInfo(r, "file_name") for r in range(2)]
    (fewer,) = differences(issued(), issued(ranks=two))
    assert fewer == Difference("ranks", "traces of 2 of the run's ranks are there, of 1 of the base's", False)
    (unknown,) = differences(issued(world_size=None), issued(ranks=two, world_size=None))
    assert unknown.decisive
