"""Imports go one way: the arrows of src/stepscope are read with `ast`, and any arrow that is not listed here fails."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).resolve().parents[1] / "src" / "stepscope"

DOOR: Final = "stepscope"  # stepscope/__init__.py and __main__.py
BELOW: Final = frozenset({"model", "catalog", "sources", "recorder", "simulator", "planner", "analysis", "diagnosis", "show"})
ALLOWED: Final = {
    "model": frozenset[str](),
    "catalog": frozenset({"model"}),
    "sources": frozenset({"model"}),
    "recorder": frozenset({"model"}),
    "simulator": frozenset({"model", "catalog"}),
    "planner": frozenset({"model", "catalog"}),
    "analysis": frozenset({"model"}),
    "diagnosis": frozenset({"model", "catalog", "analysis"}),
    "show": frozenset({"model", "analysis", "diagnosis"}),
    "lab": BELOW | {DOOR},
    "web": BELOW | {DOOR},
    "cli": BELOW | {DOOR, "lab", "web"},  # cli only starts the other two
}
"""Folder and the folders it may import besides itself. The door may import anything inside a function, else only model."""

TORCH_IN: Final = frozenset({"recorder"})


@dataclass(frozen=True, slots=True)
class Arrow:
    """One import: `file` of folder `source` imports `name`, at that line; `lazy` is inside a function or TYPE_CHECKING."""

    file: str
    line: int
    source: str
    name: str
    lazy: bool


def arrows(root: Path) -> Iterator[Arrow]:
    """Every import in the package at `root` (a folder named stepscope), with relative ones made absolute."""
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        package = (root.name, *parts[:-1])
        source = parts[0] if len(parts) > 1 else DOOR
        for node, lazy in _walk(ast.parse(path.read_text(), filename=str(path)), False):
            for name in _names(node, package, path):
                yield Arrow(str(path.relative_to(root)), node.lineno, source, name, lazy)


def forbidden(root: Path) -> list[str]:
    """Each arrow that the rules do not allow, as a line that says where it is."""
    found = []
    for arrow in arrows(root):
        why = _why_not(arrow, root)
        if why:
            found.append(f"{arrow.file}:{arrow.line}: {why}")
    return found


def _why_not(arrow: Arrow, root: Path) -> str | None:
    head, *rest = arrow.name.split(".")
    if head == "torch" and arrow.source not in TORCH_IN:
        return f"imports {arrow.name}; only {', '.join(TORCH_IN)} may"
    if head != root.name:
        return None
    target = rest[0] if rest and ((root / rest[0]).is_dir() or rest[0] in ALLOWED) else DOOR
    if arrow.source == target:
        return None
    if arrow.source == DOOR:
        return (
            None if arrow.lazy or target == "model" or arrow.file == "__main__.py" else f"imports {target} at once; only lazily"
        )
    if arrow.source not in ALLOWED:
        return f"folder {arrow.source} is not in the rules of this test"
    return None if target in ALLOWED[arrow.source] else f"{arrow.source} imports {target} ({arrow.name})"


def _walk(node: ast.AST, lazy: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom | ast.Call, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom | ast.Call):
            yield child, lazy
        inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _walk(child, lazy or inside or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)))


def _names(node: ast.Import | ast.ImportFrom | ast.Call, package: tuple[str, ...], path: Path) -> Iterator[str]:
    """Absolute dotted names of what the node imports; `from a import b` gives a.b. import_module counts with a literal."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = package[: len(package) - node.level + 1] if node.level else ()
        for alias in node.names:
            yield ".".join(filter(None, (*base, node.module, alias.name)))
    elif "import_module" in ast.dump(node.func) or "__import__" in ast.dump(node.func):
        match node.args:
            case [ast.Constant(value=str(name)), *_]:
                yield name
            case [ast.JoinedStr(values=[ast.Constant(value=str(start)), *_]), *_]:
                yield start.rstrip(".")


def test_imports_go_one_way() -> None:
    assert forbidden(SOURCE) == []


def test_every_folder_is_in_the_rules() -> None:
    folders = {p.name for p in SOURCE.iterdir() if p.is_dir() and any(p.rglob("*.py"))}
    assert folders <= ALLOWED.keys()


def test_rules_have_no_cycle() -> None:
    reached: dict[str, frozenset[str]] = {}

    def reach(folder: str, above: tuple[str, ...]) -> frozenset[str]:
        assert folder not in above, " -> ".join((*above, folder))
        if folder not in reached:
            below = ALLOWED[folder] - {DOOR}
            reached[folder] = below.union(*(reach(b, (*above, folder)) for b in below))
        return reached[folder]

    for folder in ALLOWED:
        reach(folder, ())


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("model/run.py", "from stepscope.analysis import breakdown", 1),
        ("model/run.py", "def f():\n    import stepscope.sources.kineto", 2),
        ("analysis/deep/overlap.py", "from ...sources import kineto", 1),
        ("analysis/overlap.py", "from .. import show", 1),
        ("sources/kineto/read.py", "from stepscope import analysis as a", 1),
        ("sources/kineto/read.py", "from stepscope import read", 1),
        ("show/json.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from stepscope.cli import main", 3),
        ("show/json.py", "class A:\n    async def f(self):\n        from stepscope.simulator.engine import run", 3),
        ("diagnosis/tree.py", "from importlib import import_module\nimport_module('stepscope.planner.fit')", 2),
        ("diagnosis/tree.py", "import importlib\nimportlib.import_module(f'stepscope.lab.{1}')", 2),
        ("lab/world.py", "from stepscope.cli.verbs import stepscope", 1),
        ("cli/record.py", "def f():\n    from torch import nn", 2),
        ("__init__.py", "from stepscope.analysis.breakdown import breakdown", 1),
        ("helpers/things.py", "import stepscope.model.run", 1),
    ],
)
def test_a_planted_import_is_caught(tmp_path: Path, file: str, text: str, line: int) -> None:
    planted = tmp_path / "stepscope" / file
    for folder in ("model", "analysis", "sources", "show", "cli"):
        (tmp_path / "stepscope" / folder).mkdir(parents=True)
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text(text)

    found = forbidden(tmp_path / "stepscope")

    assert [f.split(": ")[0] for f in found] == [f"{file}:{line}"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("analysis/overlap.py", "import polars\nfrom stepscope.model.run import Run\nfrom . import intervals"),
        ("analysis/deep/overlap.py", "from ..intervals import union\nfrom stepscope.analysis import intervals"),
        ("cli/demo.py", "from stepscope.show import demo\nfrom stepscope import __version__"),
        ("recorder/hooks.py", "import torch"),
        (
            "__init__.py",
            "from stepscope.model.errors import StepscopeError\ndef __getattr__(n):\n    from stepscope.lab import world",
        ),
    ],
)
def test_an_allowed_import_passes(tmp_path: Path, file: str, text: str) -> None:
    path = tmp_path / "stepscope" / file
    path.parent.mkdir(parents=True)
    path.write_text(text)

    assert forbidden(tmp_path / "stepscope") == []
