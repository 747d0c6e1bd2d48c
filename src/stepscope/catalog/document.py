"""A TOML file, ours by name or a stranger's by path, decoded into a value: what is wrong with it is said in one line.

A stranger's file is bounded in size, must be a regular file, and may hold nothing but the keys it should: a key that is not
known is refused, since a misspelt one would silently leave a default in place.
"""

from __future__ import annotations

import re
import stat
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import msgspec

from stepscope.model.errors import BadInput, UsageMistake

T = TypeVar("T")

MAX_BYTES: Final = 256 * 1024
MOST_NAME: Final = 300
_HOME: Final = Path(__file__).parent
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<key>.*?)`(?: - at `\$(?P<at>.*)`)?$", re.DOTALL)
_WRONG: Final = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<at>.*)`)?$", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(?P<key>.*)`$")


class Sourced(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of numbers. `source` starts with published, measured, derived or assumed and says by whom or from what."""

    source: str = "not given"


def names(folder: str) -> tuple[str, ...]:
    """What the catalog has in that folder (`gpus`, `systems`, `models`), sorted."""
    return tuple(sorted(path.stem for path in (_HOME / folder).glob("*.toml")))


def shipped(name: str) -> str:
    """Text of a file of the catalog."""
    return (_HOME / name).read_text(encoding="utf-8")


def load(wanted: str | Path, folder: str, noun: str, kind: type[T]) -> tuple[str, T]:
    """The file that `wanted` means, decoded, and what to call it in messages.

    A Path, or text with a slash or ending in .toml, is a user's file (BadInput for what is wrong in it); anything else is a
    name of the catalog (UsageMistake where there is none such, with the nearest).
    """
    if isinstance(wanted, Path) or "/" in wanted or wanted.endswith(".toml"):
        return said(wanted), decode(_read(Path(wanted)), kind, said(wanted))
    known = names(folder)
    if wanted not in known:
        raise UsageMistake(unknown(wanted, noun, known))
    return wanted, decode(shipped(f"{folder}/{wanted}.toml"), kind, wanted)


def said(path: str | Path) -> str:
    """A path as messages name it: of an endless one the beginning."""
    text = str(path)
    return text if len(text) <= MOST_NAME else f"{text[:MOST_NAME]}..."


def unknown(wanted: str, noun: str, known: Sequence[str]) -> str:
    """`llama3-9b: no such model; did you mean llama3-8b? known: …`."""
    near = get_close_matches(wanted[:80].lower(), known, n=1, cutoff=0.5)
    asked = f"did you mean {near[0]}? " if near else ""
    return f"{wanted.strip()[:80] or repr(wanted[:80])}: no such {noun}; {asked}known: {', '.join(known)}"


def decode(text: str, kind: type[T], where: str) -> T:
    """TOML text as a value of that kind; BadInput names the key that is wrong and how to mend it."""
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise BadInput(f"{where}: nested too deeply; the catalog's files show the tables that are expected") from None
    except ValueError as error:  # TOMLDecodeError, and integers too long to read
        raise BadInput(f"{where}: not TOML ({error}); mend that line") from None
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise BadInput(f"{where}: {_explain(str(error), kind)}") from None


def _read(path: Path) -> str:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise BadInput(f"{said(path)}: not a file; give a TOML file or a name of the catalog")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BadInput(f"{said(path)}: {why}; give a TOML file that can be read, or a name of the catalog") from None
    except ValueError:  # a NUL in the name
        raise BadInput(f"{said(path)}: no path; give a TOML file or a name of the catalog") from None
    if len(content) > MAX_BYTES:
        raise BadInput(f"{said(path)}: larger than {MAX_BYTES // 1024} KiB; a description needs a few, so this is another file")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"{said(path)}: not text in UTF-8; give a TOML file") from None


def _explain(message: str, kind: type) -> str:
    """What msgspec found, in the words of the file: the key first, the mend last."""
    odd = _UNKNOWN.match(message)
    if odd:
        at, key = (odd["at"] or "").removeprefix("."), odd["key"][:80]
        known = _fields(kind, at)
        near = get_close_matches(key, known, n=1)
        mend = f"rename it to {near[0]}" if near else "remove it"
        return f"{f'{at}.' if at else ''}{key}: no such key; {mend} (known here: {', '.join(known)})"
    wrong = _WRONG.match(message)
    assert wrong is not None  # the pattern matches any text
    at, what = (wrong["at"] or "").removeprefix("."), wrong["what"]
    lost = _MISSING.match(what)
    if lost:
        return f"{f'{at}.' if at else ''}{lost['key']}: missing; add it"
    return f"{at or 'the file'}: {what[:1].lower()}{what[1:].replace('`', '')}; mend that value"


def _fields(kind: Any, at: str) -> tuple[str, ...]:
    """Keys that the table at that place of the file may have; `at` is msgspec's path, as in `wiring.gpus[...].nics`."""
    for step in re.sub(r"\[[^\]]*\]", "", at).split("."):
        if step:
            table = next((t for t in _structs(kind) if step in _types(t)), None)
            kind = _types(table)[step] if table else None
    return tuple(key for table in _structs(kind) for key in _types(table))


def _types(table: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(table)}


def _structs(kind: Any) -> list[type[msgspec.Struct]]:
    """The tables that an annotation may stand for: itself, or those inside a union, a tuple or a list."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [kind]
    return [table for inner in get_args(kind) for table in _structs(inner)]
