"""The life of a step on the screen, as JSON, CSV and as a diagram; hostile names stay text."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stepscope.model.hops import ORDER, WAYS, Hop, Hops
from stepscope.model.info import Gap
from stepscope.show import hops, hops_json, markdown, mermaid, safe
from stepscope.show.look import Look
from stepscope.show.terminal import render

MS = 1_000_000
NO_PLACES = "where the ranks sit is not known"


def life(unit: str | None = "layers.3") -> Hops:
    """A step of 100 ms; the gather of forward is exposed for 2 of 4 ms, that of backward hidden, nothing known of the nodes."""
    rows = []
    for place, n in enumerate(ORDER):
        pass_ = "forward" if place < 9 and n > 1 else "backward" if place < 21 and n > 1 else None
        row = Hop(
            n=n, pass_=pass_, what=WAYS[n].what, unit=unit, start_ns=place * 4 * MS, end_ns=(place + 1) * 4 * MS, busy_ns=4 * MS
        )
        if n in (3, 12):
            exposed = 2 * MS if n == 3 and pass_ == "forward" else 0
            row = replace(row, what="all-gather", bytes=128 << 20, exposed_ns=exposed, bytes_per_s=3.2e10, count=1)
        if n in (5, 6, 7, 14, 15, 16):
            row = Hop(n=n, pass_=pass_, what=WAYS[n].what, unit=unit, known="unknown", why=NO_PLACES)
        if n == 19:
            row = Hop(n=n, pass_=None, what=WAYS[n].what, known="unknown", why="no save in this step")
        rows.append(row)
    return Hops(
        rank=3,
        place="node0/gpu3",
        step=7,
        unit=unit,
        step_start_ns=50 * MS,
        duration_ns=100 * MS,
        complete=True,
        hops=tuple(rows),
        units=("layers.2", "layers.3", "root"),
        communication_ns=12 * MS,
        hidden_ns=9 * MS,
        exposed_ns=2 * MS,
        breakdown_exposed_ns=5 * MS,
        notes=("a note",),
        gaps=(Gap("thing", (), "off"),),
    )


SCREEN = """\
Unit layers.3 in step 7 of rank 3 (node0/gpu3): 75 % of its 12.0 ms of communication is hidden
behind compute, 2.00 ms exposed; the whole step exposes 5.00 ms.

The life of the step, times in ms from its start
  hop  way                  layer  what                    bytes  start  time  exposed       rate
  1    storage > loop       S      read the batch              -      0   4.0        -          -
  2    loop > framework     L2/L3  forward                     -    4.0   4.0        -          -
  3    framework > NCCL     L5     all-gather            128 MiB    8.0   4.0      2.0  32.0 GB/s
  4    NCCL > NVLink        L8     part inside the node        -   12.0   4.0        -          -
  8    framework > kernels  L4     kernels of forward          -   28.0   4.0        -          -
  9    kernels > GPU/HBM    L9     GPU at work, forward        -   32.0   4.0        -          -
  10   loop > framework     L1     backward                    -   36.0   4.0        -          -
  3b   framework > NCCL     L5     all-gather            128 MiB   40.0   4.0        0  32.0 GB/s
  4b   NCCL > NVLink        L8     part inside the node        -   44.0   4.0        -          -
  11   framework > kernels  L4     kernels of gradients        -   60.0   4.0        -          -
  12   framework > NCCL     L5     all-gather            128 MiB   64.0   4.0        0  32.0 GB/s
  13   NCCL > NVLink        L8     reduce in the node          -   68.0   4.0        -          -
  17   loop > framework     L1     optimizer.step              -   84.0   4.0        -          -
  18   framework > GPU      L9     update the shard            -   88.0   4.0        -          -
  5-7, 5b-7b, 14-16: where the ranks sit is not known
  19: no save in this step
  b: the gather again, for backward
  a note

Not recorded, or recorded with a limit
  thing: off
