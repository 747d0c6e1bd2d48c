"""When did this rank join each collective, and when was it done? The methods of torch's ProcessGroup and the wait of its Work.

All that Python issues passes here: `torch.distributed`'s functions, FSDP1, FSDP2, DCP. What C++ issues by itself does not:
DDP's buckets (see `wrappers`), compiled graphs. `end` is exact where the thread was still waiting; a collective that was done
before anybody waited ended at some time before, and its row says so. Own sequence numbers, per group, in order of issue.
"""

from __future__ import annotations

import functools
import threading
import weakref
from time import thread_time_ns
from types import ModuleType
from typing import Any, Final

from stepscope.model.segment import COLLECTIVE, UNKNOWN
from stepscope.recorder.journal import PAUSED, SAMPLED, Journal
from stepscope.recorder.live import LIVE, clock

METHODS: Final = {
    "allreduce": "all_reduce", "allreduce_coalesced": "all_reduce", "allgather": "all_gather", "_allgather_base": "all_gather",
    "all_gather_single": "all_gather", "allgather_coalesced": "all_gather", "allgather_into_tensor_coalesced": "all_gather",
    "all_gather_single_coalesced": "all_gather", "reduce_scatter": "reduce_scatter", "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter", "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "reduce_scatter_single_coalesced": "reduce_scatter", "broadcast": "broadcast", "reduce": "reduce", "gather": "gather",
    "scatter": "scatter", "alltoall": "all_to_all", "alltoall_base": "all_to_all", "all_to_all_single": "all_to_all",
    "barrier": "barrier", "monitored_barrier": "barrier", "send": "send", "recv": "recv", "recv_anysource": "recv",
}  # fmt: skip
AT_ONCE_NS: Final = 100_000  # a wait that follows so soon is the same call, and its thread stood from the first
MOST_PENDING: Final = 4_096
UNIT: Final = [""]  # of the next collective on the training thread; FSDP names it
SEQUENCE: Final[dict[int, int]] = {}
PENDING: Final[dict[int, list[int]]] = {}  # id of the Work -> its row, until it is waited for
ISSUING: Final[dict[str, tuple[Any, int]]] = {}  # calls that have not returned, by operation
_depth: Final = threading.local()
_groups: Final[dict[str, int]] = {}
_known: Final[dict[int, tuple[weakref.ref[Any], int]]] = {}  # groups that live, by identity: their names are slow to ask for
_dtypes: Final[dict[Any, str]] = {}
_WORDS: Final = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int",
    "int8": "Char", "uint8": "Byte", "bool": "Bool",
}  # fmt: skip


def install(module: ModuleType) -> None:
    """In torch's ProcessGroup and Work, which torch.distributed.distributed_c10d has just imported."""
    for method, op in METHODS.items():
        if hasattr(module.ProcessGroup, method):
            _wrap(module.ProcessGroup, method, op)
    work = getattr(module, "Work", None) or __import__("torch")._C._distributed_c10d.Work
    original = work.wait

    @functools.wraps(original)
    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        row, journal = PENDING.get(id(self)), LIVE.journal
        if row is None or journal is None:
            return original(self, *args, **kwargs)
        # Of a wait that follows at once the end is exact anyway, and asking is a cold call into C++.
        done = clock() - row[3] >= AT_ONCE_NS and self.is_completed()
        device = LIVE.steps.device if LIVE.steps is not None and threading.get_ident() == LIVE.thread else None
        began = clock()
        try:
            if device is not None:
                return device.standing(lambda: original(self, *args, **kwargs))
            return original(self, *args, **kwargs)
        finally:  # until here it is under way, and a stalled rank says so
            if PENDING.get(id(self)) is row:
                del PENDING[id(self)]
                waited(journal, row, began, clock(), done)

    work.wait = wait


