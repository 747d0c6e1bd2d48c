"""Rewriting a page's outputs: what is shown follows the product, what is left out stays left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs_checker import check_text
from tests.docs_writer import CannotPlace, fit, write_text

PAGE = """\
# A page

- item

  ```console
  $ stepscope --version
  stepscope 0.0.0
  and a line that is gone
  ```

```console
$ stepscope --help
Usage: something old
...
  show        What did a run, a trace folder or a dump hold?
...
```

<!-- not executed: needs a cluster -->
```console
$ stepscope demo
nothing
```

```python
>>> print("a\\n\\nb")
a
>>> 40 + 2
41
```
"""


def test_what_is_printed_is_written_and_then_checks(tmp_path: Path) -> None:
    written, problems = write_text(PAGE, "page.md", tmp_path)

    assert problems == []
    assert check_text(written, "page.md", tmp_path).wrong == []
    assert "gone" not in written
    assert "  $ stepscope --version\n  stepscope" in written
    assert "Usage: stepscope [OPTIONS] COMMAND [ARGS]...\n...\n  show        What does a run" in written
    assert "$ stepscope demo\nnothing\n" in written
    assert '>>> print("a\\n\\nb")\na\n<BLANKLINE>\nb\n>>> 40 + 2\n42\n```\n' in written


def test_a_page_that_is_right_is_left_alone(tmp_path: Path) -> None:
    once, _ = write_text(PAGE, "page.md", tmp_path)

    assert write_text(once, "page.md", tmp_path) == (once, [])


def test_stretches_follow_their_words_not_their_figures() -> None:
    shown = ["Step 70.1 ms", "...", "  part     mean", "  forward  2.49", "...", "  step    70.13", "..."]
    printed = [
        "Step 81.0 ms",
        "",
        "Where",
        "  part     mean",
        "  input    0.10",
        "  forward  3.00",
        "  copy",
        "  step    81.00",
        "end",
    ]

    assert fit(shown, printed) == [
        "Step 81.0 ms", "...", "  part     mean", "  input    0.10", "  forward  3.00", "...", "  step    81.00", "...",
    ]  # fmt: skip


def test_the_end_is_kept_to_the_end() -> None:
    assert fit(["...", "wrote 1 file", "done"], ["head", "wrote 2 files", "a note", "done"]) == [
        "...",
        "wrote 2 files",
        "a note",
        "done",
    ]


def test_a_stretch_that_is_gone_is_told_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(CannotPlace):
        fit(["...", "no such thing at all", "..."], ["Usage", "Options"])

    text = "```console\n$ stepscope --help\nUsage: x\n...\nqqqq zzzz qqqq zzzz\n...\n```\n"
    written, problems = write_text(text, "page.md", tmp_path)

    assert written == text
    assert problems == ["page.md:2: $ stepscope --help\nnothing printed resembles: qqqq zzzz qqqq zzzz"]


def test_python_that_fails_is_told(tmp_path: Path) -> None:
    text = "```python\n>>> 1 / 0\n1\n```\n"

    written, problems = write_text(text, "page.md", tmp_path)

    assert written == text
    assert len(problems) == 1


def test_a_bug_is_not_written_into_the_page(tmp_path: Path) -> None:
    text = "```console\n$ stepscope --help | sed 's/^/stepscope: this should not have happened: /'\nUsage\n```\n"

    written, problems = write_text(text, "page.md", tmp_path)

    assert written == text
    assert len(problems) == 1
    assert "a bug, not an output" in problems[0]
