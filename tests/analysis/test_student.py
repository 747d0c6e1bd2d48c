"""Student's distribution against closed forms and printed tables."""

from math import atan, inf, pi, sqrt

import pytest

from stepscope.analysis.student import quantile, two_sided


@pytest.mark.parametrize("t", [0.0, 0.1, 1.0, 2.5, 12.7, 63.7, 1e6])
def test_one_and_two_degrees_have_closed_forms(t: float) -> None:
    assert two_sided(t, 1) == pytest.approx(1 - 2 * atan(t) / pi, abs=1e-12)
    assert two_sided(-t, 2) == pytest.approx(1 - t / sqrt(2 + t * t), abs=1e-12)


@pytest.mark.parametrize(
    ("freedom", "beyond"), [(1, 12.7062), (2, 4.3027), (4, 2.7764), (8, 2.3060), (10, 2.2281), (30, 2.0423), (1e6, 1.9600)]
)
def test_quantiles_of_the_printed_table(freedom: float, beyond: float) -> None:
    assert quantile(0.95, freedom) == pytest.approx(beyond, abs=1e-4)
    assert two_sided(quantile(0.99, freedom), freedom) == pytest.approx(0.01, abs=1e-9)


def test_an_endless_t_never_happens_by_chance() -> None:
    assert two_sided(inf, 3) == 0
    assert two_sided(0, 3) == pytest.approx(1)
