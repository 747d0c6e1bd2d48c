"""How long does a checkpoint hold the loop, and how long does the rest of it take beside the steps? ns.

Synchronous: copied out of the GPU, written, and everybody waits for the last. Asynchronous: held for the copy alone; the write
goes on and the next save waits for it. Each rank writes its shard; replicas of a shard write once (torch DCP's deduplication).
"""

from __future__ import annotations

from stepscope.model.cluster import Cluster
from stepscope.model.workload import Workload
from stepscope.simulator.loader import mount_at


def save_ns(workload: Workload, cluster: Cluster, parameters: int) -> tuple[float, float]:
    """(held, hidden) ns of a save of a model of so many parameters."""
    plan, checkpoint = workload.plan, workload.checkpoint
    writers = plan.world_size // (plan.replicate if plan.strategy in ("hsdp", "ddp") else 1)
    nbytes = parameters * checkpoint.bytes_per_parameter / writers
    mount = mount_at(cluster, checkpoint.path)
    per_node = min(cluster.gpus_per_node, plan.world_size)
    rate = mount.write_bytes_per_s / min(per_node, writers)
    if mount.total_write_bytes_per_s is not None:
        rate = min(rate, mount.total_write_bytes_per_s / writers)
    copy = nbytes / cluster.node.pcie_bytes_per_s * 1e9
    write = nbytes / rate * 1e9 + mount.latency_ns
    return (copy, write) if checkpoint.mode == "async" else (copy + write, 0.0)


def upload_share(workload: Workload, cluster: Cluster) -> float:
    """Share of a node's NICs that the upload of an asynchronous checkpoint takes, half at most: links are shared fairly.

    0 where nothing is uploaded beside the steps, or over a network of its own.
    """
    checkpoint = workload.checkpoint
    if not checkpoint.every or checkpoint.mode != "async" or not cluster.node.nics:
        return 0.0
    mount = mount_at(cluster, checkpoint.path)
    if mount.over != "rails":
        return 0.0
    return min(mount.write_bytes_per_s / (cluster.node.nic_bytes_per_s * len(cluster.node.nics)), 0.5)
