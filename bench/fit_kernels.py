"""Calibrates efficiencies and stacks on the fitted share of published rows, and prints what to write into the catalog.

    python bench/fit_kernels.py --ground-truth DIR [--rounds 4]

Numbers belong to a GPU and precision, or to a stack, never to a row. Damped least squares, reweighted towards the mean of
sqrt(e^2 + 1 %^2), e the logarithm of predicted over measured: nearly the mean absolute error, so that a row gone wrong does
not pull.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
from step_engine import step_s
from training_rows import Row, is_fitted, read

from stepscope.catalog import document
from stepscope.catalog.efficiency import Efficiency, efficiencies, efficiency_of
from stepscope.catalog.gpu import load_gpu
from stepscope.catalog.stack import Stack, load_stack


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number of the catalog: `table` is an efficiency's name or `stack:NAME` (several with commas), `key` a dotted path."""

    table: str
    key: str
    low: float
    high: float


_MODERN: Final = "stack:torchtitan,stack:torchtitan-compile,stack:torch-eager,stack:torch-compile,stack:hf-fsdp1"
"""Stacks that share what torchtitan's rows say: the same framework, told apart by what they fuse."""

PARAMETERS: Final = (
    Parameter("sm_80", "gemm.bf16,gemm.fp16", 0.5, 1.0),
    Parameter("sm_90", "gemm.bf16,gemm.fp16", 0.4, 1.0),
    Parameter("h100-sxm-96gb", "gemm.bf16,gemm.fp16", 0.4, 1.0),
    Parameter("sm_90,h100-sxm-96gb", "gemm.fp8", 0.2, 0.7),
    Parameter("sm_80", "attention.triton-flash", 0.1, 0.9),
    Parameter("sm_90", "attention.triton-flash", 0.1, 0.9),
    Parameter("sm_90,h100-sxm-96gb", "attention.sdpa,attention.flash2", 0.1, 0.9),
    Parameter("stack:llm-foundry,stack:nanotron", "elementwise.factor", 0.2, 4.0),
    Parameter(_MODERN, "elementwise.factor", 0.2, 4.0),
    Parameter(f"stack:llm-foundry,{_MODERN}", "overlap.slowdown", 0.0, 0.95),
)

CATALOG: Final = Path(document.__file__).parent
Values = dict[Parameter, float]
Floats = npt.NDArray[np.float64]


class Catalog:
    """The catalog's tables with some of their numbers changed."""

    def __init__(self, values: Values) -> None:
        self.tables: dict[str, Any] = {name: msgspec.to_builtins(table) for name, table in efficiencies().items()}
        self.stacks: dict[str, Any] = {}
        for parameter, value in values.items():
            for name in parameter.table.split(","):
                _put(self._table(name), parameter.key, value)
        self.made: dict[str, Efficiency] = {n: msgspec.convert(t, Efficiency) for n, t in self.tables.items()}
        self.stacks_made: dict[str, Stack] = {n: msgspec.convert(t, Stack) for n, t in self.stacks.items()}

    def _table(self, name: str) -> Any:
        if name.startswith("stack:"):
            stack = name.removeprefix("stack:")
            return self.stacks.setdefault(stack, msgspec.to_builtins(load_stack(stack)))
        return self.tables[name]

    def efficiency(self, gpu: str) -> Efficiency:
        """Of a GPU by name."""
        found = load_gpu(gpu)
        return self.made.get(gpu) or self.made.get(found.arch) or efficiency_of(found)

    def stack(self, name: str) -> Stack:
        """By name."""
        return self.stacks_made.get(name) or load_stack(name)


def _put(table: Any, keys: str, value: float) -> None:
    for key in keys.split(","):
        outer, _, inner = key.rpartition(".")
        (table[outer] if outer else table)[inner] = value


def _get(table: Any, keys: str) -> float:
    outer, _, inner = keys.split(",", maxsplit=1)[0].rpartition(".")
    return float((table[outer] if outer else table)[inner])


