"""What was not recorded, as the last lines of a screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stepscope.model.info import Gap
from stepscope.show import units
from stepscope.show.terminal import Block, Paragraph

MOST_GAPS: Final = 8


def gap_lines(gaps: Sequence[Gap]) -> Iterator[Block]:
    """What was not recorded: at most `MOST_GAPS` lines, then how many are left."""
    if gaps:
        yield Paragraph("Not recorded, or recorded with a limit", "bold")
    for gap in gaps[:MOST_GAPS]:
        yield Paragraph("  " + gap_text(gap), indent=2, tight=True)
    if len(gaps) > MOST_GAPS:
        yield Paragraph(f"  and {len(gaps) - MOST_GAPS} more: see --format json", "dim", tight=True)


def gap_text(gap: Gap) -> str:
    """`what (ranks 0-3): why`."""
    ranks = f" ({'rank' if len(gap.ranks) == 1 else 'ranks'} {units.rank_list(gap.ranks)})" if gap.ranks else ""
    return f"{gap.what}{ranks}: {gap.why}"
