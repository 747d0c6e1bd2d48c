"""The whole folder: atomic, without a word of the truth, the same bytes for the same seed."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

import stepscope
from stepscope.catalog.cause import causes
from stepscope.model.errors import OutputRefused
from stepscope.simulator.emit.all import FOLDERS, HOSTS, emit
from stepscope.simulator.request import Request

SECRET = 918_273_645


def request(*faults: str, system: str = "hgx-h100", seed: int = SECRET) -> Request:
    return Request("llama3.2-1b", system, "fsdp=16,seq=2048", faults=faults, seed=seed, steps=2)


def emitted(folder: Path, asked: Request) -> dict[str, bytes]:
    """Every file by its path, unpacked."""
    emit(folder, asked.run()[0], asked)
    files = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    return {name: gzip.decompress(data) if name.endswith(".gz") else data for name, data in files.items()}


FAULTS = ("interconnect.nic_cross_socket@node1/gpu3", "gpu.thermal_throttle@node0/gpu2", "fabric.link_degraded@node1/nic5")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("emit") / "job"


@pytest.fixture(scope="module")
def files(folder: Path) -> dict[str, bytes]:
    return emitted(folder, request(*FAULTS))


def test_everything_is_there(files: dict[str, bytes]) -> None:
    assert {name.split("/")[0] for name in files} == {*FOLDERS, HOSTS}
    assert sum(name.startswith("traces/") for name in files) == 16
    assert {"topology/node1.txt", "metrics/node0.prom", "nccl/rank-15.log", "flight_recorder/dump_rank_0.json"} <= set(files)


def test_the_placement_is_one_that_hosts_reads(files: dict[str, bytes]) -> None:
    lines = files[HOSTS].decode().splitlines()
    assert len(lines) == 1 + 16
    assert lines[1] == "0 node0 0 nic0"
    assert lines[12] == "11 node1 3 nic3"


def test_no_file_names_a_cause_a_seed_or_a_fault(files: dict[str, bytes]) -> None:
    words = [
        *causes(),
        *(cause.partition(".")[2] for cause in causes() if "_" in cause),  # "congestion" is a word of node_exporter's help
        str(SECRET),
        "seed",
        "fault",
        "truth",
        "simulat",
        "sick",
    ]
    pattern = re.compile(rb"(?<![a-z])(?:" + b"|".join(re.escape(w.encode()) for w in words) + rb")", re.IGNORECASE)
    found = {name: pattern.search(data) for name, data in files.items()}

    assert {name: hit[0] for name, hit in found.items() if hit} == {}
    assert [name for name in files if pattern.search(name.encode())] == []


def test_the_truth_lies_beside_it(folder: Path, files: dict[str, bytes]) -> None:
    truth = json.loads((folder.parent / "job.truth.json").read_text())

    assert truth["seed"] == SECRET
    assert [(f["cause"], f["where"]) for f in truth["faults"]] == [tuple(text.split("@")) for text in FAULTS]
    assert not list(folder.rglob("*truth*"))


def test_the_same_seed_gives_the_same_bytes(files: dict[str, bytes], tmp_path: Path) -> None:
    assert emitted(tmp_path / "job", request(*FAULTS)) == files


def test_another_seed_gives_other_times(files: dict[str, bytes], tmp_path: Path) -> None:
    other = emitted(tmp_path / "job", request(*FAULTS, seed=1))

    assert set(other) == set(files)
    assert other["traces/rank-0.pt.trace.json.gz"] != files["traces/rank-0.pt.trace.json.gz"]


def test_it_is_not_written_over(folder: Path, files: dict[str, bytes], tmp_path: Path) -> None:
    asked = request()
    ran = asked.run()[0]
    with pytest.raises(OutputRefused, match="exists already"):
        emit(folder, ran, asked)
    other = tmp_path / "mine"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputRefused, match="holds other things"):
        emit(other, ran, asked, force=True)

    assert (other / "thesis.tex").exists()
    seen: list[tuple[int, int]] = []
    emit(tmp_path / "new", ran, asked, ranks=[3, 5], progress=lambda done, all_: seen.append((done, all_)))
    emit(tmp_path / "new", ran, asked, ranks=[4], force=True)
    assert seen == [(1, 2), (2, 2)]
    assert [p.name for p in (tmp_path / "new" / "traces").iterdir()] == ["rank-4.pt.trace.json.gz"]
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_a_job_that_stands(tmp_path: Path) -> None:
    asked = request("hang.transport_broken@node0/nic5,at_step=1")
    files = emitted(tmp_path / "job", asked)
    warned = [name for name, data in files.items() if b"NCCL WARN" in data]

    assert warned == ["nccl/rank-5.log"]
    assert b"IBV_WC_RETRY_EXC_ERR(12)" in files["nccl/rank-5.log"]
    assert files["counters/after/node0/mlx5_5/ports/1/state"] == b"1: DOWN\n"
    assert json.loads((tmp_path / "job.truth.json").read_text())["hang"]["step"] == 1
    with stepscope.read(tmp_path / "job" / "traces") as run:
        assert {step.step for info in run.info.ranks for step in info.steps} == {0}


def test_amd_gpus_have_no_tools_of_nvidia(tmp_path: Path) -> None:
    files = emitted(tmp_path / "job", request(system="nd-mi300x-v5"))

    assert {name.split("/")[0] for name in files} == {"traces", "flight_recorder", "metrics", "counters", HOSTS, "notes.txt"}
    assert b"DCGM" not in files["metrics/node0.prom"]
