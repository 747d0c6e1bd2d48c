"""Does a page show what really happens? Runs its examples and compares what they print.

A ```console block whose lines start with `$ stepscope` is run in bash, a ```python block with `>>>` by doctest; other blocks
are left alone. In what a block shows, a line `...` stands for any lines, none included. The examples of one page share a
folder, so one may read what an earlier one wrote. `<!-- not executed: reason -->` on the line before a block leaves it out.

`python -m tests.docs_checker [--write] [PAGE...]` does it from the command line, for README.md and docs/ unless pages are
named; with `--write` what is printed goes into the pages (`docs_writer`).
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FENCE: Final = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<word>\w*)[^`]*$")
NOT_EXECUTED: Final = re.compile(r"^\s*<!-- not executed: (?P<reason>\S.*) -->\s*$")
SCREEN: Final = {"NO_COLOR": "1", "COLUMNS": "100"}
LIMIT_S: Final = 120


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the line of the page that its text starts on, its lines, why it is not executed."""

    language: str
    line: int
    lines: tuple[str, ...]
    left_out: str | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """One command of a console block and what the page shows after it."""

    line: int
    command: str
    shown: tuple[str, ...]


@dataclass(slots=True)
class Checked:
    """How many examples of a page were executed, how many blocks left out, and what differs."""

    executed: int = 0
    left_out: int = 0
    wrong: list[str] | None = None


def check_page(page: Path, folder: Path) -> Checked:
    """Executes the page's examples in `folder`."""
    return check_text(page.read_text(encoding="utf-8"), page.name, folder)


def check_text(text: str, name: str, folder: Path) -> Checked:
    """The same for a page's text; `name` is what the messages call it."""
    checked = Checked(wrong=[])
    assert checked.wrong is not None
    scope: dict[str, Any] = {}
    for block in blocks(text):
        if block.left_out is not None:
            checked.left_out += 1
        elif block.language == "console":
            for example in examples(block):
                checked.executed += 1
                printed = run(example.command, folder)
                if not matches(example.shown, printed):
                    shown = "\n".join(example.shown)
                    real = "\n".join(printed)
                    checked.wrong.append(
                        f"{name}:{example.line}: $ {example.command}\n--- the page shows\n{shown}\n--- it prints\n{real}\n"
                    )
        elif block.language in ("python", "pycon") and any(line.lstrip().startswith(">>>") for line in block.lines):
            checked.executed += 1
            failure = doctest_block(block, name, scope, folder)
            if failure:
                checked.wrong.append(f"{name}:{block.line}: {failure}")
    return checked


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page in order. ValueError where one is not closed."""
    found: list[Block] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        opened = FENCE.match(lines[at])
        at += 1
        if not opened:
            continue
        start, indent = at, len(opened["indent"])
        while at < len(lines) and lines[at].strip() != opened["fence"]:
            at += 1
        if at == len(lines):
            raise ValueError(f"line {start}: the block is not closed")
        before = NOT_EXECUTED.match(lines[start - 2]) if start >= 2 else None
        body = tuple(line[indent:] if line[:indent].isspace() else line for line in lines[start:at])
        found.append(Block(opened["word"], start + 1, body, before["reason"] if before else None))
        at += 1
    return found


def examples(block: Block) -> list[Example]:
    """The commands of a console block; empty when none of them is stepscope. ValueError when only some are."""
    found: list[tuple[int, list[str], list[str]]] = []
    continued = False
    for number, line in enumerate(block.lines, block.line):
        if line.startswith("$ "):
            found.append((number, [line[2:]], []))
        elif continued and line.startswith("> "):
            found[-1][1].append(line[2:])
        elif found:
            found[-1][2].append(line)
        elif line.strip():
            raise ValueError(f"line {number}: a console block starts with a `$ ` line")
        continued = bool(found) and not found[-1][2] and found[-1][1][-1].endswith("\\")
    ours = [command[0].split()[:1] == ["stepscope"] for _, command, _ in found]
    if any(ours) and not all(ours):
        raise ValueError(f"line {block.line}: stepscope and other commands in one block; give each its own")
    return [Example(n, "\n".join(command), _trimmed(shown)) for n, command, shown in found] if all(ours) else []


def run(command: str, folder: Path) -> tuple[str, ...]:
    """What a terminal would show of the command: stdout and stderr together, without colour, 100 columns wide."""
    path = os.pathsep.join(p for p in sys.path if p)  # absolute, so that the example finds the package from any folder
    script = f'stepscope() {{ "$PYTHON_OF_TESTS" -m stepscope "$@"; }}\n{command}'
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, **SCREEN, "PYTHONPATH": path, "PYTHON_OF_TESTS": sys.executable},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=LIMIT_S,
        check=False,
    )
    return _trimmed(done.stdout.splitlines())


def matches(shown: tuple[str, ...], printed: tuple[str, ...]) -> bool:
    """Are the lines the same, a shown `...` standing for any number of lines? Blanks at the end of a line do not count."""
    pieces: list[list[str]] = [[]]
    for line in shown:
        if line.strip() == "...":
            pieces.append([])
        else:
            pieces[-1].append(line.rstrip())
    lines = [line.rstrip() for line in printed]
    first, *others = pieces
    if not others:
        return lines == first
    if lines[: len(first)] != first:
        return False
    at = len(first)
    for piece in others[:-1]:
        starts = range(at, len(lines) - len(piece) + 1)
        start = next((s for s in starts if lines[s : s + len(piece)] == piece), None)
        if start is None:
            return False
        at = start + len(piece)
    last = others[-1]
    return len(lines) - len(last) >= at and (not last or lines[-len(last) :] == last)


def doctest_block(block: Block, name: str, scope: dict[str, Any], folder: Path) -> str | None:
    """What doctest says of the block where it fails, else None. Names made in it stay in `scope` for later blocks."""
    test = doctest.DocTestParser().get_doctest("\n".join(block.lines) + "\n", scope, name, name, block.line - 1)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    said = io.StringIO()
    before = {key: os.environ.get(key) for key in SCREEN}
    os.environ.update(SCREEN)
    try:
        with contextlib.chdir(folder):
            runner.run(test, out=said.write, clear_globs=False)
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
    scope.update(test.globs)
    return said.getvalue() if runner.failures else None


def _trimmed(lines: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return tuple(lines[:end])


def main(arguments: list[str]) -> int:
    """Checks the pages, or writes them; 1 where something is left to mend."""
    from tests.docs_writer import ROOT, scratch, write_page

    writing = "--write" in arguments
    named = [Path(word) for word in arguments if word != "--write"]
    wrong: list[str] = []
    for page in named or [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]:
        with scratch() as folder:
            wrong += write_page(page, folder) if writing else check_page(page, folder).wrong or []
    print("\n".join(wrong) if wrong else "nothing to mend")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