def _wrap(cls: Any, method: str, op: str) -> None:
    original = getattr(cls, method)

    @functools.wraps(original)
    def issue(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (LIVE.journal is None and LIVE.seen() is None) or getattr(_depth, "inside", False):
            return original(self, *args, **kwargs)
        _depth.inside = True  # newer methods call older ones
        began = clock()
        ISSUING[op] = (self, began)
        try:
            work = original(self, *args, **kwargs)
        finally:
            _depth.inside = False
            ISSUING.pop(op, None)
        journal = LIVE.journal
        if journal is not None:
            issued(journal, self, op, args, began, clock(), work)
        return work

    setattr(cls, method, issue)


def issued(journal: Journal, group: Any, op: str, args: Any, began: int, now: int, work: Any) -> None:
    """Notes a collective that was handed to its backend; without a Work the call itself was all of it."""
    journal.calls += 1
    timing = journal.calls % SAMPLED == 0
    paid = _now_paid() if timing else 0
    number = group_of(journal, group)
    SEQUENCE[number] = sequence = SEQUENCE.get(number, -1) + 1
    size, dtype = _size(args)
    steps = LIVE.steps
    mine = threading.get_ident() == LIVE.thread
    thread = journal.who.main_thread if mine else threading.get_native_id()
    unit, way = UNKNOWN, UNKNOWN
    if mine and steps is not None:
        way = 1 if steps.in_backward else 0 if steps.forward_at >= 0 else UNKNOWN
        unit = journal.name(UNIT[0]) if UNIT[0] else UNKNOWN
        UNIT[0] = ""
    row = [
        COLLECTIVE, thread, began, now, UNKNOWN, UNKNOWN, number, sequence, journal.name(op),
        journal.name(dtype) if dtype else UNKNOWN, size, unit, way, 1,
    ]  # fmt: skip
    if work is None:
        row[4], row[5] = began, now
        journal.rows.append(row)
        if mine and steps is not None:
            steps.stood(began, now)
    else:
        if len(PENDING) >= MOST_PENDING:
            give_up(journal)
        PENDING[id(work)] = row
    if timing:
        _charge(journal, paid)


def waited(journal: Journal, row: list[int], began: int, ended: int, done: bool) -> None:
    """Notes that somebody stood for it from `began` to `ended`; `done`: it was over before."""
    journal.calls += 1
    timing = journal.calls % SAMPLED == 0
    paid = _now_paid() if timing else 0
    if began - row[3] < AT_ONCE_NS:
        began = row[2]
    row[4], row[5], row[13] = began, ended, 0 if done and began != row[2] else 1
    journal.rows.append(row)
    if LIVE.steps is not None and threading.get_ident() == LIVE.thread:
        LIVE.steps.stood(began, ended)
    if timing:
        _charge(journal, paid)


def _now_paid() -> int:
    """The thread's CPU time less the collector's pauses; asked twice: the first brings the clock's code into the caches."""
    thread_time_ns()
    return thread_time_ns() - PAUSED[0]


def _charge(journal: Journal, paid: int) -> None:
    """What a timed hook took since `paid`."""
    journal.hook_ns += max(thread_time_ns() - PAUSED[0] - paid, 0)
    journal.timed += 1


def give_up(journal: Journal) -> None:
    """Collectives that nobody waits for in Python (streams wait for them): their rows go out without an end."""
    rows = list(PENDING.values())
    PENDING.clear()
    journal.rows.extend(rows)


def group_of(journal: Journal, group: Any) -> int:
    """The number of a process group, told once with its ranks."""
    known = _known.get(id(group))
    if known is not None and known[0]() is group:
        return known[1]
    name = group if isinstance(group, str) else group.group_name
    number = _groups.get(name)
    if number is None:
        number = _groups[name] = journal.group(name, *_described(group, name))
    if not isinstance(group, str):
        _known[id(group)] = (weakref.ref(group), number)
    return number


def forget() -> None:
    """Another recording begins: numbers of groups are the journal's."""
    _groups.clear()
    _known.clear()
    SEQUENCE.clear()
    PENDING.clear()
    UNIT[0] = ""


def _described(group: Any, name: str) -> tuple[str, list[int]]:
    import sys

    c10d = sys.modules["torch.distributed.distributed_c10d"]
    try:
        if isinstance(group, str):
            group = c10d._resolve_process_group(name)
        return str(group.group_desc), [int(rank) for rank in c10d.get_process_group_ranks(group)]
    except Exception:  # a group that torch no longer knows
        return "", []


def _size(args: Any) -> tuple[int, str]:
    """Bytes of the larger of what goes in and what comes out, and the type of its elements."""
    most, kind = UNKNOWN, None
    for arg in args[:2]:
        if arg.__class__ is list or arg.__class__ is tuple:
            size, first = _sum(arg)
        else:
            size, first = getattr(arg, "nbytes", UNKNOWN), arg
        if size > most:
            most, kind = size, first
    return most, dtype_of(kind) if kind is not None else ""


def _sum(values: Any) -> tuple[int, Any]:
    """Of tensors, or of lists of them."""
    if values and values[0].__class__ is list:
        values = values[0]
    if not values:
        return UNKNOWN, None
    first = values[0]
    size = getattr(first, "nbytes", UNKNOWN)
    return (size if len(values) == 1 or size < 0 else sum(value.nbytes for value in values)), first


def dtype_of(tensor: Any) -> str:
    """Torch's name of the element type as its traces write it."""
    kind = tensor.dtype
    word = _dtypes.get(kind)
    if word is None:
        plain = str(kind).removeprefix("torch.")
        word = _dtypes[kind] = _WORDS.get(plain, plain)
    return word
