"""The life of a step: exposed time that adds up to the breakdown's, bytes by hand, and what a run does not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import stepscope
from stepscope.analysis.hops import hops
from stepscope.analysis.routes import NO_NICS, NO_PLACES, NO_SIZE, ONE_EACH, ONE_NODE
from stepscope.model.errors import BadInput, UsageMistake
from stepscope.model.hops import ORDER, WAYS, Hop, Hops
from stepscope.model.info import Group
from stepscope.model.place import Place
from stepscope.model.run import Run
from stepscope.model.spans import RankTables
from stepscope.model.words import COMM_PARTS, LAYERS
from tests.analysis.build import LOOP, Rank, run_of
from tests.sources.make import gpu_trace, write

SIZE = 1600
CLUSTER = {"name": "made", "nodes": 2, "gpus_per_node": 2, "nics_per_node": 2}
UNITS = ("layers.0", "layers.1", "layers.2", "root")


def fsdp_rank(rank: int = 0, late: int = 0) -> Rank:
    """One step of 1,000 ns: per unit a gather, a kernel that hides 10 ns of the next gather, a gather again, a reduce-scatter.

    Each gather lasts 40 ns from its arrival (later by `late`), each reduce-scatter 30. Of unit k: gather at 100 k, forward
    kernel from 100 k + 40 to 100 k + 90.
    """
    made = Rank(rank, device_kind="cuda", main_thread=LOOP)
    made.step(0, 1000)
    made.windows.append((0, 1000))
    made.host(0, 5, "input_wait", name="loader", kind="annotation")
    made.spans[-1] |= {"phase": "input", "bytes": 64}
    for pass_, at, op, length in (("forward", 0, "all_gather", 40), ("backward", 400, "all_gather", 40)):
        for k, unit in enumerate(UNITS[:3]):
            start = at + 10 + 100 * k
            add(made, start + late, start + length, op, unit, pass_)
            made.device(start + 40, start + 80, pass_, stream=7)
            made.spans[-1] |= {"phase": pass_, "unit": unit, "pass": pass_, "flops": 7}
    for k, unit in enumerate(UNITS[:3]):
        add(made, 480 + 100 * k, 510 + 100 * k, "reduce_scatter", unit, "backward", stream=21)
    add(made, 900, 920, "all_reduce", None, None)
    made.device(930, 950, "optimizer")
    made.spans[-1] |= {"phase": "optimizer"}
    return made


def add(made: Rank, start: int, end: int, op: str, unit: str | None, pass_: str | None, stream: int = 20) -> None:
    """A collective kernel and its row."""
    span = made.device(start, end, "comm_unsplit", kind="collective", stream=stream)
    made.spans[-1] |= {"phase": "synchronization", "unit": unit, "pass": pass_}
    more: dict[str, Any] = {"unit": unit, "pass": pass_, "bytes": SIZE, "expected": 4, "group_size": 4}
    made.collective(start, end, span=span, stream=stream, op=op, match=len(made.collectives), **more)


def job(late: tuple[int, ...] = (0, 10, 20, 30), ranks: int | None = None, **info: Any) -> Run:
    """Ranks of which the last arrives 10 ns before the end of every gather."""
    return run_of(*(fsdp_rank(r, late[r]) for r in range(ranks or len(late))), world_size=4, **info)


def of(found: Hops, n: int, pass_: str | None = None) -> Hop:
    """The row of that number; `pass_` tells the two gathers apart."""
    (row,) = [h for h in found.hops if h.n == n and (pass_ is None or h.pass_ == pass_)]
    return row


def exposed_of(run: Run, rank: int, step: int) -> int:
    """The breakdown's exposed communication."""
    (parts,) = [s.parts_ns for s in stepscope.breakdown(run).steps if (s.rank, s.step) == (rank, step)]
    return sum(parts[part] for part in COMM_PARTS)


def test_the_rows_are_those_of_the_life_of_a_step() -> None:
    found = hops(job())
    assert tuple(h.n for h in found.hops) == ORDER
    assert len(found.hops) == 24
    assert [h.way.layer for h in found.hops[:9]] == ["S", "L2/L3", "L5", "L8", "L6", "L6", "L7", "L4", "L9"]
    assert [WAYS[n].layer for n in range(10, 20)] == ["L1", "L4", "L5", "L8", "L6", "L6", "L7", "L1", "L9", "S"]
    assert {way.layer for way in WAYS.values()} <= set(LAYERS)
    assert [h.pass_ for h in found.hops if h.n == 3] == ["forward", "backward"]


