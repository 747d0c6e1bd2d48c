"""`--rank-map FILE`: which file is which rank, where the traces do not say it themselves.

A JSON object `{"worker-a.json": 0}`, or lines `worker-a.json 0`; `#` starts a comment. Names are paths or bare file names.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from stepscope.model.errors import BadInput

MOST_BYTES = 16 * 2**20
MOST_RANKS = 1 << 24


def read_rank_map(path: Path) -> dict[str, int]:
    """File name to rank. Raises BadInput for what is no map, a rank that is no whole number, a rank named twice."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise BadInput(f"{path}: too large for a rank map; give one line `file rank` per file")
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 text; a rank map is a JSON object or lines `file rank`") from error
    except OSError as error:
        raise BadInput(f"{path}: {(error.strerror or 'cannot be read').lower()}; check --rank-map") from error
    pairs = _from_json(path, text) if text.lstrip().startswith("{") else _from_lines(path, text)
    if not pairs:
        raise BadInput(f"{path}: names no file; a rank map is a JSON object or lines `file rank`")
    for word, values in (("file", [name for name, _ in pairs]), ("rank", [rank for _, rank in pairs])):
        for value, times in Counter(values).items():
            if times > 1:
                raise BadInput(f"{path}: {word} {value} stands there {times} times; name each {word} once")
    return dict(pairs)


def _from_json(path: Path, text: str) -> list[tuple[str, int]]:
    import json

    try:
        found = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not JSON; a rank map is an object from file name to rank") from error
    return [(str(name), _rank(path, str(name), rank)) for name, rank in found]


def _from_lines(path: Path, text: str) -> list[tuple[str, int]]:
    pairs = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].rsplit(maxsplit=1)
        if not words:
            continue
        if len(words) != 2:
            raise BadInput(f"{path}: line {number} is not `file rank`; write for example `worker-a.json 0`")
        pairs.append((words[0].strip(), _rank(path, f"line {number}", words[1])))
    return pairs


def _rank(path: Path, where: str, value: object) -> int:
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and len(text) <= 8) or int(text) >= MOST_RANKS:
        raise BadInput(f"{path}: {where}: {text[:40]!r} is no rank; ranks are whole numbers from 0")
    return int(text)
