"""What exporters would have sampled beside a simulated job: clocks, power, bytes, errors, load. From the job's state alone.

Every figure follows from links, bytes, clocks and the state of the machine (`sensors`), never from what a cause is said to show.
Samples are a second apart, and one more stands at each start and end of a step, so that short runs have differences, too. A
counter grows evenly over the step in which its bytes moved; a gauge is the mean of the step that its sample ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from stepscope.model.spans import SIGNALS, conform
from stepscope.simulator.faults.hang import Hang
from stepscope.simulator.signals.gpus import gpu_series
from stepscope.simulator.signals.hosts import host_series
from stepscope.simulator.signals.ports import port_series
from stepscope.simulator.signals.series import Clockwork, sampled
from stepscope.simulator.signals.traffic import Traffic
from stepscope.simulator.simulation import Step


def signals_of(steps: Sequence[Step], hang: Hang | None = None) -> pl.DataFrame:
    """Signals of a simulated run, by SIGNALS, in order of scope, metric and time. `source` is what exporters call the metric.

    With `hang`, the last step is the one in which the job stands: its samples show the standing, for half a minute.
    """
    clock = Clockwork.of(steps, standing=hang is not None)
    traffic = [Traffic({}) if hang is not None and step is steps[-1] else Traffic.of(step) for step in steps]
    series = [
        *gpu_series(steps, traffic, clock, hang),
        *port_series(steps, traffic, clock, hang),
        *host_series(steps, traffic, clock),
    ]
    frame = pl.concat([sampled(one, clock) for one in series])
    return conform(frame.sort("scope", "metric", "time_ns", maintain_order=True), SIGNALS)
