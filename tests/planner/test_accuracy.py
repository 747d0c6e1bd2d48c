"""How far plans are from published memory, as bench/memory.py tells it: what is promised in docs/plan.md stays so."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def document(shared: Path) -> Any:
    """bench.memory/1 over all published rows."""
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        import memory  # type: ignore[import-not-found]  # a script of bench/
    finally:
        sys.path.pop(0)
    return memory.document(memory.rows(shared / "ground-truth"))


def sources(document: Any, source: str, klass: str) -> Any:
    (found,) = (s for s in document["sources"] if (s["source"], s["class"], s["fitted"]) == (source, klass, False))
    return found


def test_published_peaks_that_nothing_was_fitted_to(document: Any) -> None:
    for source in ("torchtitan", "hf-ultrascale-nanotron-h100"):
        plain = sources(document, source, "reserved, without tp or pp")
        assert plain["median_abs_pct"] < 7
        assert plain["p90_abs_pct"] < 15
        assert sources(document, source, "reserved, with tp or pp")["median_abs_pct"] < 15


def test_what_is_live_between_steps(document: Any) -> None:
    assert sources(document, "hf-ultrascale-nanotron-h100", "resting, tp = pp = 1")["p90_abs_pct"] < 2


def test_what_runs_out_of_memory(document: Any) -> None:
    right = {o["pp"]: (o["right"], o["recall_oom"], o["recall_fits"]) for o in document["oom"]}
    assert right["1"][0] > 0.97
    assert right[">1"][0] > 0.95
    assert min(*right["1"][1:], *right[">1"][1:]) > 0.93


def test_nearly_every_row_is_mapped(document: Any) -> None:
    assert document["mapped_share"] > 0.95
    assert all(row["why"] for row in document["unmapped"])
