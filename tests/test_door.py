"""The package's door: exactly its documented names, and nothing heavy behind it until one is used."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

import stepscope

NAMES: Final = {
    "read", "breakdown", "compare", "hops", "plan", "record", "simulate", "Run", "Breakdown", "Comparison", "Hops",
    "MemoryPlan", "Simulated", "StepscopeError",
    "__version__",
}  # fmt: skip
HEAVY: Final = ("polars", "numpy", "torch", "rich", "click", "isal", "msgspec")
HEAVY_FOR_HELP: Final = ("polars", "numpy", "torch", "isal")
CALL_HELP: Final = "import sys; from stepscope.cli import main; code = main(['--help'])"


def loaded_after(statement: str, packages: tuple[str, ...]) -> list[str]:
    """Which of the packages a fresh interpreter has loaded after the statement."""
    code = f"{statement}\nimport sys\nprint(','.join(p for p in {packages!r} if p in sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [p for p in done.stderr.strip().split(",") if p]


def test_the_door_has_exactly_its_documented_names() -> None:
    assert set(stepscope.__all__) == NAMES
    assert len(stepscope.__all__) == len(NAMES)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_name_is_there_and_documented(name: str) -> None:
    value = getattr(stepscope, name)

    assert value is not None
    if name != "__version__":
        assert callable(value)
        assert value.__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="colour"):
        _ = stepscope.colour


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert stepscope.__version__ == version("stepscope")


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_after("import stepscope", HEAVY) == []


def test_help_loads_nothing_heavy() -> None:
    assert loaded_after(CALL_HELP, HEAVY_FOR_HELP) == []


def test_the_check_sees_what_is_loaded() -> None:
    assert loaded_after("import click", HEAVY) == ["click"]


def test_help_of_the_module_is_that_of_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "stepscope", "--help"], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("Usage: stepscope ")
    assert done.stderr == ""
