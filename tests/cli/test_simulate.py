"""`stepscope simulate` end to end: figures, a Run that the other verbs read, sweeps, the walk to what fits, what is refused."""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path

import pytest

import stepscope
from stepscope.model.words import LAYERS, PARTS
from tests.cli.conftest import Call

SMALL = ("gpt-125m", "--system", "hgx-h100", "--plan")
REFERENCE = ("llama3-8b", "--system", "hgx-h100", "--plan", "fsdp=16,mbs=1,seq=2048")
NIC = "interconnect.nic_cross_socket@node1/gpu3"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The reference, healthy and with one NIC on the wrong socket, as Runs."""
    from stepscope.cli import main

    folder = tmp_path_factory.mktemp("simulated")
    found = {"ok": folder / "ok.run", "bad": folder / "bad.run"}
    assert main(["simulate", *REFERENCE, "--steps", "2", "-o", str(found["ok"]), "-q"]) == 0
    assert main(["simulate", *REFERENCE, "--steps", "2", "--fault", NIC, "-o", str(found["bad"]), "-q"]) == 0
    return found


def digest(run: Path) -> str:
    """All bytes of a run."""
    whole = hashlib.sha256()
    for path in sorted(p for p in run.rglob("*") if p.is_file()):
        whole.update(path.relative_to(run).as_posix().encode() + path.read_bytes())
    return whole.hexdigest()


def test_the_document_has_the_keys_of_the_contract(call: Call) -> None:
    found = call("simulate", *SMALL, "fsdp=8,seq=1024", "--format", "json").json
    assert found["schema"] == "simulate/1"
    assert sum(found["predicted_parts"].values()) == pytest.approx(found["step_s"], abs=1e-12)
    assert set(found["predicted_parts"]) == set(PARTS)
    exposed = sum(found["predicted_parts"][part] for part in PARTS if part.startswith("comm_"))
    assert found["exposed_s"] == pytest.approx(exposed, abs=1e-12)
    assert found["tokens_per_s_per_gpu"] == pytest.approx(1024 / found["step_s"], rel=1e-9)
    assert set(found["mfu"]) == {"palm", "torchtitan", "megatron", "llm-foundry"}
    assert found["fits"] is True
    assert len(found["steps_s"]) == 4


def test_the_screen_says_that_it_is_simulated_and_where_the_step_goes(call: Call) -> None:
    ending = call("simulate", *SMALL, "fsdp=8,seq=1024")
    assert ending.code == 0
    assert ending.out.startswith("Simulated: these figures follow from a model of the cluster and say nothing about")
    assert "Where the step goes" in ending.out
    assert "MFU by convention" in ending.out


def test_one_nic_holds_back_all_sixteen_ranks(call: Call, runs: dict[str, Path]) -> None:
    steps = {name: call("breakdown", run, "--format", "json").json["steps"] for name, run in runs.items()}
    last = {name: [s["duration_s"] for s in found if s["step"] == 1] for name, found in steps.items()}
    assert len(last["ok"]) == len(last["bad"]) == 16
    assert min(last["bad"]) > 1.3 * max(last["ok"])
    assert max(last["bad"]) - min(last["bad"]) < 0.05 * max(last["bad"])


@pytest.mark.parametrize(("plan", "share"), [("fsdp=8,seq=1024,mbs=8", 0.005), ("fsdp=8,seq=1024", 0.03)])
def test_the_breakdown_of_the_run_is_what_simulate_said(call: Call, tmp_path: Path, plan: str, share: float) -> None:
    """Where the host is the bottleneck, the figures of whole units do not tell a launch's latency (idle) from its lateness."""
    out = tmp_path / "a.run"
    said = call("simulate", *SMALL, plan, "-o", out, "--format", "json").json
    steps = call("breakdown", out, "--format", "json").json["steps"]
    for part in said["predicted_parts"]:
        if part == "idle":
            continue
        wanted = ("host_bound", "idle") if part == "host_bound" else (part,)
        seconds = sum(said["predicted_parts"][p] for p in wanted)
        mean = sum(s["parts"][p] for s in steps for p in wanted) / len(steps)
        assert mean == pytest.approx(seconds, abs=share * said["step_s"])
    assert all(sum(s["parts_ns"].values()) == s["duration_ns"] for s in steps)


