"""Causes: the whole list, each sound in itself and with the others."""

from __future__ import annotations

from collections import Counter

import pytest

from stepscope.catalog.cause import Cause, causes, load_cause
from stepscope.model.errors import UsageMistake

EVERY = list(causes().values())


def test_as_many_as_each_layer_has() -> None:
    assert Counter(cause.layer for cause in EVERY) == {
        "S": 4,
        "L1": 9,
        "L2/L3": 7,
        "L4": 6,
        "L5": 5,
        "L6": 3,
        "L7": 5,
        "L8": 4,
        "L9": 4,
        None: 5,
    }


@pytest.mark.parametrize("cause", EVERY, ids=lambda c: c.id)
def test_one_cause_holds_together(cause: Cause) -> None:
    network = cause.layer in ("L5", "L6", "L7", "L8")
    hang = cause.id.startswith("hang.")

    assert (cause.kind == "network") == network
    assert (cause.kind == "hang") == hang == (cause.layer is None)
    assert cause.id not in cause.rivals
    assert set(cause.rivals) <= causes().keys()
    assert len(cause.signals) >= 3
    assert cause.fix


@pytest.mark.parametrize("cause", EVERY, ids=lambda c: c.id)
def test_a_strength_may_be_written_as_its_default_says(cause: Cause) -> None:
    strength = cause.strength
    text = strength.default if isinstance(strength.default, str) else f"{strength.default:g}"

    assert strength.checked(text) == strength.default
    if strength.choices:
        assert strength.low is strength.high is None
    else:
        assert strength.low is not None
        assert strength.high is not None
        assert strength.low < strength.high


def test_strengths_that_cannot_be() -> None:
    slow, protocol, lanes = (
        load_cause(i).strength for i in ("storage.slow_mount", "nccl.low_protocol", "interconnect.pcie_downtrained")
    )

    for text in ("0", "-3", "nan", "inf", "fast", ""):
        with pytest.raises(UsageMistake, match=f"^slowdown={text}: give a number from 1.5 to 100 \\(times\\)$"):
            slow.checked(text)
    assert protocol.checked("ll128") == "LL128"
    with pytest.raises(UsageMistake, match=r"^protocol=Simple: give one of LL, LL128$"):
        protocol.checked("Simple")
    assert lanes.checked("8") == 8
    with pytest.raises(UsageMistake, match=r"^lanes=16: give one of 1, 2, 4, 8$"):
        lanes.checked("16")


def test_a_name_that_is_almost_one() -> None:
    with pytest.raises(UsageMistake, match=r"^gpu.thermal: no such cause; did you mean gpu.thermal_throttle\? known: "):
        load_cause("gpu.thermal")
