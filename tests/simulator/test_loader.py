"""Batches and saves: queues by hand, fair shares of mounts."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from stepscope.model.workload import Checkpoint, Loader
from stepscope.simulator.loader import Queue, mount_at, read_ns
from stepscope.simulator.predict import predict
from stepscope.simulator.saving import save_ns, upload_share
from stepscope.simulator.simulation import step_ns
from tests.simulator.jobs import job, steps

MS = 1e6


def taken(loader: Loader, fetch: float, step: float, many: int = 20) -> list[float]:
    """How long a loop that computes `step` ns waits for each batch."""
    queue, now, waits = Queue(loader, 1, fetch), np.zeros(1), []
    for _ in range(many):
        got = queue.take(now)
        waits.append(float((got - now)[0]))
        now = got + step
    return waits


def test_without_workers_every_batch_is_waited_for() -> None:
    assert taken(Loader(workers=0), 5, 100) == [5] * 20


def test_workers_that_keep_up_are_never_waited_for_again() -> None:
    assert taken(Loader(workers=2), 150, 100)[5:] == [0] * 15


def test_workers_that_do_not_keep_up_set_the_pace() -> None:
    waits = taken(Loader(workers=2, prefetch=2), 300, 100)
    assert np.mean(waits[10:]) == pytest.approx(300 / 2 - 100)


def test_ranks_of_a_node_share_its_mount_and_all_nodes_the_servers() -> None:
    cluster = job().cluster
    mount = mount_at(cluster, "")
    loader = Loader(bytes_per_token=1 << 16)
    alone = read_ns(loader, mount, 1, 2048, 1, 1)
    shared = read_ns(loader, mount, 1, 2048, 8, 16)
    first_byte = 32 * mount.latency_ns  # 128 KiB page by page, then it streams
    assert shared - first_byte == pytest.approx(8 * (alone - first_byte))
    many = read_ns(loader, mount, 1, 2048, 8, 16384)
    assert many > shared  # so many that the servers are the limit


def test_an_asynchronous_save_holds_for_the_copy_alone() -> None:
    held = {}
    for mode in ("sync", "async"):
        one = job(checkpoint=Checkpoint(every=1, mode=mode))  # type: ignore[arg-type]  # one of the two
        held[mode] = save_ns(one.workload, one.cluster, one.workload.shape.parameters())
    assert held["async"][0] < held["sync"][0]
    assert held["async"][0] + held["async"][1] == pytest.approx(held["sync"][0] + held["sync"][1])


def test_a_save_every_other_step_lengthens_those_steps() -> None:
    ran = steps(job(checkpoint=Checkpoint(every=2)), 4)
    plain, saving, again, also = (float(step_ns(s)[0]) for s in ran)
    assert saving > plain + 100 * MS
    assert also == pytest.approx(saving, rel=0.01)
    assert again < saving


def test_saves_faster_than_their_upload_wait_for_it() -> None:
    one = job(checkpoint=Checkpoint(every=1, mode="async"))
    held, hidden = save_ns(one.workload, one.cluster, one.workload.shape.parameters())
    took = [float(step_ns(s)[0]) for s in steps(one, 4)]
    assert took[-1] >= min(hidden + held, took[0]) - 1
    assert took[-1] >= predict(job()).step_ns


def test_an_upload_over_the_jobs_own_nics_slows_its_collectives_while_it_lasts() -> None:
    """A fair share: the upload of 20 GB/s takes 20 of 392 GB/s of a node's NICs, on a network of its own it takes none."""
    plain = job("fsdp=16,seq=2048,prefetch=off", checkpoint=Checkpoint(every=100, mode="async"))
    saving = job("fsdp=16,seq=2048,prefetch=off", checkpoint=Checkpoint(every=2, mode="async"))
    mounts = tuple(msgspec.structs.replace(m, over="rails") for m in saving.cluster.mounts)
    shared = replace(saving, cluster=msgspec.structs.replace(saving.cluster, mounts=mounts))
    share = upload_share(shared.workload, shared.cluster)
    assert share == pytest.approx(20e9 / (8 * 49e9))
    assert upload_share(saving.workload, saving.cluster) == upload_share(plain.workload, plain.cluster) == 0
    beside, own = (float(step_ns(steps(one, 3)[2])[0]) for one in (shared, saving))  # the step after the save
    moved = 0.25e9  # at most so much of the step is communication
    assert 0 < beside - own < moved * share / (1 - share)
