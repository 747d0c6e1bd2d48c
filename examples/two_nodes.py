"""Two nodes on one machine, a real FSDP2 job of four ranks on them, and real faults switched on and off while it runs.

    sudo python examples/two_nodes.py --fault slow-wire --fault stop-pulses
    sudo python examples/two_nodes.py --fault hang -o hang.run
    python examples/two_nodes.py --list

Ranks 0 and 1 live in one network namespace, 2 and 3 in another; a veth pair is the wire. Every rank is recorded, and at the end
stepscope says what each fault did, against the healthy steps before and after it. Without root the ranks share the machine's
loopback, and the faults that need no nodes are there all the same. Everything is undone at the end, also after Ctrl-C or a kill.
Needs torch 2.4 or newer (`make demo-live` installs it).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nodes.faults import Fault
    from nodes.live import Live
    from nodes.measured import Measured

DEFAULT: Final = ("stop-pulses", "gc-pause")
STALL_S: Final = 5.0
WATCHED_S: Final = 15.0  # a stalled job is left alone for so long: every rank has then said what it stands in
RING: Final = "2000"  # collectives that torch's flight recorder keeps of each rank


def options(words: list[str] | None = None) -> argparse.Namespace:
    about = __doc__.split("\n\n")
    parser = argparse.ArgumentParser(
        description=about[0], epilog=f"Examples:\n{about[1]}\n\n{about[2]}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fault", action="append", metavar="NAME", help=f"may be repeated (default: {' and '.join(DEFAULT)})")
    parser.add_argument("--steps", type=int, default=10, metavar="N", help="steps of a window, healthy or not (default: 10)")
    parser.add_argument(
        "-o", type=Path, default=Path("two-nodes.run"), metavar="RUN", dest="out", help="the run to make (two-nodes.run)"
    )
    parser.add_argument("-f", action="store_true", dest="force", help="replace a run that exists")
    parser.add_argument("--list", action="store_true", help="say which faults there are, and leave")
    return parser.parse_args(words)


def chosen(names: list[str]) -> list[Fault] | str:
    """The faults in the order asked for, one that ends the job last; or what is wrong."""
    from nodes.faults import FAULTS

    if unknown := [name for name in names if name not in FAULTS]:
        return f"--fault {unknown[0]}: no such fault; there are {', '.join(FAULTS)}"
    found = sorted((FAULTS[name] for name in dict.fromkeys(names)), key=lambda fault: fault.ends)
    if sum(fault.ends for fault in found) > 1:
        return "--fault: a job ends once; give one of hang, killed-rank and mismatched-collective"
    return found


def play(live: Live, faults: list[Fault], steps: int, even: bool = False) -> list[str]:
    """Healthy steps, a fault, healthy steps and so on; the names of those that this machine could do.

    `even`: all windows have `steps` steps, whatever a fault asks for.
    """
    done = []
    for fault in faults:
        if why := fault.lacking(live):
            _note(f"{fault.name}: left out, {why}")
            continue
        with fault.around(live):
            live.healthy(steps, fault.path)
            _note(f"{fault.name}: {fault.does}")
            with fault(live):
                if fault.ends:
                    live.until_left(WATCHED_S)
                    said = [f"rank {rank} left with {code}" for rank, code in sorted(live.left.items())]
                    _note(", ".join(said) or f"all four ranks still stand after {WATCHED_S:.0f} s; they are ended")
                else:
                    live.window(fault.name, steps if even else max(2, round(steps * fault.span)), fault.path)
            if not fault.ends:
                live.healthy(steps, fault.path)
        done.append(fault.name)
    return done


def report(run: Path, measured: Measured) -> None:
    """What the recording says of each window that was not healthy; lateness before it is that of the worse side."""
    from nodes.faults import FAULTS

    from stepscope.show.growth import sentence

    for window in measured.windows:
        if window.name == "healthy":
            continue
        fault = FAULTS[window.name]
        print(f"\n{window.name}: {fault.does}")
        print(fill(f"stepscope: {sentence(measured.compare(window))}", 100, initial_indent="  ", subsequent_indent="    "))
        healthy = measured.around(window)
        rows = [("late, mean", "mean"), ("late, p95", "p95")]
        for title, how in rows:
            cells = []
            for rank in range(len(measured.ranks)):
                base = max(_figure(measured.lateness(w)[rank], how) for w in healthy)
                cells.append(f"rank {rank} {base:.0f} -> {_figure(measured.lateness(window)[rank], how):.0f}")
            print(f"  {title} (ms a step): {', '.join(cells)}")
        if fault.signal:
            rates = measured.rate(window, fault.signal)
            base = measured.rate(healthy[0], fault.signal)
            cells = [f"{scope} {base.get(scope, 0):.3g} -> {rate:.3g}" for scope, rate in sorted(rates.items())]
            print(f"  {fault.signal} (a second): {', '.join(cells)}")
    print(f"\nMore: stepscope breakdown {run}, stepscope export perfetto {run}")


def _figure(values: object, how: str) -> float:
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    return float(array.mean() if how == "mean" else np.percentile(array, 95))


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _show(run: Path) -> None:
    """`stepscope show` on the run of a job that stopped, and on the dumps of torch's flight recorder where there are any."""
    from stepscope.cli import main as stepscope
    from stepscope.sources.flight_recorder import find_dumps

    stalls = run / "stalls"
    for shown in (run, stalls) if stalls.is_dir() and find_dumps([stalls]) else (run,):
        print(f"\n$ stepscope show {shown}", flush=True)
        stepscope(["show", str(shown)])


def main(words: list[str] | None = None) -> int:
    args = options(words)
    if args.list:
        from nodes.faults import FAULTS

        for fault in FAULTS.values():
            print(f"{fault.name:22} {fault.does}")
        return 0
    faults = chosen(args.fault or list(DEFAULT))
    if isinstance(faults, str) or args.steps < 2:
        _note(faults if isinstance(faults, str) else "--steps: a window needs two or more")
        return 2
    if find_spec("torch") is None:
        _note("torch is not installed here; `make demo-live` installs and runs it, or pip install torch")
        return 1
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", RING)
    from nodes import live as job
    from nodes import network

    if why := job.replace_run(args.out, args.force):
        _note(why)
        return 1
    job.ask_for_an_end()
    lacking = network.missing()
    if lacking:
        _note(f"one node only ({lacking}): four ranks on loopback; faults of the wire are left out")
    stops = any(fault.ends for fault in faults)
    began = time.monotonic()
    try:
        with job.Live(args.out.absolute(), on_nodes=lacking is None, stall=STALL_S if stops else 60.0) as live:
            _note(f"four ranks train on {'two nodes' if live.on_nodes else 'one node'}, after {time.monotonic() - began:.0f} s")
            done = play(live, faults, args.steps)
            if stops and done and faults[-1].name == done[-1]:
                live.close_run()
            else:
                live.finish()
    except job.Ended as ended:
        _note(f"the job ended: {ended}")
        return 1
    except KeyboardInterrupt:
        _note(f"interrupted; what was recorded is in {args.out}")
        return 130
    from nodes.measured import Measured

    import stepscope

    with stepscope.read(args.out) as run:
        report(args.out, Measured(run, live.windows))
    if stops:
        _show(args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
