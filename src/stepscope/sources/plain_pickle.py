"""Pickles of strangers, opened only when they hold nothing but plain data.

Every instruction is looked at before any is carried out: one that could name a class, call a function or reach outside is
refused, and so is a pickle that is too large, too long or too deep. What is left can only build dicts, lists, tuples,
strings, numbers, booleans and None.
"""

from __future__ import annotations

import io
import pickle  # noqa: TID251 - the one place that may: it reads no pickle whose instructions it has not seen
import pickletools
from pathlib import Path
from typing import Any, Final

from stepscope.model.errors import BadInput

MAX_BYTES: Final = 256 << 20  # a ring of 2,000 entries with stacks takes 3 MB; rings of 100,000 have been seen
MAX_OPCODES: Final = 50_000_000
MAX_MARKS: Final = 64  # open containers at one time; a dump nests five deep
_PLAIN_WORDS: Final = """
MARK STOP POP POP_MARK DUP PROTO FRAME NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT
STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8
EMPTY_LIST APPEND APPENDS LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT DICT SETITEM SETITEMS
PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET
"""
_PLAIN: Final = frozenset(_PLAIN_WORDS.split())


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"names {module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("refers outside")


def contents(path: Path, beyond: str, mend: str = "") -> bytes:
    """The bytes of a file that may be a pickle. Raises BadInput: larger than is opened (`beyond`), or unreadable (`mend`)."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BadInput(f"{path}: {path.stat().st_size >> 20} MB, more than {beyond}")
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error}){mend}") from None


def load(data: bytes, name: str) -> Any:
    """The plain data of a pickle. Raises BadInput, naming `name`, where it is more than that, damaged, or beyond the limits."""
    if len(data) > MAX_BYTES:
        raise BadInput(f"{name}: a pickle of {len(data) >> 20} MB, more than the {MAX_BYTES >> 20} that are opened")
    try:
        _look(data, name)
        return _Plain(io.BytesIO(data)).load()
    except BadInput:
        raise
    except Exception as error:  # a damaged pickle may raise anything
        raise BadInput(f"{name}: a damaged pickle ({type(error).__name__}: {error}); dump again") from None


def _look(data: bytes, name: str) -> None:
    open_marks = 0
    for count, (opcode, _, _) in enumerate(pickletools.genops(data)):
        if opcode.name not in _PLAIN:
            raise BadInput(f"{name}: a pickle that would run code ({opcode.name}); it is not opened")
        open_marks += opcode.name == "MARK"
        if pickletools.markobject in opcode.stack_before:
            open_marks -= 1
        if count > MAX_OPCODES or open_marks > MAX_MARKS:
            raise BadInput(f"{name}: a pickle beyond what a dump can be (instructions or nesting); it is not opened")
