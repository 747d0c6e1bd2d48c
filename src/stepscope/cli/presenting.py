"""How an answer leaves: text for a screen, JSON, CSV, Markdown or a diagram, to stdout or to a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from stepscope.cli.output import Output

if TYPE_CHECKING:
    from stepscope.show.terminal import Block


@dataclass(frozen=True, slots=True)
class Answer:
    """One result in every shape; a shape is made only when it is asked for."""

    blocks: Callable[[], Iterable[Block]]
    document: Callable[[], dict[str, Any]]
    csv: Callable[[], str] = str
    mermaid: Callable[[], str] = str


@dataclass(frozen=True, slots=True)
class Presenting:
    """The shape (text, json, csv, markdown, mermaid), the place, and the colour that the user wants."""

    format: str
    output: Output
    color: Literal["auto", "always", "never"] = "auto"

    def check(self) -> None:
        """Raises OutputRefused early, before the work."""
        self.output.check()

    def show(self, answer: Answer) -> None:
        """Writes the answer; raises OutputRefused or OSError."""
        self.output.write(self._text(answer))

    def _text(self, answer: Answer) -> str:
        if self.format == "json":
            from stepscope.show import json

            return json.encode(answer.document(), indent=self.output.to_terminal)
        if self.format == "csv":
            return answer.csv()
        if self.format == "mermaid":
            return answer.mermaid()
        if self.format == "markdown":
            from stepscope.show import markdown

            return markdown.document(answer.blocks())
        from stepscope.show.look import Look, look_for
        from stepscope.show.terminal import render

        look = look_for(sys.stdout, self.color) if self.output.path is None else Look(colour=self.color == "always")
        return render(answer.blocks(), look)
