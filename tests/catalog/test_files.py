"""The files themselves: each loads, each number says where it is from, and no name is told twice."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stepscope.catalog
from stepscope.catalog.gpu import gpu_names, load_gpu
from stepscope.catalog.model import load_model, model_names
from stepscope.catalog.system import load_system, system_names

HOME = Path(stepscope.catalog.__file__).parent
FILES = sorted(HOME.rglob("*.toml"))
WORDS = ("published: ", "measured: ", "derived: ", "assumed: ", "fitted: ")


def numbers(value: Any, source: str | None, at: str) -> Iterator[tuple[str, str | None]]:
    """Each number below, with the source of the innermost table that has one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, value.get("source", source), f"{at}.{key}")
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from numbers(inner, source, f"{at}[{i}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield at, source


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_number_has_a_source(path: Path) -> None:
    found = list(numbers(tomllib.loads(path.read_text()), None, path.stem))

    assert found
    assert [at for at, source in found if source is None or not source.startswith(WORDS)] == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_no_source_is_a_place_on_somebodys_machine(path: Path) -> None:
    assert re.findall(r"(?<![\w.])/(?!dev/)\w+/\w+|\.\./", path.read_text()) == []


def test_what_was_promised_is_there() -> None:
    assert gpu_names() == (
        "a100-sxm-40gb",
        "a100-sxm-80gb",
        "b200-sxm",
        "h100-sxm",
        "h100-sxm-96gb",
        "h200-sxm",
        "l40s",
        "mi300x",
        "v100-sxm2-32gb",
    )
    assert {"hgx-h100", "dgx-a100", "p4d", "p5", "nd-h100-v5", "a3-mega", "dgx-1v", "dgx-2", "nd-mi300x-v5"} <= {*system_names()}
    sizes = ("125m", "350m", "760m", "1b", "3b", "7b", "13b", "30b", "70b")
    assert {f"mpt-{size}" for size in sizes} <= {*model_names()}
    assert {"gpt-125m", "gpt-70b", "llama2-7b", "llama2-13b", "llama2-70b"} <= {*model_names()}
    assert {"llama3-8b", "llama3-70b", "llama3-405b", "qwen2.5-7b", "qwen2.5-72b", "illustrative-3b"} <= {*model_names()}


def test_a_file_is_named_like_what_it_holds() -> None:
    assert [load_gpu(name).name for name in gpu_names()] == [*gpu_names()]
    assert [load_system(name).name for name in system_names()] == [*system_names()]
    assert [load_model(name).name for name in model_names()] == [*model_names()]
