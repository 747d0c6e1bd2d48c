"""Files into a Run: whose rank, how many, what contradicts, what is missing; and the Run reads back as it was written."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import stepscope
from stepscope.analysis.attribution import RULES
from stepscope.model.errors import BadInput, OutputRefused
from stepscope.model.run import Run
from stepscope.sources.detect import import_run
from tests.sources.make import BASE, MAIN, device, gpu_step, gpu_trace, host, write


def gaps(run: Run) -> dict[str, str]:
    """Gaps by what is missing."""
    return {g.what: g.why for g in run.info.gaps}


def test_rank_is_taken_from_the_job_itself_before_the_files_name(tmp_path: Path) -> None:
    write(tmp_path / "rank7.json", gpu_trace(rank=2, world_size=4))
    with stepscope.read(tmp_path) as run:
        assert [(i.rank, i.identified_by) for i in run.info.ranks] == [(2, "distributed_info")]
        assert run.info.missing_ranks == [0, 1, 3]
        assert "missing ranks" in gaps(run)


def test_rank_from_collective_metadata_then_name_then_map(tmp_path: Path) -> None:
    own = gpu_trace(rank=None)
    own["traceEvents"].append(host("record_param_comms", BASE + 425, 1, **{"Collective name": "allreduce", "Rank": 5}))
    write(tmp_path / "a.json", own)
    write(tmp_path / "run_rank-3.json", gpu_trace(rank=None))
    write(tmp_path / "other.json", gpu_trace(rank=None))
    with stepscope.read(tmp_path, rank_map={"other.json": 1, "a.json": 9}) as run:
        found = {i.rank: i.identified_by for i in run.info.ranks}
    assert found == {1: "rank_map", 3: "file_name", 5: "collective_metadata"}


def test_several_files_without_a_rank_need_a_map(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        write(tmp_path / name, gpu_trace(rank=None))
    with pytest.raises(BadInput, match=r"a\.json, b\.json: nothing says which rank.*--rank-map"):
        stepscope.read(tmp_path)
    with stepscope.read(tmp_path / "a.json") as run:
        assert [(i.rank, i.identified_by) for i in run.info.ranks] == [(0, "only_file")]


def test_two_files_of_one_rank_over_one_time_are_refused_naming_both(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        write(tmp_path / name, gpu_trace(rank=0))
    with pytest.raises(BadInput, match=r"rank 0: claimed by both .*a\.json and .*b\.json"):
        stepscope.read(tmp_path)


def test_two_windows_of_one_rank_are_one_rank(tmp_path: Path) -> None:
    write(tmp_path / "a.json", gpu_trace(rank=0))
    later = gpu_trace(rank=0)
    later["traceEvents"] = gpu_step(9, BASE + 50_000, 7000)
    write(tmp_path / "b.json", later)
    with stepscope.read(tmp_path) as run:
        info = run.info.ranks[0]
        assert [s.step for s in info.steps] == [1, 2, 9]
        assert len(info.windows) == 2
        tables = run.tables(0)
        assert tables.spans["id"].to_list() == list(range(60))
        assert tables.collectives["id"].to_list() == [0, 1, 2]
        names = tables.spans["name"]
        assert [names[s] for s in tables.collectives["span"].to_list()] == [
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
        ] * 3
        parts = stepscope.breakdown(run).steps
        assert [p.duration_ns for p in parts] == [1_000_000] * 3
        assert parts[0].parts_ns == parts[2].parts_ns


@pytest.mark.parametrize("label", ["args.rank", "process text", "process name"])
def test_a_merged_file_is_taken_apart(tmp_path: Path, label: str) -> None:
    events: list[dict[str, Any]] = []
    for rank in (0, 3):
        for event in gpu_step(1, BASE, 1000 * (rank + 1)):
            pid: Any = event["pid"] + 10_000 * (rank + 1)
            if label == "args.rank":
                event["args"]["rank"] = rank
            elif label == "process text":
                pid = f"rank{rank}_pid{event['pid']}"
            events.append({**event, "pid": pid})
            if label == "process name":
                events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": f"RANK {rank} - x"}})
    write(tmp_path / "merged.json", {"traceEvents": events})
    with stepscope.read(tmp_path) as run:
        assert [(i.rank, i.identified_by) for i in run.info.ranks] == [(0, "merged_file"), (3, "merged_file")]
        steps = stepscope.breakdown(run).steps
    assert steps[0].parts_ns == steps[1].parts_ns


def test_a_merged_file_that_names_no_ranks_is_refused(tmp_path: Path) -> None:
    events = [{**e, "pid": e["pid"] + p} for p in (0, 5000) for e in gpu_step(1, BASE, 1000)]
    with pytest.raises(BadInput, match="2 training processes in one file"):
        stepscope.read(write(tmp_path / "m.json", {"traceEvents": events}))


def test_a_rank_whose_file_is_broken_is_a_gap_and_the_others_are_read(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", gpu_trace(0, 2))
    write(tmp_path / "rank1.json", b'{"traceEvents": []}')
    (tmp_path / "rank2.json").touch()
    with stepscope.read(tmp_path) as run:
        assert run.ranks == [0]
        assert run.info.missing_ranks == [1]
        assert "file not read" in gaps(run)


def test_an_execution_trace_beside_the_traces_is_left_aside(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", gpu_trace(0, 1))
    write(tmp_path / "et_rank0.json", {"schema": "1.1.1-chakra.0.0.4", "pid": 7, "nodes": []})
    with stepscope.read(tmp_path) as run:
        assert "execution trace" in gaps(run)["file not read"]


def test_order_of_files_and_a_shift_of_time_change_nothing(tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path / "a" / f"rank{rank}.json", gpu_trace(rank, 3))
        write(tmp_path / "b" / f"rank{2 - rank}-z.json", gpu_trace(2 - rank, 3, start=BASE + 123_456_789))
    with stepscope.read(*sorted((tmp_path / "a").iterdir(), reverse=True)) as one, stepscope.read(tmp_path / "b") as two:
        assert stepscope.breakdown(one).steps == stepscope.breakdown(two).steps


def test_processes_give_what_one_process_gives(tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path / f"rank{rank}.json", gpu_trace(rank, 3))
    write(tmp_path / "rank3.json", b"{}")
    with stepscope.read(tmp_path, jobs=1) as one, stepscope.read(tmp_path, jobs=3) as three:
        assert one.info.gaps == three.info.gaps
        for rank in one.ranks:
            assert one.tables(rank).spans.equals(three.tables(rank).spans)
            assert one.tables(rank).attribution.equals(three.tables(rank).attribution)


def test_a_run_reads_back_as_it_was_written(tmp_path: Path) -> None:
    write(tmp_path / "t" / "rank0.json", gpu_trace(0, 1))
    made = import_run([tmp_path / "t"], tmp_path / "x.run", rules=RULES)
    again = stepscope.read(tmp_path / "x.run")
    assert again.info == made.info
    with stepscope.read(tmp_path / "t") as fresh:
        for table in ("spans", "edges", "attribution", "collectives", "signals"):
            assert getattr(fresh.tables(0), table).equals(getattr(again.tables(0), table))
    plain = pl.read_parquet(tmp_path / "x.run" / "spans" / "rank-0.parquet")
    assert plain["start_ns"].dtype == pl.Int64
    with pytest.raises(OutputRefused, match="exists already"):
        import_run([tmp_path / "t"], tmp_path / "x.run", rules=RULES)
    import_run([tmp_path / "t"], tmp_path / "x.run", rules=RULES, force=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t", "x.run"]


def test_a_folder_that_is_no_run_is_never_replaced(tmp_path: Path) -> None:
    source = write(tmp_path / "t" / "rank0.json", gpu_trace(0, 1))
    with pytest.raises(OutputRefused, match="not a run"):
        import_run([source], tmp_path / "t", rules=RULES, force=True)
    assert source.exists()


def test_a_run_from_a_stranger_is_not_trusted(tmp_path: Path) -> None:
    write(tmp_path / "t" / "rank0.json", gpu_trace(0, 1))
    run = tmp_path / "x.run"
    import_run([tmp_path / "t"], run, rules=RULES)
    spans = run / "spans" / "rank-0.parquet"
    moved = spans.rename(tmp_path / "elsewhere.parquet")
    spans.symlink_to(moved)
    with pytest.raises(BadInput, match="is a link"):
        stepscope.read(run).tables(0)
    spans.unlink()
    spans.write_bytes(b"PAR1 nonsense")
    with pytest.raises(BadInput, match="not a table of a run"):
        stepscope.read(run).tables(0)
    info = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**info, "schema": "run/9"}))
    with pytest.raises(BadInput, match="schema 'run/9'"):
        stepscope.read(run)
    (run / "run.json").write_text("{")
    with pytest.raises(BadInput, match="damaged"):
        stepscope.read(run)


IMPOSSIBLE = {
    "drift": {"clock": {"hosts": {"h": {"drift_ppm": -1e6}}}},
    "offset": {"clock": {"hosts": {"h": {"offset_ns": 10**18 * 9}}}},
    "world": {"world_size": 10**12},
    "no world": {"world_size": -4},
    "rank": {"ranks": [{"rank": -1, "identified_by": "x"}]},
    "twice": {"ranks": [{"rank": 1, "identified_by": "x"}, {"rank": 1, "identified_by": "x"}]},
    "step": {"ranks": [{"rank": 0, "identified_by": "x", "steps": [{"step": 1, "start_ns": 0, "end_ns": 2**63 - 1}]}]},
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_a_description_that_no_run_can_have_is_refused(tmp_path: Path, case: str) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"schema": "run/1", **IMPOSSIBLE[case]}))
    with pytest.raises(BadInput, match="which no run can"):
        stepscope.read(tmp_path)


def test_odd_tables_of_a_stranger_end_in_a_figure_or_a_line(tmp_path: Path) -> None:
    write(tmp_path / "t" / "rank0.json", gpu_trace(0, 1))
    run = tmp_path / "x.run"
    import_run([tmp_path / "t"], run, rules=RULES)
    table = run / "collectives.parquet"
    rows = pl.read_parquet(table)
    for column in ("rank", "id", "arrive_ns", "end_ns", "span", "match", "expected"):
        rows.with_columns(pl.lit(None, dtype=rows.schema[column]).alias(column)).write_parquet(table)
        assert stepscope.breakdown(stepscope.read(run)).steps
    rows.write_parquet(table)
    spans = run / "spans" / "rank-0.parquet"
    good = pl.read_parquet(spans)
    for parent in (pl.col("id"), pl.col("id").reverse(), pl.lit(-5), pl.lit(10**9)):
        good.with_columns(parent=parent).write_parquet(spans)
        assert stepscope.breakdown(stepscope.read(run)).steps
    pl.select(id=pl.int_range(3_000_000, dtype=pl.Int64) * 0).write_parquet(spans)
    with pytest.raises(BadInput, match="more than a run's table can hold"):
        stepscope.read(run).tables(0)


def test_one_graph_launch_owns_all_its_kernels(tmp_path: Path) -> None:
    document = gpu_trace(0, 1, steps=1)
    graph = [host("cudaGraphLaunch", BASE + 210, 5, "cuda_runtime", correlation=77)]
    graph += [device(f"graph_kernel_{i}", 77, BASE + 300 + 3 * i, 2) for i in range(5)]
    document["traceEvents"] += graph
    with stepscope.read(write(tmp_path / "a.json", document)) as run:
        tables = run.tables(0)
        row = tables.spans.filter(pl.col("name") == "cudaGraphLaunch")["id"][0]
        kernels = tables.edges.filter((pl.col("source") == row) & (pl.col("kind") == "launch"))["target"].to_list()
        assert [tables.spans["name"][k] for k in kernels] == [f"graph_kernel_{i}" for i in range(5)]
        assert set(tables.attribution["phase"].gather(kernels).to_list()) == {"forward"}


def test_external_id_links_where_correlation_is_absent_and_says_so(tmp_path: Path) -> None:
    document = gpu_trace(0, 1, steps=1)
    for event in document["traceEvents"]:
        event["args"].pop("correlation", None)
        if event["name"] == "gemm":
            event["args"]["External id"] = 1050
    with stepscope.read(write(tmp_path / "a.json", document)) as run:
        assert run.info.ranks[0].recorded["correlation"] is False
        tables = run.tables(0)
        row = tables.spans.filter(pl.col("name") == "gemm")["id"][0]
        assert tables.attribution["phase"][row] == "forward"
        assert "kernels without a launch" in gaps(run)


def test_counts_and_streams_beyond_int64_are_left_out_of_the_tables(tmp_path: Path) -> None:
    document = gpu_trace(0, 1, steps=1)
    for event in document["traceEvents"]:
        if event["name"].startswith("ncclDevKernel"):
            event["args"] |= {"In msg nelems": 1 << 62, "dtype": "Float", "Group size": 1 << 70}
        if event["name"] == "nccl:all_reduce":
            event["args"]["Input Dims"] = [[1 << 40, 1 << 40]]
    wait = device("Stream Wait Event", 0, BASE + 600, 5, cat="cuda_sync", wait_on_stream=1 << 70)
    document["traceEvents"].append(wait)
    with stepscope.read(write(tmp_path / "rank0.json", document)) as run:
        row = run.tables(0).collectives.row(0, named=True)
        assert (row["op"], row["bytes"], row["group_size"]) == ("all_reduce", None, None)
        assert "wait" not in run.tables(0).edges["kind"].to_list()


def test_calls_of_a_cpu_backend_are_paired_in_order_past_those_that_never_ended(tmp_path: Path) -> None:
    count = 10_000
    lost = [host("c10d::allgather_", BASE + i, 1) for i in range(count)]  # the window was cut before their workers' events
    calls = [host("c10d::allreduce_", BASE + count + i, 1) for i in range(count)]
    workers = [host("gloo:all_reduce", BASE + 2 * count + i, 1, "user_annotation", tid=MAIN + 5) for i in range(count)]
    barrier = [host("c10d::barrier", BASE + 4 * count, 1), host("gloo:all_reduce", BASE + 4 * count + 5, 1, tid=MAIN + 5)]
    document = {"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": lost + calls + workers + barrier}
    with stepscope.read(write(tmp_path / "rank0.json", document)) as run:
        found = run.tables(0).collectives.select("op", us=(pl.col("end_ns") - pl.col("arrive_ns")) // 1000)
    assert found.rows() == [("all_gather", 1)] * count + [("all_reduce", count + 1)] * count + [("barrier", 6)]


def test_brackets_in_the_output_are_a_name_and_no_pattern(tmp_path: Path) -> None:
    made = write(tmp_path / "rank0.json", gpu_trace(0, 1, steps=1))
    with import_run([made], tmp_path / "lr[1e-3].run", rules=RULES) as run:
        assert run.ranks == [0]


def test_a_pipe_is_refused_in_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rank0.json")
    with pytest.raises(BadInput, match="is a device or a pipe"):
        stepscope.read(tmp_path / "rank0.json")


def test_correlation_ids_past_int64_still_link(tmp_path: Path) -> None:
    document = gpu_trace(0, 1, steps=1)
    for event in document["traceEvents"]:
        if "correlation" in event["args"]:
            event["args"]["correlation"] += 1 << 63
    with stepscope.read(write(tmp_path / "rank0.json", document)) as run:
        assert run.tables(0).edges.filter(pl.col("kind") == "launch").height == 5


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are UTF-8 there")
@pytest.mark.parametrize("jobs", [1, 2])
def test_file_names_may_be_any_bytes(tmp_path: Path, jobs: int) -> None:
    for rank in (0, 1):
        write(tmp_path / f"rank{rank}.json", gpu_trace(rank, 2)).rename(tmp_path / os.fsdecode(b"rank%d-\xff\xfe.json" % rank))
    out = tmp_path / "a.run"
    info = import_run([tmp_path], out, rules=RULES, jobs=jobs).info
    assert [r.files for r in info.ranks] == [["rank0-??.json"], ["rank1-??.json"]]
    with stepscope.read(out) as run:
        assert run.ranks == [0, 1]


def test_times_that_no_run_can_hold_leave_no_run_behind(tmp_path: Path) -> None:
    document = gpu_trace(0, 1, start=4.7e15)
    out = tmp_path / "a.run"
    with pytest.raises(BadInput, match="a time beyond 146 years"):
        import_run([write(tmp_path / "rank0.json", document)], out, rules=RULES)
    assert not out.exists()


def test_a_run_that_somebody_else_made_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    from stepscope.model.store import Staging

    out = tmp_path / "a.run"
    with Staging(out) as stage:
        out.mkdir()
        (out / "run.json").write_text("theirs")
        with pytest.raises(OutputRefused, match="somebody else made it meanwhile"):
            stage.commit()
    assert (out / "run.json").read_text() == "theirs"
    assert [p.name for p in tmp_path.iterdir()] == ["a.run"]
