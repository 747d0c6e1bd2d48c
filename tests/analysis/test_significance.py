"""Bounds cover, marks stay rare where nothing changed, and a tenth of the step is seen."""

import numpy as np
import pytest

from stepscope.analysis.significance import DRAWS, FLOOR, MANY_STEPS, SHAKY, bounds, clear

COLUMNS = 40


def drawn(kind: str, steps: int, seed: int) -> np.ndarray:
    source = np.random.default_rng(seed)
    if kind == "skewed":
        return source.exponential(size=(steps, COLUMNS))
    return source.standard_normal((steps, COLUMNS))


@pytest.mark.parametrize("kind", ["normal", "skewed"])
@pytest.mark.parametrize(("base", "run"), [(2, 2), (3, 3), (5, 5), (3, 10), (10, 8), (25, 25)])
def test_bounds_cover_at_any_number_of_steps(kind: str, base: int, run: int) -> None:
    covered = [bounds(drawn(kind, base, 2 * i), drawn(kind, run, 2 * i + 1)) for i in range(10)]
    share = np.mean([((b.low <= 0) & (b.high >= 0)).mean() for b in covered if b])
    assert (0.92 if kind == "normal" else 0.89) < share < 0.985  # of 400 columns; skew costs a little


def test_unequal_spread_and_steps_still_cover() -> None:
    covered = [bounds(5 * drawn("normal", 3, 2 * i), drawn("normal", 12, 2 * i + 1)) for i in range(10)]
    assert np.mean([((b.low <= 0) & (b.high >= 0)).mean() for b in covered if b]) > 0.93


def test_the_plain_case_is_students_interval() -> None:
    base, run = np.array([[1.0], [2.0], [3.0]]), np.array([[5.0], [6.0], [7.0]])
    found = bounds(base, run)
    assert found is not None
    assert found.low[0] == pytest.approx(4 - 2.7764 * (2 / 3) ** 0.5, abs=1e-4)
    assert found.high[0] == pytest.approx(4 + 2.7764 * (2 / 3) ** 0.5, abs=1e-4)


def test_one_step_has_no_bounds() -> None:
    assert bounds(np.ones((1, 3)), np.ones((9, 3))) is None


@pytest.mark.parametrize("steps", [4, MANY_STEPS + 5])
def test_exchanged_sides_negate_the_bounds_and_draws_repeat(steps: int) -> None:
    one, two = drawn("skewed", steps, 1), drawn("skewed", steps + 1, 2)
    there, back, again = bounds(one, two), bounds(two, one), bounds(one, two)
    assert there and back and again
    assert np.array_equal(there.low, -back.high)
    assert np.array_equal(there.high, -back.low)
    assert np.array_equal(there.low, again.low)
    assert DRAWS % 2


def test_what_never_varies_is_certain_and_breaks_nothing() -> None:
    for steps in (3, MANY_STEPS):
        found = bounds(np.zeros((steps, 2)), np.tile([0.0, 7.0], (steps, 1)))
        assert found is not None
        assert found.low.tolist() == found.high.tolist() == [0, 7]
        assert clear(found, (steps, steps), 50).tolist() == [False, True]


def test_steps_that_drift_widen_the_bounds() -> None:
    level = np.repeat([0.0, 1.0, 2.0, 3.0], 4)[:, None]
    spells, mixed = level, level[np.random.default_rng(3).permutation(16)]
    wide, narrow = bounds(spells, spells), bounds(mixed, mixed)
    assert wide and narrow
    assert wide.high[0] > 1.5 * narrow.high[0]


def test_a_change_too_small_to_matter_is_not_marked() -> None:
    found = bounds(np.zeros((100, 1)), np.full((100, 1), 0.9 * FLOOR))
    assert found is not None
    assert not clear(found, (100, 100), 1.0)[0]
    few = bounds(np.zeros((4, 1)), np.full((4, 1), 0.9 * SHAKY / 2))
    assert few is not None
    assert not clear(few, (4, 4), 1.0)[0]
    assert clear(few, (100, 100), 1.0)[0]
