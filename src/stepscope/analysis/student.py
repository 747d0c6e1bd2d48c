"""How often is a t as large as this by chance? Student's distribution with any degrees of freedom, without scipy.

The regularised incomplete beta function by its continued fraction (Numerical Recipes, 3rd ed., section 6.4: Lentz's method),
accurate to about 1e-12; the quantile by bisection.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, isinf, lgamma, log
from typing import Final

_TINY: Final = 1e-300
_PRECISE: Final = 1e-15
_MOST_TERMS: Final = 500


def two_sided(t: float, freedom: float) -> float:
    """The chance of a t at least as far from 0; `freedom` in degrees, above 0."""
    if isinf(t):
        return 0.0
    return _beta(freedom / 2, 0.5, freedom / (freedom + t * t))


@lru_cache(maxsize=4096)
def quantile(level: float, freedom: float) -> float:
    """The t beyond which, on both sides together, 1 - `level` of the distribution lies."""
    low, high = 0.0, 1.0
    while two_sided(high, freedom) > 1 - level and high < 1e12:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > 1 - level else (low, middle)
    return (low + high) / 2


def _beta(a: float, b: float, x: float) -> float:
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(1 - x))
    return front * _fraction(a, b, x) / a if x < (a + 1) / (a + b + 2) else 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a - 1 + 2 * m) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 1 + 2 * m))
        for step in (even, odd):
            d = 1 / _away(1 + step * d)
            c = _away(1 + step / c)
            result *= d * c
        if abs(d * c - 1) < _PRECISE:
            break
    return result


def _away(value: float) -> float:
    """Not quite 0, so that it can divide."""
    return value if abs(value) > _TINY else _TINY
