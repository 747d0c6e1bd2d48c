"""What is the recorder told? Where to write, how much to keep, when a job counts as stalled, whether to serve metrics.

Bytes and seconds. In the processes of a job the settings come as JSON in one environment variable that `stepscope record` sets.
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass
from typing import Final

from stepscope.model.errors import UsageMistake

VARIABLE: Final = "STEPSCOPE_RECORD"
KEEP_BYTES: Final = 256 << 20  # per rank; a step of 100 collectives takes about 5 kB
STALL_S: Final = 60.0
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)i?B?")
_FACTOR: Final = {"": 1, "k": 1 << 10, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
LEAST_KEEP: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """`keep` bytes per rank, `stall` and `interval` seconds (a stall of 0: no watchdog), `metrics` an address or empty.

    `alone`: nobody made the folder for this job, so what it holds of this rank is another recording.
    """

    out: str
    keep: int = KEEP_BYTES
    stall: float = STALL_S
    metrics: str = ""
    interval: float = 1.0
    alone: bool = False

    def environment(self) -> dict[str, str]:
        """What a child process is given."""
        import json

        return {VARIABLE: json.dumps(asdict(self))}


def from_environment() -> Settings | None:
    """What `stepscope record` asked of this process; None where it did not, or where the words cannot be read."""
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    import json

    try:
        return Settings(**json.loads(text))
    except (ValueError, TypeError):
        return None


def size_of(text: str) -> int:
    """`256MB` in bytes. Raises UsageMistake."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageMistake(f"--keep {text}: is no size; write 256MB or 2G")
    size = int(float(match.group(1)) * _FACTOR[match.group(2)])
    if size < LEAST_KEEP:
        raise UsageMistake(f"--keep {text}: is less than a step or two may need; give {LEAST_KEEP >> 20}MB or more")
    return size


def address_of(text: str) -> tuple[str, int]:
    """`:9400` or `0.0.0.0:9400` as (host, port); loopback unless told otherwise. Raises UsageMistake."""
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or not 0 < int(port) < 1 << 16 or (not colon and host):
        raise UsageMistake(f"--metrics {text}: is no address; write :9400 or HOST:9400")
    return host.strip("[]") or "127.0.0.1", int(port)