def test_one_unit_by_hand() -> None:
    found = hops(job(), rank=1)
    assert (found.step, found.unit, found.units) == (0, "layers.1", ("layers.0", "layers.1", "layers.2"))
    gather = of(found, 3, "forward")
    assert (gather.what, gather.count, gather.bytes, gather.unit) == ("all-gather", 1, SIZE, "layers.1")
    assert (gather.start_ns, gather.end_ns, gather.busy_ns) == (120, 150, 30)  # it came 10 ns after rank 0
    assert gather.exposed_ns == 30
    assert gather.bytes_per_s == SIZE * 1e9 / 10  # the last rank was there 10 ns before the end
    again, reduce = of(found, 3, "backward"), of(found, 12)
    assert (again.start_ns, again.exposed_ns) == (520, 30)
    assert (reduce.start_ns, reduce.busy_ns) == (580, 30)
    assert reduce.exposed_ns == 20  # 580 to 590 lies behind the kernel of backward, 550 to 590
    kernels = of(found, 8)
    assert (kernels.unit, kernels.start_ns, kernels.busy_ns, kernels.flops) == ("layers.1", 150, 40, 7)
    assert (of(found, 11).start_ns, of(found, 18).busy_ns, of(found, 18).unit) == (550, 20, None)
    assert (found.communication_ns, found.hidden_ns, found.exposed_ns) == (90, 10, 80)


def test_the_whole_step_adds_up_to_the_breakdown_with_root_and_other_collectives() -> None:
    run = job()
    for rank in run.ranks:
        found = hops(run, rank=rank, whole_step=True)
        assert found.unit is None
        assert found.exposed_ns == found.breakdown_exposed_ns == exposed_of(run, rank, 0)
        assert sum(h.exposed_ns or 0 for h in found.hops) == found.exposed_ns
        assert all(h.exposed_ns is None for h in found.hops if h.n not in (3, 12))
    assert of(found, 12).bytes == 4 * SIZE
    assert of(found, 12).what == "3 x reduce-scatter, all-reduce"
    assert [(o.op, o.count) for o in of(found, 12).operations] == [("reduce_scatter", 3), ("all_reduce", 1)]
    assert of(found, 3, "forward").bytes == 3 * SIZE


def test_units_add_up_to_the_step_less_what_has_no_unit() -> None:
    run = job()
    whole = hops(run, whole_step=True)
    units = [hops(run, unit=unit) for unit in whole.units]
    no_unit = 20  # the all-reduce at 900
    assert sum(u.exposed_ns for u in units) + no_unit == whole.exposed_ns


def test_overlapping_collectives_are_not_counted_twice() -> None:
    run = run_of(rank := fsdp_rank(), world_size=1)
    before = hops(run, whole_step=True).exposed_ns
    add(rank, 905, 925, "reduce_scatter", "layers.0", "backward", stream=21)  # 15 ns of it beside the all-reduce
    found = hops(run_of(rank, world_size=1), whole_step=True)
    assert found.exposed_ns == before + 5
    assert [(o.op, o.exposed_ns) for o in of(found, 12).operations] == [("reduce_scatter", 75 - 10), ("all_reduce", 20)]
    one = hops(run_of(rank, world_size=1), unit="layers.0")
    assert (of(one, 12).exposed_ns, one.breakdown_exposed_ns) == (20 + 5, before + 5)


def test_a_collective_that_runs_into_the_next_step_exposes_in_both() -> None:
    made = fsdp_rank()
    made.step(1000, 1100)
    add(made, 990, 1030, "reduce_scatter", "layers.1", "backward")
    run = run_of(made, world_size=1)
    first, second = hops(run, step=0, whole_step=True), hops(run, step=1, whole_step=True)
    assert (first.exposed_ns, second.exposed_ns) == (exposed_of(run, 0, 0), exposed_of(run, 0, 1))
    assert second.exposed_ns == 30
    assert of(hops(run, step=0, unit="layers.1"), 12).exposed_ns == 20 + 10
    assert of(hops(run, step=1, unit="layers.1"), 12).exposed_ns == 30
    rest = of(second, 12)
    assert (rest.count, rest.bytes, rest.start_ns) == (0, None, None)
    assert rest.why is not None


def placed(run: Run, nodes: str = "aabb", nics: tuple[str | None, ...] = ("n0", "n1", "n0", "n1")) -> Run:
    """The ranks of the run put on nodes, a letter each."""
    for info in run.info.ranks:
        info.place = Place(nodes[info.rank], None, nics[info.rank])
    return run


