"""The screen of compare, literally, its document and its CSV."""

from __future__ import annotations

import csv as reader
import io
import json
from dataclasses import replace

from stepscope.analysis.compare import compare_steps
from stepscope.model.compare import Comparison, Difference, PhaseSignals, Signal
from stepscope.model.words import PARTS
from stepscope.show import compare, compare_json, markdown
from stepscope.show import json as as_json
from stepscope.show.look import Look
from stepscope.show.terminal import render
from tests.show.test_growth import job

SCREEN = """\
The step grew by 60.0 ms, from 100 ms to 160 ms (+60 %): rank 2's own work grew
by 60.0 ms (backward +45.0 ms, forward +15.0 ms), and the other ranks wait for
it.

Within the limit: 60 % is allowed.

Same workload, though not in everything
  the run ran on H100, the base on V100

Mean per rank and step, in ms
  part          mon    fri  change      from     to
  comm_wait    10.0   55.0   +45.0     +45.0  +45.0
  backward     50.0   61.2   +11.2     +11.2  +11.2
  forward      30.0   33.8    +3.8  ~   +2.2   +5.3
  input_wait   10.0   10.0       0  ~      0      0
  step        100.0  160.0   +60.0     +58.4  +61.6
  ~ not significant: no more than its steps vary, or too little for so few steps
  4 and 4 whole steps, all their ranks; from and to are 95 % bounds of the
  change
  0 in both: optimizer, other_compute, comm_transfer, comm_unsplit, copy,
  checkpoint, host_bound, idle

Change of each rank's own time (its step without communication), on top of the
base's mean step
  0  ░░█░
  · less   ░ median 100 ms +-5 %   ▒ +5 %   ▓ +10 %   █ +25 % and more
  most:  rank 2 +60.0 ms

Beside the phases
  phase     signal                 mon       fri  change
  forward   kernel time        30.0 ms   45.0 ms   +50 %
  forward   kernel time bf16      90 %      10 %       -
  backward  peak memory       1.00 GiB  1.00 GiB     0 %
  not recorded: input: batch wait; forward: gemm shapes
"""


def compared() -> Comparison:
    phases = (
        PhaseSignals("input", (Signal("batch_wait", None, None, "s"),)),
        PhaseSignals(
            "forward",
            (
                Signal("kernel_time", 0.03, 0.045, "s"),
                Signal("gemm_shapes", None, None, "count"),
                Signal("kernel_time_bf16", 0.9, 0.1, "share"),
                Signal("kernel_time_fp8", 0.0, 0.0, "share"),
            ),
        ),
        PhaseSignals("backward", (Signal("peak_memory", float(1 << 30), float(1 << 30), "bytes"),)),
    )
    differing = (Difference("device", "the run ran on H100, the base on V100", False),)
    return compare_steps(job(), job({2: 60}), differing=differing, phases=phases)


def screen(found: Comparison, columns: int = 80) -> str:
    return render(compare.blocks(found, ("mon", "fri"), "Within the limit: 60 % is allowed."), Look(columns))


def test_the_screen() -> None:
    assert screen(compared()) == SCREEN


def test_another_workload_is_told_before_the_table() -> None:
    many = tuple(Difference("collectives", f"difference {i}", True) for i in range(11))
    text = screen(replace(compared(), same_workload=False, differences=many))
    assert "Not the same workload\n  difference 0\n" in text
    assert "  and 3 more: see --format json\n" in text
    assert text.index("Not the same workload") < text.index("Mean per rank")


def test_without_bounds_the_table_has_none() -> None:
    one = replace(job(), steps=job().steps[:1])
    text = screen(compare_steps(one, job()))
    assert "  part         mon    fri  change\n" in text
    assert "~" not in text
    assert "the base has one whole step: without a second one no change has bounds" in text


def test_per_token_stands_below_where_the_tokens_differ() -> None:
    text = screen(compare_steps(job(), job(), tokens=(1000, 2000)))
    assert "Per token (1,000 and 2,000 a step), in us\n" in text
    assert "Per token" not in screen(compare_steps(job(), job(), tokens=(1000, 1000)))


def test_one_rank_has_no_strip() -> None:
    assert "Change of each rank" not in screen(compare_steps(job(ranks=1), job(ranks=1)))


def test_1024_ranks_name_the_one() -> None:
    text = screen(compare_steps(job(ranks=64), job({51: 60}, ranks=64)))
    assert "rank 51's own work grew by 60.0 ms" in " ".join(text.split())
    assert "most:  rank 51 +60.0 ms" in text


def test_a_strangers_names_stay_text() -> None:
    odd = (Difference("operators", "other \x1b[31m|<b>`op", True),)
    found = replace(compared(), differences=odd)
    assert "\x1b" not in screen(found)
    text = markdown.document(compare.blocks(found))
    assert "\\|" in text
    assert "<b>" not in text


def test_markdown_is_a_summary_for_a_pull_request() -> None:
    text = markdown.document(compare.blocks(compared(), ("mon", "fri"), "Above the limit: too slow."))
    assert text.startswith("**The step grew by 60.0 ms, from 100 ms to 160 ms (+60 %): rank 2's own work grew")
    assert "\n**Above the limit: too slow.**\n" in text
    assert "| comm_wait | 10.0 | 55.0 | +45.0 |  | +45.0 | +45.0 |" in text


def test_the_document_has_the_keys_of_the_contract() -> None:
    doc = json.loads(as_json.encode(compare_json.document(compared(), {"limit": 0.05})))
    assert doc["schema"] == "compare/1"
    assert doc["same_workload"] is True
    assert doc["differences"] == ["the run ran on H100, the base on V100"]
    assert [p["part"] for p in doc["parts"]] == list(PARTS)
    assert set(doc["parts"][0]) == {"part", "base_s", "run_s", "delta_s", "low_s", "high_s", "significant"}
    assert abs(sum(p["delta_s"] for p in doc["parts"]) - doc["step_delta_s"]) < 1e-9
    assert doc["step_delta_s"] == 0.06
    assert doc["per_token"] is doc["per_batch"] is None
    assert [r["rank"] for r in doc["ranks"]] == [0, 1, 2, 3]
    assert {r["delta_s"] for r in doc["ranks"]} == {0.06}
    assert [r["own_delta_s"] for r in doc["ranks"]] == [0, 0, 0.06, 0]
    assert doc["ranks_that_stand_out"] == [2]
    assert doc["phases"][0] == {"phase": "input", "inspect": [{"signal": "batch_wait", "base": None, "run": None, "unit": "s"}]}
    assert doc["gate"] == {"limit": 0.05}


def test_per_token_sums_to_its_own_step() -> None:
    doc = compare_json.document(compare_steps(job(), job(), tokens=(1000, 2000)))
    assert abs(sum(p["delta_s"] for p in doc["per_token"]) - (0.1 / 2000 - 0.1 / 1000)) < 1e-12
    assert [p["part"] for p in doc["per_token"]] == list(PARTS)


def test_csv_has_a_row_per_part_and_the_step() -> None:
    rows = list(reader.DictReader(io.StringIO(compare_json.rows(compared()))))
    assert [r["part"] for r in rows] == [*PARTS, "step"]
    assert rows[-1]["delta_s"] == "0.06"
    assert rows[-1]["significant"] == "true"
    single = replace(job(), steps=job().steps[:1])
    (*_, last) = reader.DictReader(io.StringIO(compare_json.rows(compare_steps(single, single))))
    assert (last["low_s"], last["significant"]) == ("", "")
