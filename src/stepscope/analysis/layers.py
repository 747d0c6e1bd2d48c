"""In which layer of the machine is a span's work? From its kind, and for host ranges and copies from its name."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from stepscope.analysis import rules
from stepscope.analysis.phases import Hosts
from stepscope.model.spans import enum_of
from stepscope.model.words import KINDS, LAYERS

_LIBRARY = re.compile(r"^(?:nccl|rccl|gloo|hccl|xccl|ucc|mpi):")
_FRAMEWORK = re.compile(r"^(?:FSDP::|DistributedDataParallel\.|FullyShardedDataParallel\.|nn\.Module: )")
_ON_DEVICE = re.compile(r"DtoD|Device -> Device")
_BY_KIND = {
    "op": "L2/L3", "annotation": "L1", "runtime": "L4", "python": "L1", "kernel": "L4", "collective": "L5",
    "memcpy": "L8", "memset": "L9",
}  # fmt: skip
_BY_NAME = (
    ("memcpy", _ON_DEVICE, "L9"),
    ("op", re.compile("^c10d::"), "L5"),
    ("annotation", _FRAMEWORK, "L2/L3"),
    ("python", _FRAMEWORK, "L2/L3"),
    ("annotation", _LIBRARY, "L5"),
)
_LAYER = {word: place for place, word in enumerate(LAYERS)}


def layers(host: Hosts, phase: rules.Codes) -> pl.Series:
    """Layer of each row; null for rows that are no work (overlays). A save is storage, whatever carries it out."""
    by_kind = np.array([_LAYER[_BY_KIND[kind]] if kind in _BY_KIND else len(LAYERS) for kind in KINDS], dtype=np.int64)
    layer = by_kind[host.kind]
    for kind, pattern, word in _BY_NAME:
        layer[(host.kind == KINDS.index(kind)) & host.rows_named(pattern.search)] = _LAYER[word]
    layer[phase == rules.CHECKPOINT] = _LAYER["S"]
    return enum_of(layer, LAYERS)