def errors(rows: list[Row], values: Values) -> Floats:
    """ln(predicted / measured) of each row."""
    catalog = Catalog(values)
    found = []
    for row in rows:
        assert row.setup is not None
        predicted = step_s(row.setup, catalog.stack(row.setup.stack), catalog.efficiency(row.setup.gpu))
        found.append(math.log(predicted / row.measured))
    return np.array(found)


def loss(found: Floats) -> float:
    """Mean of sqrt(e^2 + 1 %^2)."""
    return float(np.hypot(found, 0.01).mean())


def fit(
    rows: list[Row], rounds: int, parameters: tuple[Parameter, ...] = PARAMETERS, say: Callable[[str], None] = print
) -> Values:
    """From the catalog's own numbers, within each parameter's range."""
    start = Catalog({})
    values = {p: min(max(_get(start._table(p.table.split(",")[0]), p.key), p.low), p.high) for p in parameters}
    spans = [p.high - p.low for p in parameters]
    found = errors(rows, values)
    best, damping = loss(found), 1e-3
    say(f"{len(rows)} rows, {len(parameters)} parameters, start {100 * best:.2f} %")
    for turn in range(rounds):
        slopes = np.empty((len(rows), len(parameters)))
        for k, p in enumerate(parameters):
            # away from the nearer bound, so that the probe is not clipped
            probe = 0.01 * spans[k] * (1 if values[p] < (p.low + p.high) / 2 else -1)
            slopes[:, k] = (errors(rows, values | {p: values[p] + probe}) - found) / (probe / spans[k])
        weight = 1 / np.hypot(found, 0.01)
        moved = False
        while damping < 1e3 and not moved:
            normal = slopes.T @ (weight[:, None] * slopes)
            step = -np.linalg.solve(normal + damping * weight.sum() * np.eye(len(parameters)), slopes.T @ (weight * found))
            tried = {p: min(max(values[p] + float(step[k] * spans[k]), p.low), p.high) for k, p in enumerate(parameters)}
            after = errors(rows, tried)
            if loss(after) < best - 1e-6:
                best, found, values, moved, damping = loss(after), after, tried, True, damping / 4
            else:
                damping *= 4
        say(f"round {turn + 1}: {100 * best:.3f} %")
        if not moved:
            break
    return values


def write(values: Values, note: str) -> None:
    """Puts the values into the catalog's files, and the keys with the note into the source of each table."""
    places: dict[tuple[Path, str], dict[str, float]] = {}
    for parameter, value in values.items():
        for name in parameter.table.split(","):
            stack = name.startswith("stack:")
            path = CATALOG / (f"stacks/{name.removeprefix('stack:')}.toml" if stack else "efficiency.toml")
            for key in parameter.key.split(","):
                outer, _, inner = key.rpartition(".")
                places.setdefault((path, outer if stack else name), {})[inner] = value
    for (path, table), changes in places.items():
        path.write_text(_changed(path.read_text("utf-8"), table, changes, note), "utf-8")


def _changed(text: str, table: str, changes: dict[str, float], note: str) -> str:
    head, mark, rest = text.partition(f"[{table}]\n")
    body, gap, tail = rest.partition("\n\n")
    for key, value in changes.items():
        body = re.sub(rf"(?<![\w-]){re.escape(key)} = [0-9.]+", f"{key} = {value:.3g}", body)
    fitted = f"; fitted: {', '.join(changes)} by {note}"
    body = re.sub(r'source = "(.*?)(?:; fitted: .*)?"', lambda m: f'source = "{m[1]}{fitted}"', body)
    return head + mark + body + gap + tail


def main() -> None:
    """Fits and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ground-truth", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--write", action="store_true", help="put the values into the catalog")
    options = parser.parse_args()
    rows = [row for row in read(options.ground_truth) if row.setup is not None and is_fitted(row)]
    values = fit(rows, options.rounds, say=lambda text: print(text, file=sys.stderr, flush=True))
    for parameter, value in values.items():
        print(f"{value:8.4g}  {parameter.key:32s} {parameter.table}")
    if options.write:
        write(values, f"bench/fit_kernels.py on {len(rows)} published rows of llm-foundry and torchtitan")


if __name__ == "__main__":
    main()
