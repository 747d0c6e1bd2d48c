"""How calls end: exit codes, one line instead of a traceback, a quick and complete help."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from stepscope.cli import endings
from stepscope.cli.verbs import VERBS
from stepscope.model.errors import BadInput, GateTripped, OutputRefused, UsageMistake
from tests.cli.conftest import Call

PYTHON = [sys.executable, "-m", "stepscope"]


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (BadInput("runs/fri: rank 43 has no events; record it"), 1, "stepscope: runs/fri: rank 43 has no events; record it\n"),
        (OutputRefused("x: exists"), 1, "stepscope: x: exists\n"),
        (UsageMistake("-o: empty"), 2, "stepscope: -o: empty\n"),
        (GateTripped("step 9 % slower"), 3, "stepscope: step 9 % slower\n"),
        (KeyboardInterrupt(), 130, ""),
        (click.Abort(), 130, ""),
        (MemoryError(), 1, "stepscope: memory: not enough to read this input; give fewer files, or -j 1\n"),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            1,
            "stepscope: output: no space left on device; make room or choose another place\n",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "a/b"),
            1,
            "stepscope: a/b: permission denied; check the permissions\n",
        ),
        (BrokenPipeError(), 0, ""),
        (BadInput("name \x1b[31m\u202e[red]"), 1, "stepscope: name [red]\n"),
    ],
)
def test_an_error_is_one_line_and_a_code(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings, "_abandon_stdout", lambda: None)
    assert endings.say(error) == code
    assert capsys.readouterr().err == line


def test_a_mistake_of_ours_says_where(call: Call, made: dict[str, Any], tmp_path: Path) -> None:
    made["error"] = KeyError("surprise")
    end = call("breakdown", tmp_path)
    assert end.code == 1
    line = (
        r"stepscope: this should not have happened: KeyError: 'surprise' \(in conftest.py:\d+\); please report it with the input"
    )
    assert re.fullmatch(line, end.err.strip())


def test_interrupted(call: Call, made: dict[str, Any], tmp_path: Path) -> None:
    made["error"] = KeyboardInterrupt()
    assert call("breakdown", tmp_path).code == 130


def test_usage_errors(call: Call) -> None:
    for words in (
        ["breakdown"],
        ["frobnicate"],
        ["show", "x", "--format", "xml"],
        ["show", "x", "-j", "0"],
        ["completion", "tcsh"],
    ):
        end = call(*words)
        assert end.code == 2
        assert end.err.startswith("Usage: stepscope")
        assert end.out == ""


def test_a_typing_error_gets_a_suggestion(call: Call) -> None:
    assert "Did you mean 'breakdown'?" in call("breakdwn").err


def test_help_lists_the_verbs_in_order_each_on_one_line(call: Call) -> None:
    end = call("--help")
    assert end.code == 0
    listed = re.findall(r"^  (\w+)  +(\S.*)$", end.out.split("Commands:")[1], re.MULTILINE)
    assert [verb for verb, _ in listed] == list(VERBS) == [v for v in ORDER if v in VERBS]
    assert set(VERBS) <= set(ORDER)
    assert not any(words.endswith("...") for _, words in listed)


ORDER = (
    "doctor", "import", "show", "breakdown", "hops", "compare", "simulate", "plan", "mesh", "record", "export", "demo",
    "completion",
)  # fmt: skip
"""As a user needs them."""


@pytest.mark.parametrize("words", [*([verb] for verb in VERBS), *(["export", kind] for kind in ("csv", "parquet", "json"))])
def test_every_help_has_a_sentence_and_examples(words: list[str], call: Call) -> None:
    end = call(*words, "--help")
    assert end.code == 0
    sentence = end.out.split("\n\n")[1]
    assert sentence.strip().endswith((".", "?"))
    examples = end.out.split("Examples:\n")[1].split("\n\n")[0].splitlines()
    assert examples
    assert all("stepscope " + words[0] in line for line in examples)


def test_help_is_quick_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; from stepscope.cli import main; main(['--help']); "
        "print([m for m in ('polars', 'numpy', 'rich', 'torch', 'msgspec', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_as_a_module_and_its_version() -> None:
    done = subprocess.run([*PYTHON, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("stepscope ")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run([*PYTHON, "completion", "zsh"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "stepscope: output: no space left on device; make room or choose another place\n"


def test_a_closed_pipe_is_quiet() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*PYTHON, "completion", "zsh"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete -o"), ("zsh", "#compdef stepscope"), ("fish", "complete --no-files")]
)
def test_completion_scripts(shell: str, word: str, call: Call) -> None:
    end = call("completion", shell)
    assert end.code == 0
    assert word in end.out


def test_completion_completes() -> None:
    env = os.environ | {"_STEPSCOPE_COMPLETE": "bash_complete", "COMP_WORDS": "stepscope br", "COMP_CWORD": "1"}
    done = subprocess.run(PYTHON, capture_output=True, text=True, env=env, check=False)
    assert done.stdout == "plain,breakdown\n"


def test_an_input_without_a_name_is_no_input(call: Call) -> None:
    end = call("show", "")
    assert end.code == 2
    assert "an input has an empty name" in end.err


def test_a_closed_stdout_is_said_and_a_closed_stderr_harms_nothing(demo_dir: Path) -> None:
    run = f"{sys.executable} -m stepscope show {demo_dir / 'healthy'}"
    done = subprocess.run(["bash", "-c", f"{run} >&-"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "stepscope: stdout: is closed; open it, or write to a file with -o\n")
    quiet = subprocess.run(["bash", "-c", f"{run} 2>&-"], capture_output=True, text=True, check=False)
    assert (quiet.returncode, quiet.stdout[:12]) == (0, f"{demo_dir / 'healthy'}"[:12])
