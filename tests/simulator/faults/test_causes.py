"""Every cause of the catalog: it is handled, it bites, it never makes a step faster, and more of it never less slow."""

from __future__ import annotations

import pytest

from stepscope.catalog.cause import causes
from stepscope.model.errors import UsageMistake
from stepscope.simulator.faults.fault import WAITS, parse_fault
from stepscope.simulator.faults.schedule import EFFECTS
from tests.simulator.faults.cases import HANGS, PLACES, SLOWING, mean_ms, strengths

SLACK = 1 + 1e-9


def test_every_cause_is_handled() -> None:
    assert set(EFFECTS) == set(SLOWING)
    assert {*SLOWING, *HANGS, WAITS} == set(causes())


@pytest.mark.parametrize("cause", SLOWING)
def test_at_its_default_it_slows_the_job(cause: str) -> None:
    assert mean_ms(cause, None) > 1.003 * mean_ms(cause, None, healthy=True)


@pytest.mark.parametrize("cause", SLOWING)
def test_it_never_makes_a_step_faster_and_stronger_is_never_faster(cause: str) -> None:
    healthy = mean_ms(cause, None, healthy=True)
    found = [mean_ms(cause, strength) for strength in strengths(cause)]
    for weaker, stronger in zip([healthy, *found], found, strict=False):
        assert stronger * SLACK >= weaker
    assert found[-1] > healthy


@pytest.mark.parametrize("cause", SLOWING)
def test_at_every_kind_of_place_that_it_can_have(cause: str) -> None:
    """Wherever it sits, the job is slower: a collective ends with its slowest member."""
    for kind in causes()[cause].places:
        at = "node1:/data" if cause == "storage.slow_mount" and kind == "mount" else PLACES[kind]
        assert mean_ms(cause, None, at=at) > 1.003 * mean_ms(cause, None, healthy=True), at


def test_a_cause_that_waits_for_pipelines_is_refused_in_one_line() -> None:
    with pytest.raises(UsageMistake) as error:
        parse_fault(f"{WAITS}@stage1")
    assert str(error.value) == "parallel.stage_imbalance: the simulator knows no pipeline stages yet; leave this fault out"
