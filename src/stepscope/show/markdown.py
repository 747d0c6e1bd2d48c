"""A screen as Markdown (GitHub's dialect): paragraphs, tables, the strip in a code block. Names are escaped, never markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stepscope.model.table import Table
from stepscope.show import grid, safe
from stepscope.show.strip import Strip
from stepscope.show.terminal import Block, Paragraph

STRIP_COLUMNS = 100


def document(blocks: Iterable[Block]) -> str:
    """All blocks, an empty line between them; indented lines of a screen become list items."""
    lines: list[str] = []
    for block in blocks:
        item = isinstance(block, Paragraph) and block.text.startswith("  ")
        if lines and not (item and lines[-1].startswith("- ")):
            lines.append("")
        lines += _lines(block)
    return "".join(f"{line}\n" for line in lines)


def _lines(block: Block) -> Iterator[str]:
    if isinstance(block, Paragraph):
        text = safe.markdown(block.text.strip())
        yield f"- {text}" if block.text.startswith("  ") else f"**{text}**" if block.style == "bold" else text
    elif isinstance(block, Strip):
        yield from ("```text", *("".join(t for t, _ in line).rstrip() for line in block.lines(STRIP_COLUMNS)), "```")
    else:
        yield from table(block)


def table(shown: Table) -> Iterator[str]:
    """Title, heading, rows and notes as lines."""
    if shown.title:
        yield from (f"**{safe.markdown(shown.title)}**", "")
    yield _row(c.name for c in shown.columns)
    yield "|" + "|".join(" ---: " if c.right else " --- " for c in shown.columns) + "|"
    for row in shown.rows:
        yield _row(grid.text(v) for v in row)
    for note in shown.notes:
        yield from ("", safe.markdown(note))


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(safe.markdown(cell) if cell != "-" else "-" for cell in cells) + " |"
