"""`stepscope plan` end to end: the table, the document, what does not fit, the walk, measured beside planned, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.sources.test_memory import MIB, snapshot

FITS = ("plan", "llama3-8b", "--system", "hgx-h100", "--plan", "fsdp=16,mbs=1,seq=8192")
LARGE = ("plan", "llama3-70b", "--system", "hgx-h100", "--plan", "fsdp=8,mbs=8,seq=8192,ac=none")

TABLE = """\
illustrative-3b: 3,000,000,000 parameters, states of training, unsharded
  state           B/param  GB
  Weights               2   6
  Gradients             2   6
  Adam moments          8  24
  Master weights        4  12
  Total                16  48
"""


def test_the_textbook_table_to_the_letter(call: Call) -> None:
    ending = call("plan", "illustrative-3b", "--table")
    assert ending.code == 0
    assert ending.out.startswith(TABLE + "\nAdditional, not in the table:\n- activations")


@pytest.mark.parametrize(("word", "rows"), [
    (("--no-master",), ["2   6", "2   6", "8  24", "12  36"]),
    (("--grads", "fp32"), ["2   6", "4  12", "8  24", "4  12", "18  54"]),
])  # fmt: skip
def test_variants_of_the_table(call: Call, word: tuple[str, ...], rows: list[str]) -> None:
    lines = call("plan", "illustrative-3b", "--table", *word).out.splitlines()[2 : 2 + len(rows)]
    assert all(line.endswith(row) for line, row in zip(lines, rows, strict=True))
    assert lines[-1].startswith("  Total")


def test_the_document_has_the_keys_of_the_contract(call: Call) -> None:
    found = call(*FITS, "--format", "json").json
    assert found["schema"] == "plan/1"
    assert found["fits"] is True
    assert sum(t["bytes"] for t in found["per_rank"]) == found["total_bytes"]
    assert all(set(t) >= {"term", "bytes", "low", "high", "formula"} for t in found["per_rank"])
    assert found["allocated_bytes"] < found["reserved_bytes"] < found["total_bytes"]
    assert found["headroom_bytes"] == found["capacity_bytes"] - found["total_bytes"]
    assert found["peak_at"] in {m["moment"] for m in found["moments"]}
    assert found["advice"] == []
    assert found["largest_micro_batch"] >= 1


def test_what_does_not_fit_is_printed_and_ends_with_three(call: Call) -> None:
    ending = call(*LARGE, "--format", "json")
    assert ending.code == 3
    assert ending.json["fits"] is False
    assert ending.json["headroom_bytes"] < 0
    assert all({"change", "saves_bytes", "step_cost_s", "fits"} <= set(a) for a in ending.json["advice"])
    assert ending.err.count("\n") == 1
    assert "does not fit" in ending.err


def test_the_walk_that_ends_well_ends_with_zero(call: Call) -> None:
    ending = call(*LARGE, "--fit", "--format", "json")
    steps = ending.json["fit"]
    assert ending.code == 0
    assert steps[-1]["fits"] is True
    assert [s["saved_bytes"] for s in steps] == sorted(s["saved_bytes"] for s in steps)


def test_the_screen_says_what_when_and_how_sure(call: Call) -> None:
    ending = call(*FITS, "--checkpoint", "mode=async,tolerate_s=1800")
    assert ending.code == 0
    for words in ("Fits: ", "What takes the bytes", "= allocated", "= reserved", "= in use (nvidia-smi)", "When", "the loss",
                  "The largest micro-batch that fits is", "A checkpoint", "interval, Young"):  # fmt: skip
        assert words in ending.out


def test_measured_stands_beside_planned(call: Call, tmp_path: Path) -> None:
    path = snapshot(tmp_path / "s.pickle", [])
    found = call(*FITS, "--measured", path, "--format", "json").json["measured"]
    figures = {f["what"]: f for f in found["figures"]}
    assert figures["reserved"]["measured_bytes"] == 12 * MIB
    assert figures["optimizer"]["measured_bytes"] == 3 * MIB
    assert figures["optimizer"]["planned_bytes"] > 0
    assert figures["in use (nvidia-smi)"]["measured_bytes"] is None
    (tmp_path / "m.csv").write_text("index, memory.used [MiB]\n0, 40000 MiB\n")
    assert "Measured in m.csv beside planned" in call(*FITS, "--measured", tmp_path / "m.csv").out


def test_a_run_without_memory_says_how_to_record_it(call: Call, demo_dir: Path) -> None:
    ending = call(*FITS, "--measured", demo_dir / "healthy", "-q")
    assert ending.code in (0, 1)
    assert ending.code == 0 or "profile_memory=True" in ending.err


def test_csv_has_a_row_per_term(call: Call) -> None:
    lines = call(*FITS, "--format", "csv").out.splitlines()
    assert lines[0] == "term,place,bytes,low,high,formula"
    assert {"weights", "moments", "activations", "NCCL", "CUDA context"} <= {line.split(",")[0] for line in lines}


@pytest.mark.parametrize(("words", "said"), [
    (("plan", "llama3-8b"), "--plan is missing"),
    (("plan", "llama3-8b", "--plan", "fsdp=8"), "--system is missing"),
    (("plan", "illustrative-3b", "--system", "p5", "--plan", "fsdp=8"), "no shapes"),
    (("plan", "llama3-8b", "--system", "p5", "--plan", "fsdp=12"), "12 ranks"),
    (("plan", "llama3-8b", "--system", "p5", "--plan", "fsdp=8,tp=3"), "tp=3"),
    (("plan", "llama3-8b", "--system", "p5", "--plan", "fsdp=8", "--no-master"), "add --table"),
    (("plan", "llama3-8b", "--system", "p5", "--plan", "fsdp=8", "--recipe", "x"), "no such recipe"),
    (("plan", "llama3-8b", "--system", "p5", "--plan", "fsdp=8", "--checkpoint", "path=/no"), "path=/no"),
])  # fmt: skip
def test_what_cannot_be_is_one_line_and_two(call: Call, words: tuple[str, ...], said: str) -> None:
    ending = call(*words)
    assert ending.code == 2
    assert said in ending.err
    assert ending.err.count("\n") == 1