def sizes(found: Hops) -> list[int | None]:
    return [of(found, n, "forward").bytes for n in (4, 5, 6, 7)]


def test_bytes_of_a_ring_over_two_nodes() -> None:
    found = hops(placed(job()))
    assert sizes(found) == [1200, 600, 600, 600]  # 3/4 of 1,600 in the node; the same out of it, over two NICs
    assert [of(found, n).bytes for n in (13, 14, 15, 16)] == [1200, 600, 600, 600]
    part = of(found, 5, "forward")
    assert (part.known, part.start_ns, part.end_ns, part.busy_ns) == ("derived", 140, 150, 10)  # the transfer's window
    assert part.bytes_per_s == 600e9 / 10
    assert part.exposed_ns is None
    assert any("pipeline" in note for note in found.notes)


def test_the_cluster_says_where_ranks_sit_that_have_no_place() -> None:
    assert sizes(hops(job(cluster=CLUSTER))) == [1200, 600, 600, 600]
    assert sizes(hops(job(cluster=CLUSTER | {"nics_per_node": 1}))) == [1200, 1200, 1200, 1200]
    assert sizes(hops(job(cluster=CLUSTER | {"gpus_per_node": 4}))) == [1200, 0, 0, 0]


def test_an_all_reduce_moves_twice_as_much() -> None:
    run = placed(job())
    whole = of(hops(run, whole_step=True), 13)
    assert whole.bytes == 3 * 1200 + 2400


def test_one_node_has_no_hops_between_nodes() -> None:
    found = hops(placed(job(), "aaaa"))
    assert sizes(found) == [1200, 0, 0, 0]
    assert [of(found, n, "forward").why for n in (4, 5, 6, 7)] == [None, ONE_NODE, ONE_NODE, ONE_NODE]
    assert of(found, 5, "forward").start_ns is None


def test_one_rank_a_node_has_no_hop_inside() -> None:
    found = hops(placed(job(), "abcd"))
    assert sizes(found) == [0, 1200, 1200, 1200]
    assert of(found, 4, "forward").why == ONE_EACH


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (job(), NO_PLACES),
        (placed(job(), nics=(None,) * 4), NO_NICS),
        (job(cluster={"gpus_per_node": "many"}), NO_PLACES),
        (job(cluster={"gpus_per_node": 0, "nics_per_node": -1}), NO_PLACES),
    ],
)
def test_what_is_not_known_is_null_and_says_why(run: Run, why: str) -> None:
    hop = of(hops(run), 5, "forward")
    assert (hop.known, hop.why, hop.bytes, hop.start_ns, hop.bytes_per_s) == ("unknown", why, None, None, None)


def test_groups_of_the_run_win_over_the_world() -> None:
    pairs = [Group("pair", "fsdp", (0, 1)), Group("other", "fsdp", (2, 3))]
    run = placed(job(groups=pairs))
    for tables in (run.tables(r) for r in run.ranks):
        name = "pair" if tables.info.rank < 2 else "other"
        tables.collectives = tables.collectives.with_columns(group=pl.lit(name))
    found = hops(run)
    assert sizes(found) == [800, 0, 0, 0]
    assert of(found, 3, "forward").operations[0].axis == "fsdp"


def test_a_missing_peer_leaves_the_transfer_open() -> None:
    found = hops(placed(run_of(*(fsdp_rank(r) for r in range(3)), world_size=4, cluster=CLUSTER)))
    gather, inside = of(found, 3, "forward"), of(found, 4, "forward")
    assert (gather.bytes_per_s, gather.busy_ns, gather.exposed_ns) == (None, 40, 40)
    assert (inside.bytes, inside.start_ns, inside.known) == (1200, None, "derived")
    assert "peers" in (inside.why or "")


def test_a_size_that_was_not_recorded() -> None:
    made = fsdp_rank()
    for row in made.collectives:
        row["bytes"] = None
    found = hops(run_of(made, world_size=4))
    assert (of(found, 3, "forward").why, of(found, 3, "forward").bytes) == (NO_SIZE, None)


def test_batch_and_save() -> None:
    made = fsdp_rank()
    found = hops(run_of(made))
    batch, save = of(found, 1), of(found, 19)
    assert (batch.bytes, batch.busy_ns, batch.stalled_ns, batch.bytes_per_s) == (64, 5, 5, 64e9 / 5)
    assert (save.start_ns, save.known) == (None, "unknown")
    assert (save.why or "").startswith("no save in this step")
    made.host(960, 990, "checkpoint", name="save", kind="python")
    made.spans[-1] |= {"phase": "checkpoint", "bytes": 300}
    save = of(hops(run_of(made)), 19)
    assert (save.bytes, save.start_ns, save.stalled_ns, save.bytes_per_s) == (300, 960, 30, 300e9 / 30)


