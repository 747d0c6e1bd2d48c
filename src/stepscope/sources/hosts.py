"""`--hosts FILE`: which rank sits on which node, GPU and NIC.

Read are, told apart by what they hold:

- hostfiles of Open MPI (`node1 slots=8`), MPICH and Horovod (`node1:8`), DeepSpeed; plain lists of nodes, which a line per
  rank may repeat; Open MPI rankfiles (`rank 3=node1 slot=0`); lines `rank node [gpu] [nic]`; `srun --label hostname`
- Slurm's environment, `scontrol show job`, `sacct`, a node list such as `node[01-04]` (`slurm`)
- `kubectl get pods -o json` (`pods`)

Where a file only lists nodes, ranks are taken to fill them in its order, as launchers do by default, and that is said in a
gap. `#` starts a comment. Files come from strangers: sizes, ranges and numbers of ranks are bounded, names are host names.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from stepscope.model.errors import BadInput
from stepscope.model.place import Place
from stepscope.sources import pods, slurm
from stepscope.sources.hostlist import MAX_RANKS, WrongList, expand, node_name
from stepscope.sources.placement import Placement

MAX_BYTES: Final = 64 << 20  # kubectl writes about 10 kB a pod
MEND: Final = "give a hostfile, lines `rank node [gpu] [nic]`, Slurm's node list or `kubectl get pods -o json`"

_RANK_LINE: Final = re.compile(r"(\d{1,8})(:|\s)\s*(\S.*)")
_RANKFILE_LINE: Final = re.compile(r"rank\s+(\d{1,8})\s*=\s*(\S+)(\s+slots?=\S+)?", re.IGNORECASE)
_SLOTS: Final = re.compile(r"(?:slots|max[_-]?slots)\s*=\s*(\d{1,8})", re.IGNORECASE)
_HOST_COUNT: Final = re.compile(r"([^:\s]+):(\d{1,8})")
_GPU: Final = re.compile(r"(?:gpu|cuda:)?(\d{1,3})", re.IGNORECASE)
_NIC: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")


def read_hosts(path: Path) -> Placement:
    """What a file says of the places of ranks. Raises BadInput, one line: what, where, how to mend."""
    try:
        if path.is_file() and path.stat().st_size > MAX_BYTES:
            raise BadInput(f"{path}: larger than {MAX_BYTES >> 20} MiB; {MEND}")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{path}: not UTF-8 text; {MEND}") from None
    except OSError as error:
        raise BadInput(f"{path}: {(error.strerror or 'cannot be read').lower()}; check --hosts") from None
    if len(data) > MAX_BYTES:
        raise BadInput(f"{path}: larger than {MAX_BYTES >> 20} MiB; {MEND}")
    try:
        if text.lstrip()[:1] in ("{", "["):
            return pods.read(data.removeprefix(b"\xef\xbb\xbf"))
        return slurm.read(text) or _lines(text)
    except WrongList as error:
        raise BadInput(f"{path}: {error}") from None


def _lines(text: str) -> Placement:
    lines = [(number, words) for number, line in enumerate(text.splitlines(), 1) if (words := line.split("#", 1)[0].strip())]
    if not lines:
        raise WrongList(f"names no node; {MEND}")
    numbered = [_numbered(number, words) for number, words in lines]
    given = [one for one in numbered if one is not None]
    if not given:
        return _in_order(lines)
    if len(given) < len(lines):
        odd = lines[numbered.index(None)]
        raise WrongList(f"line {odd[0]}: {odd[1][:60]!r} gives no rank, other lines do; begin every line with its rank")
    places: dict[int, Place] = {}
    for (number, _), (rank, place) in zip(lines, given, strict=True):
        if rank in places:
            raise WrongList(f"line {number}: rank {rank} stands there twice; name each rank once")
        places[rank] = place
    return Placement(places)


def _numbered(number: int, line: str) -> tuple[int, Place] | None:
    """Rank and place of a line that begins with a rank; None where it does not."""
    if match := _RANKFILE_LINE.fullmatch(line):
        return _rank(number, match[1]), Place(_name(number, match[2]))
    if not (match := _RANK_LINE.fullmatch(line)):
        return None
    rank, words = _rank(number, match[1]), match[3].split()
    if len(words) > (1 if match[2] == ":" else 3):
        raise WrongList(f"line {number}: {line[:60]!r} is not `rank node [gpu] [nic]`; write for example `3 node1 3 mlx5_3`")
    gpu = nic = None
    if len(words) > 1 and words[1] != "-":
        if not (found := _GPU.fullmatch(words[1])):
            raise WrongList(f"line {number}: {words[1][:40]!r} is no GPU; give its number on the node, or -")
        gpu = int(found[1])
    if len(words) > 2 and words[2] != "-":
        if not _NIC.fullmatch(words[2]):
            raise WrongList(f"line {number}: {words[2][:40]!r} is no NIC; give a number or a name such as mlx5_0")
        nic = f"nic{int(words[2])}" if words[2].isdecimal() else words[2]
    return rank, Place(_name(number, words[0]), gpu, nic)


def _in_order(lines: list[tuple[int, str]]) -> Placement:
    """Nodes in order; a node that stands there several times has that many ranks."""
    slots: dict[str, int] = {}
    counted = False
    listed = 0
    for number, line in lines:
        first, *options = line.split()
        count = None
        for option in re.sub(r"\s*=\s*", "=", " ".join(options)).split():
            if not (found := _SLOTS.fullmatch(option)):
                raise WrongList(f"line {number}: {option[:40]!r} is not understood; write `node1 slots=8`, or `rank node`")
            if not option.lower().startswith("max"):
                count = int(found[1])
        try:
            for node, own in _hosts(first):
                here = count if count is not None else own
                counted |= here is not None
                listed += 1
                slots[node] = slots.get(node, 0) + (1 if here is None else here)
        except WrongList as error:
            raise WrongList(f"line {number}: {error}") from None
    return Placement.in_order(slots.items(), counted=counted or listed > len(slots))


def _hosts(words: str) -> list[tuple[str, int | None]]:
    """`node1`, `node1:8,node2:8` or `node[01-04]`, with the ranks of each where they are said."""
    if "[" in words or ":" not in words:
        return [(node, None) for node in expand(words)]
    found: list[tuple[str, int | None]] = []
    for word in words.split(","):
        match = _HOST_COUNT.fullmatch(word)
        if not match:
            raise WrongList(f"{word[:60]!r} is not `node:ranks`; write for example `node1:8`")
        found.append((node_name(match[1]), int(match[2])))
    return found


def _rank(number: int, digits: str) -> int:
    rank = int(digits)
    if rank >= MAX_RANKS:
        raise WrongList(f"line {number}: rank {rank} is beyond the {MAX_RANKS:,} that a job may have; check the file")
    return rank


def _name(number: int, word: str) -> str:
    try:
        return node_name(word)
    except WrongList as error:
        raise WrongList(f"line {number}: {error}") from None
