"""How often does `compare` mark a part of a job that did not change, and how often does it see 10 % of a step added to one?

    python bench/compare_level.py [RUN...] [--splits N] [--share S] [--format text|json]

A RUN is a .run folder or a folder of traces of one healthy job (default: demo/healthy, and those of ../shared that have six
or more steps). Its whole steps are split at random into two halves and the halves compared, N times over. `level`: the share
of parts marked, over the parts that the job has; `any`: the share of splits in which any part was. `power`: the share of
splits in which a part is marked once S of the mean step is added to it, in every step of one half on every rank. `spread`:
that part's standard deviation between steps as a share of the step; where it comes near S, no test of so few steps sees S.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

import stepscope
from stepscope.analysis.compare import compare_steps
from stepscope.analysis.whole_steps import whole_steps
from stepscope.model.breakdown import Breakdown
from stepscope.model.words import PARTS

ROOT: Final = Path(__file__).resolve().parents[1]
HEALTHY: Final = (
    ROOT / "demo" / "healthy",
    ROOT.parent / "shared" / "traces" / "gloo-fsdp2-4rank",
    ROOT.parent / "shared" / "traces" / "resnet50-loader-4workers",
    ROOT.parent / "shared" / "traces" / "resnet50-loader-0workers",
)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of one job."""

    part: str
    level: float
    power: float
    spread: float


@dataclass(frozen=True, slots=True)
class Case:
    """One job: halves of so many steps, and what was found over all splits."""

    name: str
    steps: tuple[int, int]
    splits: int
    level: float
    any: float
    parts: tuple[Part, ...]


def measure(name: str, job: Breakdown, splits: int, share: float, seed: int = 1) -> Case:
    """Level and power over random splits of one job."""
    whole = whole_steps(job)
    if whole is None or len(whole.steps) < 4:
        raise SystemExit(f"{name}: fewer than four whole steps; there is nothing to split")
    draw = np.random.default_rng(seed)
    per_step = whole.per_step / len(whole.ranks)
    step = per_step.sum(axis=1).mean()
    there = [place for place in range(len(PARTS)) if per_step[:, place].any()]
    marked, seen, any_marked = np.zeros(len(PARTS)), np.zeros(len(PARTS)), 0
    for _ in range(splits):
        order = draw.permutation(len(whole.steps))
        halves = [sorted(whole.steps[i] for i in half) for half in np.array_split(order, 2)]
        base, run = (only(job, half) for half in halves)
        marks = np.array([bool(d.significant) for d in compare_steps(base, run).parts])
        marked += marks
        any_marked += bool(marks.any())
        for place in there:
            slower = compare_steps(base, add(run, PARTS[place], round(share * step)))
            seen[place] += bool(slower.parts[place].significant)
    spread = per_step.std(axis=0, ddof=1) / step
    parts = tuple(Part(PARTS[p], float(marked[p] / splits), float(seen[p] / splits), round(float(spread[p]), 4)) for p in there)
    first, second = np.array_split(np.arange(len(whole.steps)), 2)
    return Case(name, (len(first), len(second)), splits, float(marked[there].mean() / splits), any_marked / splits, parts)


def only(job: Breakdown, steps: Sequence[int]) -> Breakdown:
    """That job with these steps alone."""
    return replace(job, steps=tuple(s for s in job.steps if s.step in steps))


def add(job: Breakdown, part: str, ns: int) -> Breakdown:
    """That job with so much more of one part in every step of every rank."""
    slower = (replace(s, duration_ns=s.duration_ns + ns, parts_ns={**s.parts_ns, part: s.parts_ns[part] + ns}) for s in job.steps)
    return replace(job, steps=tuple(slower))


def main() -> int:
    """Print the tables, or `cases` as JSON."""
    parser = argparse.ArgumentParser(description="Level and power of compare over random splits of healthy jobs.")
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN")
    parser.add_argument("--splits", type=int, default=200, metavar="N")
    parser.add_argument("--share", type=float, default=0.1, metavar="S")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args()
    cases = []
    for path in options.runs or [p for p in HEALTHY if p.is_dir()]:
        with stepscope.read(path) as run:
            cases.append(measure(path.name, stepscope.breakdown(run), options.splits, options.share))
    if options.format == "json":
        document: dict[str, Any] = {"schema": "bench.compare_level/1", "share": options.share}
        print(json.dumps({**document, "cases": [asdict(case) for case in cases]}, indent=2))
        return 0
    for case in cases:
        first, second = case.steps
        print(f"{case.name}: {first} and {second} steps, {case.splits} splits")
        print(f"  {case.level:.1%} of parts marked, any in {case.any:.1%} of the splits")
        print(f"  {'part':14}  {'level':>6}  {f'+{options.share:.0%} seen':>9}  {'spread':>6}")
        for part in case.parts:
            print(f"  {part.part:14}  {part.level:6.1%}  {part.power:9.1%}  {part.spread:6.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