def test_a_run_without_units_is_told_whole() -> None:
    made = fsdp_rank()
    for row in (*made.collectives, *made.spans):
        row["unit"] = None
    found = hops(run_of(made))
    assert (found.unit, found.units) == (None, ())
    assert found.exposed_ns == found.breakdown_exposed_ns
    assert any("no units" in note for note in found.notes)


def test_what_is_not_there_is_refused_with_what_is() -> None:
    run = job()
    with pytest.raises(UsageMistake, match=r"^no rank 9 in this run; it has 0 to 3$"):
        hops(run, rank=9)
    with pytest.raises(UsageMistake, match=r"^no step 7 on rank 0; it has 0$"):
        hops(run, step=7)
    with pytest.raises(UsageMistake, match=r"^no unit layers.9 in step 0 of rank 0; it has layers.0, layers.1, layers.2$"):
        hops(run, unit="layers.9")
    with pytest.raises(UsageMistake, match="whole-step"):
        hops(run, unit="layers.0", whole_step=True)
    with pytest.raises(BadInput, match="recorded no step"):
        hops(run_of(Rank(0)))


def test_a_cut_last_step_is_not_the_default() -> None:
    made = fsdp_rank()
    made.step(1000, 1100, complete=False)
    assert hops(run_of(made)).step == 0
    cut = hops(run_of(made), step=1)
    assert (cut.step, cut.complete) == (1, False)
    assert "the recording cuts this step" in cut.notes


class Counting:
    """A run that counts whose tables were read."""

    def __init__(self, run: Run) -> None:
        self.run, self.read = run, list[int]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.run, name)

    def tables(self, rank: int, columns: Any = None) -> RankTables:
        self.read.append(rank)
        assert columns is not None
        assert "name" not in columns
        return self.run.tables(rank, columns)


def test_only_one_rank_is_read() -> None:
    run = Counting(job())
    hops(run, rank=2)  # type: ignore[arg-type]
    assert run.read == [2]


def test_a_made_trace_of_data_parallel_training(tmp_path: Path) -> None:
    with stepscope.read(write(tmp_path / "rank0.json", gpu_trace())) as run:
        found = stepscope.hops(run)
        assert (found.step, found.unit) == (2, "bucket 0")
        assert of(found, 3, "forward").why == "nothing is gathered before forward"
        reduce = of(found, 12)
        assert (reduce.what, reduce.bytes, reduce.busy_ns, reduce.exposed_ns) == ("all-reduce", 1024, 150_000, 100_000)
        assert (of(found, 1).bytes, of(found, 1).stalled_ns) == (4096, 140_000)
        assert of(found, 17).busy_ns == 60_000
        assert stepscope.hops(run, whole_step=True).exposed_ns == exposed_of(run, 0, 2)


JOBS = ("gloo-fsdp2-4rank", "dlrm-8rank-v100", "hta-2of128", "hta-ddp-a100-control", "hta-cpu_only_full", "hta-df_index_resolver",
        "hta-nccl_parser_config", "hta-rank_unavailable", "resnet50-loader-4workers", "mi300x-resnet-rccl")  # fmt: skip


@pytest.mark.parametrize("name", JOBS)
def test_exposed_time_of_recorded_jobs_is_the_breakdowns(shared: Path, name: str) -> None:
    with stepscope.read(shared / "traces" / name) as run:
        for step in stepscope.breakdown(run).steps:
            found = hops(run, step=step.step, rank=step.rank, whole_step=True)
            assert found.exposed_ns == sum(step.parts_ns[part] for part in COMM_PARTS)
            one = hops(run, step=step.step, rank=step.rank)
            assert one.exposed_ns <= found.exposed_ns
            assert all(h.bytes is None or h.bytes >= 0 for h in one.hops)


def test_a_recorded_fsdp_job_by_its_sizes(shared: Path) -> None:
    found = hops(stepscope.read(shared / "traces" / "gloo-fsdp2-4rank"))
    assert found.unit == "layers.3"
    for n, pass_ in ((3, "forward"), (3, "backward"), (12, None)):
        assert of(found, n, pass_).bytes == 791_040
    assert of(found, 4, "forward").bytes == 791_040 * 3 // 4
    assert of(found, 5, "forward").bytes == 0