"""


def test_the_screen() -> None:
    assert render(hops.blocks(life()), Look(100)) == SCREEN


def test_the_whole_step_is_said() -> None:
    said = hops.sentence(life(None))
    assert said.startswith("Step 7 of rank 3 (node0/gpu3) (100 ms): 75 % of its 12.0 ms of communication is hidden")
    assert "the whole step exposes" not in said


def test_no_communication_is_said() -> None:
    alone = replace(life(), communication_ns=0, hidden_ns=0, exposed_ns=0, breakdown_exposed_ns=0)
    assert hops.sentence(alone) == "Unit layers.3 in step 7 of rank 3 (node0/gpu3): nothing is communicated."


def test_a_simulated_run_says_so_once() -> None:
    simulated = replace(life(), origin="simulated")
    assert render(hops.blocks(simulated), Look(100)).startswith(hops.SIMULATED + "\n")
    assert mermaid.sequence(simulated).count(hops.SIMULATED) == 1


def test_json_has_every_key_in_every_row() -> None:
    doc = hops_json.document(life())
    assert (doc["schema"], doc["rank"], doc["step"], doc["unit"], doc["whole_step"]) == ("hops/1", 3, 7, "layers.3", False)
    assert (doc["exposed_s"], doc["breakdown_exposed_s"], doc["step_start_s"]) == (0.002, 0.005, 0.05)
    keys = {"n", "from", "to", "layer", "what", "bytes", "start_s", "end_s", "exposed_s", "bytes_per_s", "pass", "known", "why"}
    assert all(keys <= set(row) for row in doc["hops"])
    assert [row["n"] for row in doc["hops"]] == list(ORDER)
    gather = doc["hops"][2]
    assert (gather["from"], gather["to"], gather["layer"], gather["pass"]) == ("framework", "NCCL", "L5", "forward")
    assert (gather["start_s"], gather["end_s"], gather["exposed_s"], gather["bytes"]) == (0.008, 0.012, 0.002, 128 << 20)
    lost = doc["hops"][4]
    assert (lost["bytes"], lost["start_s"], lost["known"], lost["why"]) == (None, None, "unknown", NO_PLACES)


def test_csv_and_markdown() -> None:
    rows = list(csv.DictReader(io.StringIO(hops_json.rows(life()))))
    assert [int(row["n"]) for row in rows] == list(ORDER)
    assert (rows[2]["bytes"], rows[2]["exposed_s"], rows[4]["bytes"]) == (str(128 << 20), "0.002", "")
    assert "| 3 | framework &gt; NCCL | L5 | all-gather | 128 MiB |" in markdown.document(hops.blocks(life())).replace(
        "&#62;", "&gt;"
    )


def test_a_frame_and_a_table() -> None:
    frame = life().frame()
    assert frame.height == len(ORDER)
    assert frame["exposed_ns"].sum() == 2 * MS
    assert "all-gather" in str(life().table())


def test_the_diagram() -> None:
    lines = mermaid.sequence(life()).splitlines()
    assert lines[0] == "sequenceDiagram"
    assert [line.split()[1] for line in lines if "participant" in line] == list(mermaid.PARTICIPANTS)
    arrows = [line for line in lines if ">>" in line]
    assert len(arrows) == len(ORDER)
    at = lines.index("        Framework->>NCCL: 3 all-gather (forward), 128 MiB in 4.00 ms, EXPOSED 2.00 ms")
    assert (lines[at - 1], lines[at + 1]) == ("    rect rgb(255, 221, 221)", "    end")
    assert "    Framework->>NCCL: 3 all-gather (backward), 128 MiB in 4.00 ms" in lines
    assert "    NCCL-->>Transport: 5 part between nodes (forward), not known" in lines
    assert "    Kernels->>GPU: 9 GPU at work, forward, 4.00 ms" in lines
    assert arrows[-1] == "    Loop-->>Storage: 19 checkpoint, no save in this step"
    assert sum("rect" in line for line in lines) == 1


ARROW = re.compile(r"^ {4,8}[A-Za-z]+--?>>[A-Za-z]+: ")


@given(st.text())
def test_no_name_can_be_syntax_of_a_diagram(name: str) -> None:
    lines = mermaid.sequence(replace(life(), unit=name)).splitlines()
    assert len(lines) == len(mermaid.sequence(life()).splitlines())
    (note,) = [line for line in lines if "Note over" in line]
    text = note.split(": ", 1)[1]
    assert not re.search(r"[<>&\"'`;%{}\[\]|\\#]", re.sub(r"#\d+;", "", text))
    assert not re.search(r"\bend\b", text, re.IGNORECASE)
    assert all(ARROW.match(line) for line in lines if ">>" in line)


def test_hostile_names_in_a_diagram() -> None:
    assert safe.mermaid("a;b\n%%{init}%% <img> end #x") == "a#59;b #37;#37;#123;init#125;#37;#37; #60;img#62; #101;nd #35;x"
    assert safe.mermaid("layers.3 (root)") == "layers.3 (root)"
