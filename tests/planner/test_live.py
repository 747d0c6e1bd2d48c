"""A small model in torch itself, under FSDPMemTracker with a fake process group on CPU, beside its plan. Needs torch 2.13.

It runs in a process of its own, since torch is patched there and a process group stays.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from stepscope.model.shape import Shape
from tests.planner.jobs import planned

PROGRAM = Path(__file__).with_name("live_program.py")
SHAPE = {"layers": 6, "hidden": 1024, "heads": 16, "kv_heads": 4, "ffn": 3584, "vocab": 4096}


@pytest.mark.skipif(find_spec("torch") is None, reason="no torch here: make test-live runs it")
@pytest.mark.parametrize("seq", [128, 1024])
def test_sharded_states_are_exact_and_the_peak_is_within_five_percent(seq: int) -> None:
    asked = json.dumps({**SHAPE, "seq": seq, "ranks": 8})
    answer = subprocess.run([sys.executable, str(PROGRAM), asked], capture_output=True, text=True, timeout=300, check=True)
    seen = json.loads(answer.stdout.splitlines()[-1])
    shape = Shape(**SHAPE, context=seq, tied_embeddings=False, activation="swiglu", norm="rmsnorm", attention="gqa",
                  positions="rope")  # fmt: skip
    found = planned(f"fsdp=8,seq={seq}", stack="torchtitan", shape=shape)
    assert found.bytes_of("weights") == seen["weights"]
    assert found.bytes_of("moments") == pytest.approx(seen["optimizer"], abs=1024)  # step counts of the tensors
    assert found.allocated_bytes - found.bytes_of("workspaces") == pytest.approx(seen["peak"], rel=0.05)
