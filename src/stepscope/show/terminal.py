"""Paragraphs, tables and strips as one screen. With colour through rich, plain otherwise; both show the same characters.

Everything is drawn from (text, style) segments, so no name is ever read as markup.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Final

from stepscope.model.table import Table
from stepscope.show import grid, safe
from stepscope.show.look import Look
from stepscope.show.strip import Segment, Strip

_UNIT: Final = re.compile(r"(?<=\d) (?=(?:%|[num]?s|[KMGT]?i?B|[kMGT]?B/s)(?![^\W_]))")  # a figure stays with its unit
STYLES: Final = {"plain": "", "bold": "bold", "dim": "dim", "good": "green", "warn": "yellow", "bad": "bold red"}


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text, wrapped; lines after the first begin with `indent` blanks. `tight`: no blank line before it."""

    text: str
    style: str = "plain"
    indent: int = 0
    tight: bool = False


Block = Paragraph | Table | Strip


def render(blocks: Iterable[Block], look: Look) -> str:
    """The screen as text that ends with a newline; escape sequences in it are only those of `look.colour`."""
    lines: list[list[Segment]] = []
    for block in blocks:
        if lines and not (isinstance(block, Paragraph) and block.tight):
            lines.append([])
        lines += _lines(block, look)
    return _coloured(lines) if look.colour else "".join("".join(t for t, _ in line).rstrip() + "\n" for line in lines)


def _lines(block: Block, look: Look) -> Iterator[list[Segment]]:
    if isinstance(block, Paragraph):
        text = safe.terminal(block.text)
        start = " " * (len(text) - len(text.lstrip()))
        hang = start + " " * block.indent
        tied = _UNIT.sub("\N{NO-BREAK SPACE}", text)
        for line in textwrap.wrap(tied, look.width, subsequent_indent=hang, break_on_hyphens=False, break_long_words=False):
            yield [(line.replace("\N{NO-BREAK SPACE}", " "), block.style)]
    elif isinstance(block, Strip):
        yield from block.lines(look.width, look.ascii)
    else:
        yield from _table(block, look)


def _table(table: Table, look: Look) -> Iterator[list[Segment]]:
    if table.title:
        yield from _lines(Paragraph(table.title, "bold"), look)
    head, rows = grid.lay_out(table, look.width - 2)
    if head:
        yield [(f"  {head}", "dim")]
    for row in rows:
        yield [(f"  {row}", "plain")]
    for note in table.notes:
        yield from _lines(Paragraph(f"  {note}", "dim"), look)


def _coloured(lines: Iterable[list[Segment]]) -> str:
    from rich.console import Console
    from rich.text import Text

    out = StringIO()
    console = Console(file=out, force_terminal=True, color_system="standard", width=10_000, highlight=False, no_color=False)
    for line in lines:
        console.print(Text.assemble(*((text, STYLES[style]) for text, style in line)), soft_wrap=True)
    return out.getvalue()
