"""The other screens, literally: import, show, doctor, demo."""

from stepscope.show import demo, doctor, run
from stepscope.show.contents import Contents, OperationCount
from stepscope.show.look import Look
from stepscope.show.terminal import render
from tests.show.build import examination, info, job


def test_import() -> None:
    assert render(run.imported(info(2), "fri.run"), Look(80)) == (
        "fri.run: 2 ranks of 3, 3 steps, 24,001 events\n"
        "\n"
        "  missing ranks  2\n"
        "  step numbers   0-2 (2 rank-steps cut by the window)\n"
        "  identified by  the trace's distributedInfo\n"
        "  events mended  2 repaired\n"
        "  clocks         aligned, residual 12.0 us\n"
        "  versions       torch 2.6\n"
        "\n"
        "Ranks\n"
        "  rank  device  window ms  steps  events  repaired  file\n"
        "     0  H100        400.0      3  12,000         0  rank0.json.gz\n"
        "     1  H100        400.0      3  12,001         2  rank1.json.gz\n"
        "\n"
        "Not recorded, or recorded with a limit\n"
        "  rank (rank 2): no file names it\n"
    )


def test_show() -> None:
    held = Contents(info(2), (OperationCount("all_gather", 10, 1 << 30, 2), OperationCount("send_recv", 2, None, 2)))
    text = render(run.shown(held, "traces"), Look(80))
    assert (
        "Collectives (calls and bytes of all ranks)\n"
        "  operation   calls     bytes  ranks\n"
        "  all_gather     10  1.00 GiB      2\n"
        "  send_recv       2         -      2\n"
        "\n"
        "Process groups\n"
        "  group  axis  size  ranks\n"
        "  0      fsdp     3  0-2\n"
    ) in text


def test_many_ranks_are_summarised() -> None:
    text = render(run.imported(info(1024), "big.run"), Look(80))
    assert len(text.splitlines()) < 30
    assert "1,016 ranks more: see --format json" in text


def test_doctor() -> None:
    assert render(doctor.blocks(examination()), Look(80)) == (
        "This recording answers 1 of 2 questions.\n"
        "\n"
        "It can answer\n"
        "  + where each rank's step went\n"
        "\n"
        "It cannot answer\n"
        "  - who came last\n"
        "    missing: sequence numbers\n"
        "    record:  record with torch 2.4 or newer\n"
    )


def test_demo_and_its_mirror_image() -> None:
    quick, slow = ("quick", job(slow=None)), ("slow", job())
    slow[1].steps[6].parts_ns["idle"] += 60_000_000
    longer = demo.blocks(quick, slow)
    text = render(longer, Look(100))
    assert text.startswith("quick: Step 200 ms on average over 4 ranks x 2 steps:")
    assert "\nslow: Step 200 ms on average over 4 ranks x 2 steps:" in text


def test_the_difference_turns_with_its_inputs() -> None:
    from stepscope.model.breakdown import Breakdown
    from tests.show.build import step

    quick = Breakdown(tuple(step(r, k, backward=80, comm_wait=20) for r in range(4) for k in range(2)), ())
    slow = Breakdown(
        tuple(step(r, k, backward=140 if r == 2 else 80, comm_wait=20 if r == 2 else 80) for r in range(4) for k in range(2)),
        (),
    )
    assert demo.difference(("quick", quick), ("slow", slow)) == (
        "From quick to slow: the step grew by 60.0 ms, from 100 ms to 160 ms (+60 %): "
        "rank 2's own work grew by 60.0 ms (backward +60.0 ms), and the other ranks wait for it."
    )
    assert demo.difference(("slow", slow), ("quick", quick)) == (
        "From slow to quick: the step shrank by 60.0 ms, from 160 ms to 100 ms (-38 %): "
        "rank 2's own work shrank by 60.0 ms (backward -60.0 ms), and the other ranks no longer wait for it."
    )
    assert demo.difference(("a", quick), ("b", quick)) == (
        "From a to b: nothing grew: the step takes 100 ms in both, and every part is the same."
    )
    document = demo.document(("quick", quick), ("slow", slow))
    assert document["runs"][1]["step_s"] == 0.16
    assert document["comparison"]["ranks_that_stand_out"] == [2]


def test_a_run_without_steps_cannot_be_compared() -> None:
    from stepscope.model.breakdown import Breakdown

    assert "cannot be compared" in demo.difference(("a", Breakdown((), ())), ("b", job()))
