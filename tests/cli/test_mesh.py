"""`stepscope mesh` of plans and of runs: every shape, axes told from what groups did, what is refused."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.cli.conftest import Call


def test_the_contract_of_a_plan(call: Call) -> None:
    found = call("mesh", "--plan", "fsdp=2,tp=8", "--system", "hgx-h100", "--format", "json").json
    assert found["schema"] == "mesh/1"
    axes = {axis["axis"]: axis for axis in found["axes"]}
    assert [0, 8] in axes["fsdp"]["groups"]
    assert list(range(8)) in axes["tp"]["groups"]
    assert set(axes["tp"]) >= {"axis", "size", "groups", "op", "bytes_per_step", "when", "hidden", "links"}
    assert axes["tp"]["bytes_per_step"] is None
    assert found["ranks"][9] == {
        "rank": 9, "coordinates": {"fsdp": 1, "tp": 1}, "node": "node1", "gpu": 1, "nic": "mlx5_1", "rail": 1,
    }  # fmt: skip


def test_the_orders_are_the_models() -> None:
    from stepscope.cli.mesh import ORDERS
    from stepscope.model.mesh import ORDERS as KNOWN

    assert ORDERS == KNOWN


def test_the_picture(call: Call) -> None:
    out = call("mesh", "--plan", "hsdp=2x4", "--system", "hgx-h100", "--model", "gpt-125m").out
    assert out.startswith("8 ranks: replicate 2 x fsdp 4\n")
    assert "  0-7 node0  abcdabcd   aaaabbbb\n" in out
    assert "Identical parameters on: 0, 4; 1, 5; 2, 6; and 1 more sets." in out


def test_csv_and_markdown(call: Call) -> None:
    rows = list(csv.DictReader(io.StringIO(call("mesh", "--plan", "fsdp=2,tp=2", "--format", "csv").out)))
    assert [(row["fsdp"], row["tp"]) for row in rows] == [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")]
    assert "| axis |" in call("mesh", "--plan", "fsdp=2,tp=2", "--format", "markdown").out


def test_a_recorded_job_is_named_by_what_it_did(call: Call, demo_dir: Path) -> None:
    found = call("mesh", demo_dir / "healthy", "--format", "json").json
    assert [(axis["axis"], axis["size"]) for axis in found["axes"]] == [("fsdp", 4)]
    assert found["origin"] == "trace"


@pytest.mark.parametrize(
    ("plan", "axes"),
    [
        ("fsdp=4,tp=4,seq=512", {"fsdp": 4, "tp": 4}),
        ("hsdp=2x8,seq=512", {"replicate": 2, "fsdp": 8}),
        ("ddp=8,seq=512", {"ddp": 8}),
        ("zero1=8,seq=512", {"zero1": 8}),
        ("fsdp=16,seq=512", {"fsdp": 16}),
    ],
)
def test_axes_are_told_from_emitted_traces(call: Call, tmp_path: Path, plan: str, axes: dict[str, int]) -> None:
    out = tmp_path / "job"
    words = ("gpt-125m", "--system", "hgx-h100", "--plan", plan, "--steps", "1", "--emit", out, "-q")
    assert call("simulate", *words).code == 0
    found = call("mesh", out / "traces", "--format", "json").json
    assert {axis["axis"]: axis["size"] for axis in found["axes"]} == axes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "mesh takes a run, or --plan; give one of them"),
        (("--plan", "fsdp=12", "--system", "hgx-h100"), "take a multiple of 8"),
        (("--plan", "fsdp=8", "--model", "illustrative-3b"), "no shapes"),
        (("--plan", "fsdp=8,ep=3"), "ep=3 does not divide"),
        (("--plan", "mbs=8"), "says nothing of the ranks"),
    ],
)
def test_what_cannot_be_is_one_line(call: Call, words: tuple[str, ...], said: str) -> None:
    ending = call("mesh", *words)
    assert ending.code == 2
    assert said in ending.err
    assert ending.out == ""
