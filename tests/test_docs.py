"""Every example in README.md and docs/ is executed, and prints what the page shows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.docs_checker import blocks, check_page, check_text, examples, matches

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = [p for p in (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))) if p.is_file()]


@pytest.fixture
def folder(tmp_path: Path, demo_dir: Path) -> Path:
    """A place like the repository's root, where examples find `demo/` and may write without leaving anything behind."""
    shutil.copytree(demo_dir, tmp_path / "demo")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_page_shows_what_happens(page: Path, folder: Path) -> None:
    assert check_page(page, folder).wrong == []


CONSOLE: Final = """
```console
$ stepscope --help
{shown}
```
"""


def test_a_right_example_passes(tmp_path: Path) -> None:
    checked = check_text(CONSOLE.format(shown="Usage: stepscope [OPTIONS] COMMAND [ARGS]...\n..."), "page.md", tmp_path)

    assert (checked.executed, checked.wrong) == (1, [])


@pytest.mark.parametrize("shown", ["", "Usage: stepscope", "...\nUsage: something else\n...", "...\nno such line"])
def test_a_wrong_example_is_caught(tmp_path: Path, shown: str) -> None:
    (wrong,) = check_text(CONSOLE.format(shown=shown), "page.md", tmp_path).wrong or [""]

    assert wrong.startswith("page.md:3: $ stepscope --help\n")
    assert "it prints\nUsage: stepscope [OPTIONS]" in wrong


def test_a_wrong_python_example_is_caught(tmp_path: Path) -> None:
    text = "```python\n>>> n = 41\n```\ntext\n```python\n>>> n + 1\n42\n>>> n + 2\n44\n```\n"

    checked = check_text(text, "page.md", tmp_path)

    assert checked.executed == 2
    assert checked.wrong is not None
    assert len(checked.wrong) == 1
    assert "Expected:\n    44\nGot:\n    43\n" in checked.wrong[0]


def test_what_is_marked_is_not_executed(tmp_path: Path) -> None:
    text = "<!-- not executed: needs a cluster -->\n" + CONSOLE.format(shown="nothing").lstrip()

    checked = check_text(text, "page.md", tmp_path)

    assert (checked.executed, checked.left_out, checked.wrong) == (0, 1, [])


def test_a_mark_without_a_reason_marks_nothing() -> None:
    (block,) = blocks("<!-- not executed: -->\n```console\n$ stepscope --help\n```\n")

    assert block.left_out is None


def test_commands_are_split_from_what_they_print() -> None:
    (block,) = blocks(
        "- item\n\n  ```console\n  $ stepscope import a \\\n  >   -o b.run\n  made b.run\n\n  $ stepscope show b.run\n  ```\n"
    )

    assert [(e.line, e.command, e.shown) for e in examples(block)] == [
        (4, "stepscope import a \\\n  -o b.run", ("made b.run",)),
        (8, "stepscope show b.run", ()),
    ]


def test_blocks_of_other_commands_are_left_alone() -> None:
    (block,) = blocks("```console\n$ make demo\n```\n")

    assert examples(block) == []


@pytest.mark.parametrize("text", ["```console\n$ make demo\n$ stepscope demo\n```", "```console\nstepscope demo\n```"])
def test_a_block_that_cannot_be_checked_is_refused(text: str) -> None:
    (block,) = blocks(text)

    with pytest.raises(ValueError, match="line 2"):
        examples(block)


def test_a_block_that_is_not_closed_is_refused() -> None:
    with pytest.raises(ValueError, match="not closed"):
        blocks("```console\n$ stepscope demo\n")


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a b", "a b", True),
        ("a b", "a", False),
        ("a", "a b", False),
        ("a ... c", "a b b c", True),
        ("a ... c", "a c", True),
        ("a ... c", "a b", False),
        ("a ... b ... c", "a x b y c", True),
        ("a ... b ... c", "a c b", False),
        ("... c", "a b c", True),
        ("a ...", "b a", False),
        ("a ... a", "a", False),
    ],
)
def test_dots_stand_for_any_lines(shown: str, printed: str, same: bool) -> None:
    assert matches(tuple(shown.split()), tuple(printed.split())) is same
