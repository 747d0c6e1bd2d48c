"""How the recorder comes into a job that knows nothing of it: hooks are put in place before the job's first line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from stepscope.recorder.settings import Settings, from_environment

SITE: Final = Path(__file__).parent / "site"
LAUNCHERS: Final = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed", "lightning")
FLIGHT_RECORDER: Final = {"TORCH_FR_BUFFER_SIZE": "2000"}
"""Torch's own ring of collectives, on by default in newer versions: what a stalled job's dump is made from."""


def start() -> None:
    """In a process that `stepscope record` started: arms the recorder, unless it is a launcher."""
    settings = from_environment()
    if settings is None or ("RANK" not in os.environ and _is_launcher()):
        return
    from stepscope.recorder.hooks import install
    from stepscope.recorder.live import LIVE

    LIVE.arm(settings)
    install()


def environment(settings: Settings) -> dict[str, str]:
    """What the job's processes are given on top of their environment."""
    path = os.environ.get("PYTHONPATH")
    found = {**settings.environment(), "PYTHONPATH": f"{SITE}{os.pathsep}{path}" if path else str(SITE)}
    return {**{k: v for k, v in FLIGHT_RECORDER.items() if k not in os.environ}, **found}


def _is_launcher() -> bool:
    words = [Path(word).name if word.startswith("/") else word for word in getattr(sys, "orig_argv", sys.argv)[:4]]
    return any(word in LAUNCHERS for word in words)
