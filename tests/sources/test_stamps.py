"""Exact time: µs as written become integer ns, whatever the writer's number format."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.sources.kineto.stamps import NOT_A_TIME, to_ns


def ns(*values: object) -> list[int]:
    """`values` as ns, their digits at hand where they are floats."""
    return to_ns(list(values), lambda: [str(v).encode() for v in values]).tolist()


def test_whole_microseconds_since_1970_keep_every_ns() -> None:
    assert ns(1694128201435418, 0, -5) == [1694128201435418000, 0, -5000]


def test_epoch_stamps_with_decimals_are_read_from_their_digits_not_from_float64() -> None:
    written = [b"1694128201435418.123", b"1694128201435418.124"]
    got = to_ns([float(w) for w in written], lambda: written).tolist()
    assert got == [1694128201435418123, 1694128201435418124]
    assert float(written[0]) * 1000 != got[0]  # what float64 would have given


def test_strings_and_mixtures() -> None:
    assert ns("1661203462598738.5", "12") == [1661203462598738500, 12000]
    assert ns(3, "4.25", None, 2.5) == [3000, 4250, NOT_A_TIME, 2500]


@pytest.mark.parametrize("value", [None, "", "soon", "nan"])
def test_what_is_no_time_is_marked_and_never_summed(value: object) -> None:
    assert ns(value, 1)[0] == NOT_A_TIME


@pytest.mark.parametrize("value", [10**18, 10**40, "1e999", "1e999999999"])
def test_what_is_beyond_int64_stops_at_its_end(value: object) -> None:
    assert ns(value, 1) == [(2**63 // 1000 - 1) * 1000, 1000]


@given(st.lists(st.decimals(-(10**12), 10**12, places=3), min_size=1, max_size=20))
def test_floats_up_to_a_hundred_days_are_exact(values: list[Decimal]) -> None:
    got = to_ns([float(v) for v in values], lambda: None)
    assert got.tolist() == [int(v * 1000) for v in values]


@given(st.lists(st.integers(0, 9 * 10**18), min_size=1, max_size=20))
def test_digits_of_any_length_are_exact(values: list[int]) -> None:
    written = [f"{v // 1000}.{v % 1000:03d}".encode() for v in values]
    got = to_ns([float(w) for w in written], lambda: written)
    assert got.dtype == np.int64
    assert got.tolist() == values
