"""Does each real fault move the part and the rank that it should? Windows A B A in one live job, several repeats of each.

    sudo python bench/real_faults.py [--repeats 3] [--steps 10] [--fault NAME]... [-o RUN] [--format json]

Needs root, Linux and torch. The job, its two nodes and the faults are those of examples/two_nodes.py. Growth is the window with
the fault less the mean of the healthy ones on both sides, in ms a step: of the parts that should grow, on the ranks that should
(mean over them); mean and p95 over the window's steps. Noise is the largest difference of that same figure between two healthy
windows that follow each other, in the whole job. A part counts as moved in a repeat where its mean or its p95 grew by more than
that noise; the rank where its mean or its p95 lateness grew most of all ranks, and by more than any does between healthy windows
(`most late` only asks for the first). A fault of no single rank counts where the mean grew by more than the noise on every rank.
A counter moved where it grew by more than it does between healthy windows. CPU time is of the ranks' processes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from nodes.faults import ALL, FAULTS, Fault
from nodes.live import Ended, Live, ask_for_an_end, replace_run
from nodes.measured import CPU, Measured
from nodes.network import missing
from nodes.window import HEALTHY, Window
from two_nodes import RING, play

import stepscope
from stepscope.model.words import PARTS

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], Floats]
"""[rank, step] to [rank]."""

STATISTICS: Final[dict[str, Statistic]] = {
    "mean": lambda values: values.mean(axis=1),
    "p50": lambda values: np.median(values, axis=1),
    "p95": lambda values: np.percentile(values, 95, axis=1),
}


@dataclass(frozen=True, slots=True)
class Repeat:
    """One A B A: ms a step, lateness by rank, `signal` in a second by scope, CPU a step and rank; pairs: healthy, faulty."""

    step_ms: tuple[list[float], list[float]]  # p10, p50, p90
    growth_ms: dict[str, float]
    least_rank_growth_ms: float
    late_growth_ms: dict[str, list[float]]
    most_grown: str
    cpu_ms: tuple[float, float]
    signal: tuple[dict[str, float], dict[str, float]] | None
    part_moved: bool
    rank_moved: bool
    most_late: dict[str, int]
    signal_moved: bool | None
    says: str


def repeats(measured: Measured, fault: Fault) -> list[Repeat]:
    """Each window of that fault."""
    noise = {name: _noise(measured, how, fault) for name, how in STATISTICS.items()}
    late_noise = {name: _late_noise(measured, how) for name, how in STATISTICS.items()}
    return [_repeat(measured, fault, w, noise, late_noise) for w in measured.windows if w.name == fault.name]


def _repeat(measured: Measured, fault: Fault, window: Window, noise: dict[str, float], late_noise: dict[str, float]) -> Repeat:
    around = measured.around(window)
    ranks = list(fault.ranks)
    growth, late = {}, {}
    least = 0.0
    for name, how in STATISTICS.items():
        grown = how(measured.part(window, fault.parts)) - _mean([how(measured.part(w, fault.parts)) for w in around])
        growth[name] = float(grown[ranks].mean())
        least = float(grown[ranks].min()) if name == "mean" else least
        late[name] = how(measured.lateness(window)) - _mean([how(measured.lateness(w)) for w in around])
    part_moved = any(growth[name] > noise[name] for name in ("mean", "p95"))
    if fault.ranks == ALL:
        rank_moved = least > noise["mean"]
    else:
        rank_moved = any(int(late[n].argmax()) in ranks and late[n].max() > late_noise[n] for n in ("mean", "p95"))
    signal, signal_moved = None, None
    if fault.signal:
        signal = (_rates(measured, around, fault.signal), measured.rate(window, fault.signal))
        scopes = _scopes(fault, signal[0])
        signal_moved = min(signal[1][s] - signal[0][s] for s in scopes) > _signal_noise(measured, fault.signal, scopes)
    from stepscope.show.growth import sentence

    return Repeat(
        step_ms=(_quantiles(measured, around), _quantiles(measured, [window])),
        growth_ms=growth,
        least_rank_growth_ms=least,
        late_growth_ms={name: values.tolist() for name, values in late.items()},
        most_grown=_most_grown(measured, window, around),
        cpu_ms=(float(np.mean([_cpu(measured, w) for w in around])), _cpu(measured, window)),
        signal=signal,
        part_moved=part_moved,
        rank_moved=rank_moved,
        most_late={name: int(values.argmax()) for name, values in late.items()},
        signal_moved=signal_moved,
        says=sentence(measured.compare(window)),
    )


def _mean(values: list[Floats]) -> Floats:
    found: Floats = np.mean(values, axis=0)
    return found


def _noise(measured: Measured, how: Statistic, fault: Fault) -> float:
    """How much the same figure differs between healthy windows."""
    ranks = list(fault.ranks)
    figures = [[float(how(measured.part(w, fault.parts))[ranks].mean()) for w in pair] for pair in measured.healthy_pairs()]
    return max((abs(one - two) for one, two in figures), default=float("inf"))


def _late_noise(measured: Measured, how: Statistic) -> float:
    pairs = measured.healthy_pairs()
    return max((float(abs(how(measured.lateness(a)) - how(measured.lateness(b))).max()) for a, b in pairs), default=float("inf"))


def _scopes(fault: Fault, found: dict[str, float]) -> list[str]:
    """Where its counter should grow: on the rank, if it has one there, else everywhere."""
    own = [f"rank {rank}" for rank in fault.ranks if f"rank {rank}" in found]
    return own if own and fault.ranks != ALL else sorted(found)


def _signal_noise(measured: Measured, metric: str, scopes: Sequence[str]) -> float:
    pairs = [[measured.rate(w, metric) for w in pair] for pair in measured.healthy_pairs()]
    return max((abs(one[s] - two[s]) for one, two in pairs for s in scopes), default=float("inf"))


def _most_grown(measured: Measured, window: Window, around: Sequence[Window]) -> str:
    """The part of a rank that grew most on average, waiting for others aside."""
    grown = measured.parts(window).mean(axis=1) - _mean([measured.parts(w).mean(axis=1) for w in around])
    grown = grown[:, 1:]
    grown[:, PARTS.index("comm_wait")] = -np.inf
    rank, part = np.unravel_index(int(grown.argmax()), grown.shape)
    return f"{PARTS[int(part)]} of rank {rank}"


def _quantiles(measured: Measured, windows: Sequence[Window]) -> list[float]:
    lengths = np.concatenate([measured.parts(w)[:, :, 0].mean(axis=0) for w in windows])
    return [float(v) for v in np.percentile(lengths, (10, 50, 90))]


def _cpu(measured: Measured, window: Window) -> float:
    rates = measured.rate(window, CPU)
    seconds = (window.ended_ns - window.began_ns) / 1e9
    return 1e3 * sum(rates.values()) / len(rates) * seconds / (window.last - window.first + 1)


def _rates(measured: Measured, windows: Sequence[Window], metric: str) -> dict[str, float]:
    found = [measured.rate(w, metric) for w in windows]
    return {scope: float(np.mean([f.get(scope, 0.0) for f in found])) for scope in found[0]}


def machine(measured: Measured) -> dict[str, Any]:
    """How quiet it was: healthy steps over the whole job, and CPU time that others than the ranks took meanwhile."""
    healthy = [w for w in measured.windows if w.name == HEALTHY and not w.path]
    medians = [_quantiles(measured, [w])[1] for w in healthy]
    seconds = sum((w.ended_ns - w.began_ns) / 1e9 for w in healthy)
    own = sum(sum(measured.rate(w, CPU).values()) * (w.ended_ns - w.began_ns) / 1e9 for w in healthy)
    return {
        "cores": os.cpu_count(),
        "healthy_windows": len(healthy),
        "healthy_step_ms": {"p10": _quantiles(measured, healthy)[0], "p50": _quantiles(measured, healthy)[1],
                            "p90": _quantiles(measured, healthy)[2]},
        "healthy_window_p50_ms": {"least": min(medians), "most": max(medians)},
        "cores_used_by_ranks": own / seconds,
        "cores_used_by_others": (sum(w.busy_s for w in healthy) - own) / seconds,
    }  # fmt: skip


def case(measured: Measured, fault: Fault) -> dict[str, Any]:
    """A row of the table: medians over the repeats, and in how many of them what should move did."""
    found = repeats(measured, fault)

    def middle(values: Sequence[float]) -> float:
        return float(np.median(values))

    return {
        "name": fault.name,
        "fault": fault.does,
        "repeats": len(found),
        "should_move": {"parts": list(fault.parts), "ranks": list(fault.ranks)},
        "step_ms": [[middle([r.step_ms[side][at] for r in found]) for at in range(3)] for side in range(2)],
        "growth_ms": {name: middle([r.growth_ms[name] for r in found]) for name in STATISTICS},
        "noise_ms": {name: _noise(measured, how, fault) for name, how in STATISTICS.items()},
        "late_growth_ms": {
            name: [middle([r.late_growth_ms[name][rank] for r in found]) for rank in range(len(measured.ranks))]
            for name in STATISTICS
        },
        "late_noise_ms": {name: _late_noise(measured, how) for name, how in STATISTICS.items()},
        "cpu_ms": [middle([r.cpu_ms[side] for r in found]) for side in range(2)],
        "part_moved": sum(r.part_moved for r in found),
        "rank_moved": sum(r.rank_moved for r in found),
        "most_late": {n: None if fault.ranks == ALL else sum(r.most_late[n] in fault.ranks for r in found) for n in STATISTICS},
        "signal_moved": sum(bool(r.signal_moved) for r in found) if fault.signal else None,
        "each": [asdict(r) for r in found],
    }


def table(cases: list[dict[str, Any]], about: dict[str, Any]) -> str:
    """For people, in Markdown."""
    step = about["healthy_step_ms"]
    window = about["healthy_window_p50_ms"]
    ours, others = about["cores_used_by_ranks"], about["cores_used_by_others"]
    lines = [
        f"{about['cores']} cores; the ranks used {ours:.1f} of them, others {others:.1f}. "
        f"Healthy step {step['p50']:.0f} ms [{step['p10']:.0f}-{step['p90']:.0f}], "
        f"medians of {about['healthy_windows']} windows {window['least']:.0f} to {window['most']:.0f}.",
        "",
        "| fault | step ms p50 [p10-p90], healthy | with the fault | part that should grow: mean, p95 (noise) "
        "| lateness grew by rank: mean | p95 | CPU ms a step | counter, a second | part moved | rank moved "
        "| most late: mean, p50, p95 | counter moved |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for c in cases:
        (low, mid, high), (flow, fmid, fhigh) = c["step_ms"]
        grown = ", ".join(f"{c['growth_ms'][n]:+.0f} ({c['noise_ms'][n]:.0f})" for n in ("mean", "p95"))
        late = [" ".join(f"{v:+.0f}" for v in c["late_growth_ms"][n]) for n in ("mean", "p95")]
        part = c["should_move"]["parts"][0] if len(c["should_move"]["parts"]) == 1 else "own work"
        who = "all" if len(c["should_move"]["ranks"]) > 1 else f"rank {c['should_move']['ranks'][0]}"
        lines.append(
            f"| {c['name']} | {mid:.0f} [{low:.0f}-{high:.0f}] | {fmid:.0f} [{flow:.0f}-{fhigh:.0f}] | {part}, {who}: {grown} "
            f"| {late[0]} | {late[1]} | {c['cpu_ms'][0]:.0f} -> {c['cpu_ms'][1]:.0f} | {_counter(c)} "
            f"| {c['part_moved']} of {c['repeats']} | {c['rank_moved']} of {c['repeats']} | {_most_late(c)} "
            f"| {'-' if c['signal_moved'] is None else str(c['signal_moved']) + ' of ' + str(c['repeats'])} |"
        )
    return "\n".join(lines)


def _most_late(row: dict[str, Any]) -> str:
    counts = [row["most_late"][name] for name in ("mean", "p50", "p95")]
    return "-" if counts[0] is None else ", ".join(map(str, counts)) + f" of {row['repeats']}"


def _counter(row: dict[str, Any]) -> str:
    fault = FAULTS[row["name"]]
    if fault.signal is None:
        return "-"
    sides = [[r["signal"][side] for r in row["each"]] for side in range(2)]
    scopes = _scopes(fault, sides[0][0])
    values = [[float(np.median([s[scope] for s in side])) for scope in scopes] for side in sides]
    return f"{fault.signal} {'/'.join(f'{v:.3g}' for v in values[0])} -> {'/'.join(f'{v:.3g}' for v in values[1])}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--fault", action="append", choices=[f.name for f in FAULTS.values() if not f.ends])
    parser.add_argument("-o", dest="out", type=Path, help="keep the run (and what the windows are) here")
    parser.add_argument("--read", type=Path, metavar="RUN", help="no new job: the table of a run that was kept")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    args = parser.parse_args()
    if args.read:
        windows = [Window(**w) for w in json.loads(args.read.with_suffix(".windows.json").read_text())["windows"]]
        return _print(args.read, windows, args.format)
    if why := missing():
        print(f"real_faults: {why}", file=sys.stderr)
        return 1
    if args.out and (why := replace_run(args.out, force=False)):
        print(why, file=sys.stderr)
        return 1
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", RING)
    ask_for_an_end()
    faults = [FAULTS[name] for name in args.fault] if args.fault else [f for f in FAULTS.values() if not f.ends]
    with tempfile.TemporaryDirectory(dir=".") as folder:  # not in /tmp, which may be memory: storage has to be a device
        out = (args.out or Path(folder) / "faults.run").absolute()
        began = time.monotonic()
        try:
            with Live(out, on_nodes=True) as live:
                for number in range(args.repeats):
                    print(f"repeat {number + 1} of {args.repeats}, after {time.monotonic() - began:.0f} s", file=sys.stderr)
                    play(live, faults, args.steps, even=True)
                live.finish()
        except Ended as ended:
            print(f"real_faults: {ended}", file=sys.stderr)
            return 1
        return _print(out, live.windows, args.format)


def _print(out: Path, windows: Sequence[Window], form: str) -> int:
    with stepscope.read(out) as run:
        measured = Measured(run, windows)
        cases = [case(measured, FAULTS[name]) for name in dict.fromkeys(w.name for w in windows) if name != HEALTHY]
        about = machine(measured)
    if form == "json":
        print(json.dumps({"bench": "real_faults", "machine": about, "cases": cases}, indent=1))
    else:
        print(table(cases, about))
    return 0


if __name__ == "__main__":
    sys.exit(main())
