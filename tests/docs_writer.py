"""Makes a page show what really happens: runs its examples and writes down what they print, in place.

Outputs change with the product; this is how the pages follow. Where a block leaves lines out with `...`, the lines around
them are looked for in the new output by their words (figures do not count), so that the same stretches stay shown. What
cannot be placed is left as it is and told, for a person to mend. Read the difference before you commit it.
"""

from __future__ import annotations

import contextlib
import difflib
import doctest
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from tests.docs_checker import SCREEN, Block, blocks, examples, matches, run

ROOT: Final = Path(__file__).resolve().parents[1]
ELISION: Final = "..."
ALIKE: Final = 0.6  # share of characters, figures aside, from which two lines are taken for the same one
SPARE: Final = 3  # lines by which a first paragraph may have grown and still be shown whole
BUGS: Final = ("this should not have happened", "Traceback (most recent call last)", "No module named stepscope")
_FIGURE: Final = re.compile(r"[<+-]?\d[\d,.]*")
_BLANKS: Final = re.compile(r"\s+")

Edit = tuple[int, int, list[str]]
"""Lines [first, last) of the page, counted from 0, and what stands there instead."""


class CannotPlace(Exception):
    """A shown line that nothing in the new output resembles."""


@contextlib.contextmanager
def scratch(demo: Path = ROOT / "demo") -> Iterator[Path]:
    """A folder like the repository's root: examples find `demo/` there and may write."""
    with tempfile.TemporaryDirectory(prefix="stepscope-docs-") as name:
        shutil.copytree(demo, Path(name, "demo"))
        yield Path(name)


def write_page(page: Path, folder: Path) -> list[str]:
    """Rewrites the page where what it shows differs from what is printed; what a person has to mend."""
    text = page.read_text(encoding="utf-8")
    written, problems = write_text(text, page.name, folder)
    if written != text:
        page.write_text(written, encoding="utf-8")
    return problems


def write_text(text: str, name: str, folder: Path) -> tuple[str, list[str]]:
    """The page with the outputs of its examples, executed in `folder`, and what could not be written."""
    lines = text.splitlines()
    edits: list[Edit] = []
    problems: list[str] = []
    scope: dict[str, Any] = {}
    for block in blocks(text):
        if block.left_out is not None:
            continue
        if block.language == "console":
            edits += _console(block, lines, name, folder, problems)
        elif block.language in ("python", "pycon"):
            edits += _python(block, lines, name, folder, scope, problems)
    for first, last, new in sorted(edits, key=lambda edit: edit[0], reverse=True):
        lines[first:last] = new
    return "\n".join(lines) + ("\n" if text.endswith("\n") else ""), problems


def fit(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """`printed` with the same stretches left out as in `shown`. Raises CannotPlace."""
    pieces: list[list[str]] = [[]]
    for line in shown:
        if line.strip() == ELISION:
            pieces.append([])
        else:
            pieces[-1].append(line)
    if len(pieces) == 1:
        return list(printed)
    fitted: list[str] = []
    at = 0
    for number, piece in enumerate(pieces):
        if number:
            fitted.append(ELISION)
        if not piece:
            continue
        start = 0 if number == 0 else _alike(piece[0], printed, at)
        if number == len(pieces) - 1:
            end = len(printed)
        elif number == 0:
            end = _end_of_head(piece, printed)
        else:
            end = _alike(piece[-1], printed, start + (len(piece) > 1)) + 1
        fitted += printed[start:end]
        at = end
    return fitted


def _console(block: Block, lines: list[str], name: str, folder: Path, problems: list[str]) -> list[Edit]:
    edits: list[Edit] = []
    for example in examples(block):
        printed = run(example.command, folder)
        if matches(example.shown, printed):
            continue
        if any(bug in line for line in printed for bug in BUGS):
            problems.append(f"{name}:{example.line}: $ {example.command}\na bug, not an output: {printed[-1]}")
            continue
        first = example.line - 1 + len(example.command.split("\n"))
        try:
            new = fit(example.shown, printed)
        except CannotPlace as error:
            problems.append(f"{name}:{example.line}: $ {example.command}\nnothing printed resembles: {error}")
            continue
        edits.append((first, first + len(example.shown), _indented(new, lines[example.line - 1])))
    return edits


def _python(block: Block, lines: list[str], name: str, folder: Path, scope: dict[str, Any], problems: list[str]) -> list[Edit]:
    test = doctest.DocTestParser().get_doctest("\n".join(block.lines) + "\n", scope, name, name, block.line - 1)
    runner = _Collecting()
    before = {key: os.environ.get(key) for key in SCREEN}
    os.environ.update(SCREEN)
    try:
        with contextlib.chdir(folder):
            runner.run(test, out=lambda _: None, clear_globs=False)
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.update({key: value})
    scope.update(test.globs)
    edits: list[Edit] = []
    for example, got in runner.wrong:
        place = block.line - 1 + example.lineno
        if got is None or ELISION in example.want:
            problems.append(f"{name}:{place + 1}: >>> {example.source.strip()}\nfails, or leaves a part out: mend it by hand")
            continue
        first = place + len(example.source.splitlines())
        new = [line if line.strip() else "<BLANKLINE>" for line in got.splitlines()]
        edits.append((first, first + len(example.want.splitlines()), _indented(new, lines[place])))
    return edits


class _Collecting(doctest.DocTestRunner):
    """Keeps what each wrong example printed; None where it raised."""

    def __init__(self) -> None:
        super().__init__(optionflags=doctest.ELLIPSIS, verbose=False)
        self.wrong: list[tuple[doctest.Example, str | None]] = []

    def report_failure(self, out: object, test: object, example: doctest.Example, got: str) -> None:
        self.wrong.append((example, got))

    def report_unexpected_exception(self, out: object, test: object, example: doctest.Example, exc_info: object) -> None:
        self.wrong.append((example, None))


def _end_of_head(piece: Sequence[str], printed: Sequence[str]) -> int:
    """How far the first stretch goes: to its last line, to the end of the first paragraph, or as many lines as before."""
    if len(piece) == 1:
        return 1
    if any(not line.strip() for line in piece):
        return _alike(piece[-1], printed, 1) + 1
    blank = next((number for number, line in enumerate(printed) if not line.strip()), len(printed))
    with contextlib.suppress(CannotPlace):
        return _alike(piece[-1], printed[:blank], 1) + 1
    return blank if blank <= len(piece) + SPARE else len(piece)


def _alike(line: str, printed: Sequence[str], at: int) -> int:
    """Where from `at` on the line stands that resembles `line` most; the first of several."""
    wanted = _words(line)
    best, place = ALIKE, -1
    for number in range(at, len(printed)):
        share = difflib.SequenceMatcher(None, wanted, _words(printed[number]), autojunk=False).ratio()
        if share > best or (share == best and place < 0):
            best, place = share, number
    if place < 0:
        raise CannotPlace(line)
    return place


def _words(line: str) -> str:
    return _BLANKS.sub(" ", _FIGURE.sub("0", line)).strip()


def _indented(new: Sequence[str], like: str) -> list[str]:
    indent = like[: len(like) - len(like.lstrip())]
    return [indent + line.rstrip() if line.strip() else "" for line in new]