def test_hops_of_the_reference_have_all_nine_layers_and_the_breakdowns_exposed_time(call: Call, runs: dict[str, Path]) -> None:
    for run in runs.values():
        found = call("hops", run, "--whole-step", "--format", "json").json
        assert {hop["layer"] for hop in found["hops"]} == set(LAYERS)
        assert found["exposed_s"] == pytest.approx(found["breakdown_exposed_s"], rel=0.01)
        assert sum(h["exposed_s"] or 0 for h in found["hops"]) == pytest.approx(found["breakdown_exposed_s"], rel=0.01)


def test_a_fault_stands_beside_the_healthy_job(call: Call) -> None:
    words = ("simulate", *REFERENCE, "--steps", "2", "--fault", NIC)
    found = call(*words, "--format", "json").json
    assert found["slowdown"] == pytest.approx(found["step_s"] / found["healthy"]["step_s"], rel=1e-9)
    assert found["slowdown"] > 1.3
    assert "Where the step goes, healthy and weak" in call(*words).out


def test_compare_names_the_communication(call: Call, runs: dict[str, Path]) -> None:
    found = call("compare", runs["ok"], runs["bad"], "--format", "json").json
    assert found["same_workload"] is True
    grown = {p["part"]: p["delta_s"] for p in found["parts"]}
    assert grown["comm_transfer"] > 0


def test_the_run_says_what_an_inventory_would_and_nothing_of_the_fault(runs: dict[str, Path]) -> None:
    text = (runs["bad"] / "run.json").read_text()
    assert "fault" not in text
    assert "cross" not in text
    assert "seed" not in text
    assert (runs["ok"] / "run.json").read_text().split('"ranks"')[0] == text.split('"ranks"')[0]


def test_the_same_seed_gives_the_same_bytes(call: Call, tmp_path: Path) -> None:
    made = {}
    for name, seed in (("one", 5), ("again", 5), ("other", 6)):
        assert call("simulate", *SMALL, "fsdp=8,seq=512", "--seed", seed, "--steps", 1, "-o", tmp_path / name).code == 0
        made[name] = digest(tmp_path / name)
    assert made["one"] == made["again"] != made["other"]


