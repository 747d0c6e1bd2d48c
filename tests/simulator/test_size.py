"""What is too much to simulate is refused before it is made, and says how much it would be; figures keep no steps."""

from __future__ import annotations

import pytest

from stepscope.model.errors import UsageMistake
from stepscope.simulator import size
from stepscope.simulator.request import Request
from stepscope.simulator.size import MOST_OPERATIONS, operations


@pytest.mark.parametrize(
    "plan",
    ["fsdp=8", "fsdp=8,ga=3", "ddp=8,ga=2", "zero1=8", "hsdp=2x4,ga=2,sync=every", "fsdp=4,tp=2,ga=2", "fsdp=4,tp=2,unit=4",
     "fsdp=8,split=3", "fsdp=4,tp=2,ac=full", "fsdp=4,tp=2,split=2"],
)  # fmt: skip
def test_the_estimate_is_no_less_than_what_runs_and_not_four_times_more(plan: str) -> None:
    request = Request("gpt-125m", "hgx-h100", f"{plan},seq=512", steps=1, noise=False)
    ran, _ = request.run()
    there = len(ran.steps[0].prepared.work.program.ops)
    assert there <= operations(request.job()) <= 4 * there


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("fsdp=8,ga=100000", r"plan: ga=100000 and 12 units are about .* operations a step"),
        ("fsdp=8,ga=16777216", "give a smaller ga"),
        ("fsdp=8,split=16777216", "split=16777216: gpt-125m would have 201326592 units"),
        ("fsdp=8,mbs=16777216,seq=16777216", "more than can be counted; take a smaller mbs or seq"),
    ],
)
def test_absurd_plans_are_refused_in_one_line(plan: str, said: str) -> None:
    with pytest.raises(UsageMistake, match=said) as refused:
        Request("gpt-125m", "hgx-h100", plan).run()
    assert "\n" not in str(refused.value)


def test_more_than_the_memory_is_refused_with_how_much_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "free_bytes", lambda: 64 << 20)
    request = Request("gpt-125m", "hgx-h100", "fsdp=8192,seq=512")
    with pytest.raises(UsageMistake, match=r"8,192 ranks with about \d+ operations a step need 0\.\d GiB .* 0\.1 GiB are free"):
        request.run()
    with pytest.raises(UsageMistake, match="leave -o and --emit away"):
        Request("gpt-125m", "hgx-h100", "fsdp=16", steps=10_000).run()
    request.with_plan("fsdp=16").run()  # what fits is run


def test_a_machine_says_what_is_free() -> None:
    assert 1 << 20 < size.free_bytes() < 1 << 50
    assert MOST_OPERATIONS > 1000


def test_figures_without_steps_are_the_same() -> None:
    request = Request("gpt-125m", "hgx-h100", "fsdp=128,seq=512", checkpoint="every=3", steps=5)
    kept, figures = request.run()
    forgotten, same = request.run(keep=False)
    assert figures == same
    assert len(kept.steps) == 5
    assert forgotten.steps == []


@pytest.mark.parametrize("plan", ["fsdp=1", "zero1=16", "fsdp=128", "ddp=1,mbs=8"])
@pytest.mark.parametrize("checkpoint", [None, "every=1"])
def test_no_part_is_negative_and_they_sum_to_the_step(plan: str, checkpoint: str | None) -> None:
    """Whole ns leave a remainder; it must not go below nothing, nor where few ranks of many stand for all."""
    mean = Request("gpt-125m", "hgx-h100", f"{plan},seq=512", checkpoint=checkpoint).run(keep=False)[1].mean
    assert min(mean.parts_ns.values()) >= 0
    assert sum(mean.parts_ns.values()) == mean.step_ns


def test_a_late_hang_takes_no_longer_than_an_early_one() -> None:
    request = Request("gpt-125m", "hgx-h100", "fsdp=8,seq=512", faults=("hang.rank_died@rank3,at_step=1000000",))
    ran, figures = request.run()
    assert [step.number for step in ran.steps] == [999_996, 999_997, 999_998, 999_999]
    assert figures.stopped is not None
    assert figures.stopped.startswith("step 1000000: rank 3 died in")


def test_steps_longer_than_a_life_are_refused() -> None:
    request = Request("gpt-125m", "hgx-h100", "fsdp=8,mbs=4194304,ga=64", loader="workers=0,cpu_us=3600000000", steps=1)
    with pytest.raises(UsageMistake, match="more than 73 years"):
        request.run()


@pytest.mark.parametrize("share", ["0.05", "0.95"])
def test_a_copy_that_holds_the_host_never_frees_it_sooner(share: str) -> None:
    """A tiny copy ends before the host has issued it: the host is not ahead of itself for that."""
    request = Request("gpt-125m", "hgx-h100", "zero1=16,seq=512", noise=False, loader="workers=0",
                      faults=(f"app.unpinned_transfer@job,rate_fraction={share}",))  # fmt: skip
    slowdown = request.run(keep=False)[1].slowdown
    assert slowdown is not None
    assert slowdown >= 1
