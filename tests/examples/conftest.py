"""The examples are no package of ours: their folder is put on the path, as Python does for a script in it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pytest

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples"
if str(EXAMPLES) not in sys.path:
    sys.path.append(str(EXAMPLES))


@pytest.fixture
def two_nodes() -> None:
    """Skips where this machine gives no two nodes."""
    from nodes.network import missing

    if why := missing():
        pytest.skip(f"no two nodes: {why}")
    import subprocess

    if subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no two nodes: this machine gives no network namespace")
