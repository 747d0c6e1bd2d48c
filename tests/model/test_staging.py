"""A run that Ctrl-C ends in the middle of a table leaves nothing behind, though polars raises one interrupt twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TWICE = """
import sys
from pathlib import Path
from stepscope.model.store import Staging

class Again(Staging):
    def __exit__(self, *exc):
        raise KeyboardInterrupt  # where Python raises the second one: before the first line of the real method

try:
    with Again(Path(sys.argv[1])) as staging:
        (staging.folder / "spans").mkdir()
        (staging.folder / "spans" / "rank-0.parquet").write_bytes(b"half")
        assert staging.folder.exists()
        raise KeyboardInterrupt
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_an_interrupt_inside_the_clean_up_leaves_nothing(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", TWICE, str(tmp_path / "a.run")], check=False)
    assert ended.returncode == 130
    assert list(tmp_path.iterdir()) == []
