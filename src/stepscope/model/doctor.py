"""What `doctor` finds: the questions a recording can answer, those it cannot, and how to record so that it can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepscope.model.table import Column, Table

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Question:
    """A question that stays open: what the recording lacks for it, and how to record that next time."""

    question: str
    missing: str
    how_to_record: str


@dataclass(frozen=True, slots=True)
class Examination:
    """`can` are the questions that this recording answers, `cannot` the open ones."""

    can: tuple[str, ...]
    cannot: tuple[Question, ...]

    def frame(self) -> pl.DataFrame:
        """One row per question: question, answered, missing, how_to_record (the last two null where it is answered)."""
        import polars as pl

        return pl.DataFrame(
            [(q, True, None, None) for q in self.can] + [(q.question, False, q.missing, q.how_to_record) for q in self.cannot],
            schema={"question": pl.String, "answered": pl.Boolean, "missing": pl.String, "how_to_record": pl.String},
            orient="row",
        )

    def table(self) -> Table:
        """The same rows as a table, `yes` or `no` for answered."""
        rows = [(q, "yes", None, None) for q in self.can] + [(q.question, "no", q.missing, q.how_to_record) for q in self.cannot]
        columns = (Column("question"), Column("answered"), Column("missing"), Column("how to record"))
        return Table("What this recording can answer", columns, tuple(rows))

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
