"""Fixtures that every folder of tests may use: where the recorded traces lie."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import hypothesis
import pytest

ROOT: Final = Path(__file__).resolve().parents[1]

hypothesis.settings.register_profile("shared-machines", deadline=None)  # no test measures time: benchmarks do
hypothesis.settings.load_profile("shared-machines")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of third-party traces beside the checkout; the test is skipped where there is none."""
    folder = ROOT.parent / "shared"
    if not (folder / "traces").is_dir():
        pytest.skip("no third-party traces: the optional folder ../shared is absent")
    return folder


@pytest.fixture(scope="session")
def demo_dir() -> Path:
    """The recordings in this repository: `healthy` and `slow-rank`, four ranks each."""
    return ROOT / "demo"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--campaign N`: how many random damages the fuzz tests try, beside the sample that always runs."""
    parser.addoption("--campaign", type=int, default=0, help="random damages to try in the fuzz tests (default: a sample)")


@pytest.fixture(scope="session")
def campaign(request: pytest.FixtureRequest) -> int:
    """How long a fuzz campaign was asked for."""
    return int(request.config.getoption("--campaign"))
