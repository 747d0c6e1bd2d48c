"""What does an instant count as that a span owns? One word of PARTS per span, null for a span that never owns one.

Kernels and operators count as their phase, copies as `copy` but for the batch's and a save's, the loader and a save as
themselves. Annotations and python frames own nothing unless they are the loader or a save.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from stepscope.analysis import rules
from stepscope.analysis.phases import Bools, Hosts
from stepscope.model.spans import enum_of
from stepscope.model.words import KINDS, PARTS

_PART = {word: place for place, word in enumerate(PARTS)}
_KIND = {word: place for place, word in enumerate(KINDS)}
_NOTHING = len(PARTS)
# By phase code, and last for code -1: what no phase claims is other compute, and so are kernels inside loader or save.
_COMPUTE = np.full(rules.OTHER + 2, _PART["other_compute"], dtype=np.int64)
for _phase, _word in ((rules.FORWARD, "forward"), (rules.BACKWARD, "backward"), (rules.OPTIMIZER, "optimizer")):
    _COMPUTE[_phase] = _PART[_word]


def parts(host: Hosts, phase: rules.Codes, batch: Bools, collective: Bools) -> pl.Series:
    """Part of each row. `batch`: the batch's copies; `collective`: communication kernels and the calls of collectives."""
    kind = host.kind
    part = np.full(len(kind), _NOTHING, dtype=np.int64)
    operator = (kind == _KIND["op"]) & ~host.rows_named(lambda n: "wait_tensor" in n)  # the thread stands in those
    for own in (operator, kind == _KIND["kernel"]):
        part[own] = _COMPUTE[phase[own]]
    host_range = (kind == _KIND["annotation"]) | (kind == _KIND["python"])
    for code, word in ((rules.INPUT, "input_wait"), (rules.CHECKPOINT, "checkpoint")):
        part[(phase == code) & (operator | (host_range & (host.named == code)))] = _PART[word]
    copies = (kind == _KIND["memcpy"]) | (kind == _KIND["memset"])
    part[copies] = _PART["copy"]
    part[copies & (phase == rules.CHECKPOINT)] = _PART["checkpoint"]
    part[batch] = _PART["input_wait"]
    part[(kind == _KIND["collective"]) | (collective & operator)] = _PART["comm_unsplit"]
    return enum_of(part, PARTS)