def test_spans_of_some_ranks_alone(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "a.run"
    assert call("simulate", *SMALL, "fsdp=16,seq=512", "--ranks", "0-2,9", "--detail", "units", "-o", out).code == 0
    found = call("show", out, "--format", "json").json
    assert [r["rank"] for r in found["rank_details"]] == [0, 1, 2, 9]
    assert found["world_size"] == 16


def test_a_sweep_is_a_table_and_says_what_cannot_be(call: Call) -> None:
    words = ("simulate", *SMALL, "mbs=1,seq=1024", "--sweep", "fsdp=8,12,16")
    points = call(*words, "--format", "json").json["points"]
    assert [p["ranks"] for p in points] == [8, 12, 16]
    assert points[1]["step_s"] is None
    assert "take a multiple of 8" in points[1]["refused"]
    rows = list(csv.DictReader(io.StringIO(call(*words, "--format", "csv").out)))
    assert [row["plan"] for row in rows] == ["fsdp=8,mbs=1,seq=1024", "fsdp=12,mbs=1,seq=1024", "fsdp=16,mbs=1,seq=1024"]
    assert "How the cost grows with fsdp (mbs=1,seq=1024)" in call(*words).out


def test_what_does_not_fit_says_so_and_fit_walks_to_what_does(call: Call) -> None:
    words = ("simulate", "mpt-7b", "--system", "dgx-a100", "--plan", "fsdp=8,mbs=16", "--steps", "1")
    assert "Out of memory: about" in call(*words).out
    found = call(*words, "--fit", "--format", "json").json
    assert found["fits"] is True
    assert [step["fits"] for step in found["fit"]] == [False] * (len(found["fit"]) - 1) + [True]
    memory = [step["memory_bytes"] for step in found["fit"]]
    assert memory == sorted(memory, reverse=True)


def test_an_anchor_meets_the_measured_step(call: Call) -> None:
    plain = call("simulate", *SMALL, "fsdp=8,seq=1024,mbs=8", "--no-noise", "--format", "json").json["step_s"]
    found = call("simulate", *SMALL, "fsdp=8,seq=1024,mbs=8", "--no-noise", "--anchor", 1.5 * plain, "--format", "json").json
    assert found["step_s"] == pytest.approx(1.5 * plain, rel=0.005)


def test_the_door_simulates_and_reads_back(tmp_path: Path) -> None:
    found = stepscope.simulate("gpt-125m", system="hgx-h100", plan="ddp=8,seq=512", steps=1, out=tmp_path / "a.run")
    with stepscope.read(tmp_path / "a.run") as run:
        assert run.info.origin == "simulated"
        whole = max(s.duration_ns for s in stepscope.breakdown(run).steps)
    assert whole == pytest.approx(found.mean.step_ns, rel=1e-6)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("llama3-9b", "--system", "hgx-h100", "--plan", "fsdp=8"), 2, "llama3-9b: no such model; did you mean llama3-8b?"),
        (("gpt-125m", "--system", "hgx-h1000", "--plan", "fsdp=8"), 2, "hgx-h1000: no such system"),
        ((*SMALL, "fsdp=12"), 2, "12 ranks: hgx-h100 has 8 GPUs a node; take a multiple of 8"),
        ((*SMALL, "fsdp=8,tp=5"), 2, "plan: tp=5 does not divide the 12 heads of gpt-125m"),
        ((*SMALL, "fsdp=8,pp=2"), 2, "plan: pp=2: the simulator knows no pp yet"),
        ((*SMALL, "fsdp=8,ep=2"), 2, "gpt-125m is dense and has no experts"),
        ((*SMALL, "fsdp=8", "--fault", "gpu.too_hot@node0/gpu1"), 2, "gpu.too_hot"),
        ((*SMALL, "fsdp=8", "--fault", "gpu.thermal_throttle@node0/gpu9"), 2, "gpu9"),
        ((*SMALL, "fsdp=8", "--fault", "parallel.stage_imbalance@stage0"), 2, "knows no pipeline stages yet"),
        ((*SMALL, "fsdp=8", "--stack", "tensorflow"), 2, "tensorflow: no such stack"),
        (("illustrative-3b", "--system", "hgx-h100", "--plan", "fsdp=8"), 2, "has a number of parameters but no shapes"),
        ((*SMALL, "fsdp=8", "--loader", "wrkers=2"), 2, "did you mean workers?"),
        ((*SMALL, "fsdp=8", "--checkpoint", "every=often"), 2, "checkpoint:"),
        ((*SMALL, "fsdp=8", "--sweep", "fsdp"), 2, "sweep: 'fsdp' is not KEY=VALUE,VALUE"),
        ((*SMALL, "fsdp=8", "--sweep", "seq=512", "--fit"), 2, "--sweep prints a table"),
        ((*SMALL, "fsdp=8,seq=512", "--anchor", "1e-6"), 2, "anchor: 1e-06 s: no stack of this model makes that step"),
        ((*SMALL, "fsdp=8,seq=512", "--ranks", "0-8", "-o", "never.run"), 2, "--ranks: the job has ranks 0 to 7"),
    ],
)
def test_what_cannot_be_is_one_line(call: Call, words: tuple[str, ...], code: int, said: str) -> None:
    ending = call("simulate", *words)
    assert ending.code == code
    assert said in ending.err
    assert ending.out == ""
    assert not Path("never.run").exists()


def test_a_system_file_of_ones_own_is_checked(call: Call, tmp_path: Path) -> None:
    from stepscope.catalog.document import shipped

    text = shipped("systems/hgx-h100.toml")
    for was, now, said in (
        ("payload_gbps = 49.0", "payload_gbps = -49.0", "network.payload_gbps"),
        ("{ pcie = 3, nics = [3] }", "{ pcie = 3, nics = [9] }", "NIC 9 is not there"),
    ):
        path = tmp_path / "own.toml"
        path.write_text(text.replace(was, now))
        ending = call("simulate", "gpt-125m", "--system", path, "--plan", "fsdp=8")
        assert ending.code == 1
        assert said in ending.err
        assert len(ending.err.strip().splitlines()) == 1


