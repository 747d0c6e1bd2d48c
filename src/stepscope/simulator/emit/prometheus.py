"""Signals as Prometheus text, one file per node: what dcgm-exporter and node_exporter would have been scraped for.

Names, labels and help as those exporters write them; each sample with its time in ms. Counters of a host's processors are given
per core and mode, evenly over the cores: which core worked is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polars as pl

from stepscope.catalog.telemetry import board_of, telemetry
from stepscope.model.metrics import BY_WORD, Metric
from stepscope.simulator.emit.inventory import DRIVER, WALL_NS, bus_id, gpu_uuid
from stepscope.simulator.job import Job
from stepscope.simulator.loader import mount_at

MODES: Final = (("user", 0.86), ("system", 0.14))  # of the time a core works


def write_metrics(folder: Path, signals: pl.DataFrame, job: Job) -> None:
    """Writes `node0.prom` and so on: the signals of each node (those of switches have no exporter there)."""
    nodes = signals.with_columns(node=pl.col("scope").str.extract(r"^node(\d+)(?:/|$)", 1).cast(pl.Int64)).drop_nulls("node")
    for (node,), own in sorted(nodes.partition_by("node", as_dict=True, maintain_order=True).items()):
        (folder / f"node{node}.prom").write_text("".join(exposition(own, job, int(node))), encoding="utf-8")


def exposition(signals: pl.DataFrame, job: Job, node: int) -> Iterator[str]:
    """The text of one node, metric after metric."""
    for metric in BY_WORD.values():
        rows = signals.filter(pl.col("metric") == metric.metric)
        if not rows.height or (metric.of == "gpu" and job.gpu.vendor != "nvidia"):
            continue
        yield f"# HELP {metric.exported} {metric.says}\n# TYPE {metric.exported} {metric.kind}\n"
        if metric.metric == "cpu_utilization":
            yield from _cores(rows)
            continue
        yield from _lines(rows, metric, job, node)


def _lines(rows: pl.DataFrame, metric: Metric, job: Job, node: int) -> Iterator[str]:
    found = {scope: _labels(scope, metric, job, node) for scope in rows["scope"].unique()}
    labels = {scope: f"{{{text}}}" if text else "" for scope, text in found.items()}
    for scope, time_ns, value in rows.select("scope", "time_ns", "value").iter_rows():
        yield f"{metric.exported}{labels[scope]} {_number(value / metric.factor)} {_ms(time_ns)}\n"


def _labels(scope: str, metric: Metric, job: Job, node: int) -> str:
    if metric.of == "gpu":
        gpu = int(scope.rpartition("gpu")[2])
        board = board_of(job.gpu)
        return (
            f'gpu="{gpu}",UUID="{gpu_uuid(job, node, gpu)}",pci_bus_id="{bus_id(job, node, gpu)}",device="nvidia{gpu}",'
            f'modelName="{board.product}",Hostname="node{node}",DCGM_FI_DRIVER_VERSION="{DRIVER}"'
        )
    if metric.of == "nic":
        nic = int(scope.rpartition("nic")[2])
        device = job.cluster.wiring(node).nics[nic].name
        return f'device="{device}"' if metric.exported.startswith("node_ethtool") else f'device="{device}",port="1"'
    if metric.metric.startswith("storage_"):
        mount = mount_at(job.cluster, job.workload.loader.path)
        return f'path="{mount.path}",fstype="{mount.kind}"'
    return 'device="eth0"' if metric.metric.startswith("network_") else ""


def _cores(rows: pl.DataFrame) -> Iterator[str]:
    """Seconds of each core in each mode, from the share of all that worked between two samples."""
    cores = telemetry().host.cores
    times, shares = rows["time_ns"].to_list(), rows["value"].to_list()
    busy = idle = 0.0
    lines: dict[str, list[str]] = {mode: [] for mode, _ in (*MODES, ("idle", 0.0))}
    for i, (time_ns, share) in enumerate(zip(times, shares, strict=True)):
        passed = (time_ns - times[i - 1]) / 1e9 if i else 0.0
        busy, idle = busy + passed * share, idle + passed * (1 - share)
        for mode, part in MODES:
            lines[mode].append(f"{_number(round(busy * part, 3))} {_ms(time_ns)}\n")
        lines["idle"].append(f"{_number(round(idle, 3))} {_ms(time_ns)}\n")
    for core in range(cores):
        for mode in sorted(lines):
            for line in lines[mode]:
                yield f'node_cpu_seconds_total{{cpu="{core}",mode="{mode}"}} {line}'


def _number(value: float) -> str:
    """As Go's exporters print a number: whole ones without a point."""
    return str(int(value)) if value == int(value) and abs(value) < 1e17 else f"{value:.9g}"


def _ms(time_ns: int) -> int:
    return (WALL_NS + time_ns) // 1_000_000
