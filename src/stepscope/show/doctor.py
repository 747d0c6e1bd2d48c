"""What a recording can answer and what not, as a screen: each open question with what is missing and how to record it."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.model.doctor import Examination
from stepscope.show import units
from stepscope.show.terminal import Block, Paragraph


def blocks(found: Examination) -> Iterator[Block]:
    """Two lists, and a line that counts them first."""
    total = len(found.can) + len(found.cannot)
    yield Paragraph(f"This recording answers {len(found.can)} of {units.count(total, 'question')}.", "bold")
    if found.can:
        yield Paragraph("It can answer", "bold")
        for question in found.can:
            yield Paragraph(f"  + {question}", "good", indent=2, tight=True)
    if found.cannot:
        yield Paragraph("It cannot answer", "bold")
    for open_question in found.cannot:
        yield Paragraph(f"  - {open_question.question}", "warn", indent=2, tight=True)
        yield Paragraph(f"    missing: {open_question.missing}", indent=2, tight=True)
        yield Paragraph(f"    record:  {open_question.how_to_record}", indent=2, tight=True)