def test_an_existing_run_is_not_replaced(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "a.run"
    out.mkdir()
    ending = call("simulate", *SMALL, "fsdp=8,seq=512", "-o", out)
    assert ending.code == 1
    assert "exists already" in ending.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--ranks", "7-0"), "give the lower one first"),
        (("--ranks", "8"), "--ranks: the job has ranks 0 to 7"),
        (("--ranks", "\u0663"), "no rank and no range"),
        (("--ranks", "0-99999999"), "at most 1048575"),
        (("--emit", "-"), "--emit: the files go into a folder"),
        (("-o", "same", "--emit", "./same"), "--emit: same is the Run of -o too"),
        (("-o", "\udcff.run"), "holds what no screen shows"),
        (("-o", "\x1b[31mred"), "holds what no screen shows"),
        (("--stack", ""), "'': no such stack"),
        (("--loader", "workers=\udcff"), "loader: workers="),
        (("--loader", "cpu_us=99999999999"), "cpu_us from 0 to 3600000000"),
        (("--loader", "cpu_us=1.5"), "loader: cpu_us=1.5: give a whole number"),
        (("--loader", "pinned=maybe"), "loader: pinned=maybe: give true or false"),
        (("--checkpoint", "mode=later"), "checkpoint: mode=later: give one of sync, async"),
        (("--fault", "gpu.thermal_throttle@node\u0663/gpu0"), "is no place"),
        (("--fault", "gpu.thermal_throttle@rank0,steps=\u0663"), "give A-B, A- or A"),
        (("--fault", "gpu.thermal_throttle@rank0,clock_fraction=" + "9" * 5000), "give a number from 0.2"),
        (("--loader", "path=/" + "a" * 5000), "no such file system"),
    ],
)
def test_what_cannot_be_is_said_in_a_line_that_fits_a_screen(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ending = call("simulate", *SMALL, "fsdp=8,seq=512", *words)
    assert ending.code == 2
    assert ending.out == ""
    assert said in ending.err
    assert len(ending.err) < 600
    assert list(tmp_path.iterdir()) == []


def test_a_path_without_end_is_not_repeated_in_full(call: Call) -> None:
    ending = call("simulate", "a" * 50_000 + ".toml", *SMALL[1:], "fsdp=8")
    assert ending.code == 1
    assert len(ending.err) < 600


def test_spans_of_all_ranks_are_kept_up_to_a_thousand(call: Call, tmp_path: Path) -> None:
    plan = ("fsdp=2048,seq=512", "--steps", "1", "-o", tmp_path / "a.run")
    ending = call("simulate", *SMALL, *plan)
    assert ending.code == 2
    assert "spans of 2048 ranks are too many to keep, at most 1024" in ending.err
    assert call("simulate", *SMALL, *plan, "--ranks", "0,2047").code == 0


def test_sums_in_the_switches_where_a_group_has_one_gpu_a_node(call: Call) -> None:
    collnet = ("--fault", "nccl.forced_algorithm@job,algorithm=collnet")
    ending = call("simulate", *SMALL, "hsdp=2x8,seq=512", *collnet, "--format", "json")
    assert ending.json["slowdown"] > 0


def test_jobs_of_two_sizes_are_compared_per_token_and_scale_weakly(call: Call, tmp_path: Path) -> None:
    for ranks, mbs in ((8, 2), (16, 4)):
        out = tmp_path / f"{ranks}.run"
        assert call("simulate", *SMALL, f"fsdp={ranks},mbs={mbs},ac=full", "--steps", "2", "-o", out).code == 0
    found = call("compare", tmp_path / "8.run", tmp_path / "16.run", "--format", "json").json
    base, run = found["throughput"]["base"], found["throughput"]["run"]
    assert (base["tokens_per_step"], run["tokens_per_step"]) == (8 * 2 * 2048, 16 * 4 * 2048)
    assert base["hfu"]["llm-foundry"] == pytest.approx(base["mfu"]["llm-foundry"] * 4 / 3)
    assert found["throughput"]["weak_scaling"] == pytest.approx(run["tokens_per_s_per_gpu"] / base["tokens_per_s_per_gpu"])
    assert found["per_token"] is not None
    out = call("compare", tmp_path / "8.run", tmp_path / "16.run").out
    assert "Per token (" in out
    assert "weak scaling from 8 to 16 ranks" in out


def test_a_value_that_is_no_plan_is_a_refused_point_and_none_at_all_is_a_mistake(call: Call) -> None:
    points = call("simulate", *SMALL, "fsdp=8,seq=512", "--sweep", "reshard=true,3", "--format", "json").json["points"]
    assert [p["refused"] is None for p in points] == [True, False]
    assert "reshard=3 does not divide" in points[1]["refused"]
    ending = call("simulate", *SMALL, "fsdp=8,seq=512", "--sweep", "colour=red,blue")
    assert ending.code == 2
    assert "no such key 'colour'" in ending.err
