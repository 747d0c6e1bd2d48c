"""NIC counters as sysfs holds them, before and after: `before/node1/mlx5_3/ports/1/counters/port_xmit_data` and so on.

The tree below each node is that of /sys/class/infiniband, one number or line a file; data counters count words of four bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from stepscope.model.metrics import METRICS
from stepscope.simulator.job import Job

SPEEDS: Final = {10: "SDR", 25: "EDR", 40: "QDR", 50: "HDR", 56: "FDR", 100: "EDR", 200: "HDR", 400: "NDR", 800: "XDR"}
STATES: Final = {4: ("4: ACTIVE", "5: LinkUp"), 1: ("1: DOWN", "2: Polling")}
LANES: Final = {25: 1, 50: 1}
MOMENTS: Final = (("before", "first"), ("after", "last"))


def write_counters(folder: Path, signals: pl.DataFrame, job: Job) -> None:
    """Writes the counters of every NIC at the first and at the last sample."""
    own = signals.filter(pl.col("scope").str.contains(r"^node\d+/nic\d+$"))
    for moment, which in MOMENTS:
        picked = own.group_by("scope", "metric", maintain_order=True).agg(getattr(pl.col("value"), which)())
        for (scope,), rows in picked.partition_by("scope", as_dict=True, maintain_order=True).items():
            node, nic = (int(part) for part in str(scope).removeprefix("node").split("/nic"))
            port = folder / moment / f"node{node}" / job.cluster.wiring(node).nics[nic].name / "ports" / "1"
            _write_port(port, dict(rows.select("metric", "value").iter_rows()), job)


def _write_port(port: Path, values: dict[str, float], job: Job) -> None:
    for metric in METRICS:
        if metric.system is not None and metric.metric in values:
            file = port / metric.system
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{int(values[metric.metric] // metric.system_factor)}\n")
    state, physical = STATES[int(values["port_state"])]
    gbit = round(values["port_rate"] * 8 / 1e9)
    speed = f"{LANES.get(gbit, 4)}X {SPEEDS.get(gbit, '')}".strip()
    layer = "InfiniBand" if job.transport.kind == "infiniband" else "Ethernet"
    lines = {"rate": f"{gbit} Gb/sec ({speed})", "state": state, "phys_state": physical, "link_layer": layer}
    for name, text in lines.items():
        (port / name).write_text(text + "\n")
