"""Where ranks sit: every form of a hosts file, what it leaves open, and every way to get one wrong is one line."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analysis.attribution import RULES
from stepscope.model.errors import BadInput
from stepscope.model.info import RankInfo
from stepscope.model.place import Place, place_name
from stepscope.sources import hosts
from stepscope.sources.detect import import_run
from stepscope.sources.hostlist import MAX_NODES, WrongList, expand
from stepscope.sources.hosts import read_hosts
from stepscope.sources.placement import Placement, settle
from tests.sources.make import gpu_trace, write


def places(tmp_path: Path, text: str, world: int) -> dict[int, Place]:
    path = tmp_path / "hosts"
    path.write_text(text)
    return dict(read_hosts(path).places(world))


def names(tmp_path: Path, text: str, world: int) -> list[str]:
    found = places(tmp_path, text, world)
    return [place_name(rank, found.get(rank)) for rank in range(world)]


TWO_BY_TWO = ["node1/gpu0", "node1/gpu1", "node2/gpu0", "node2/gpu1"]


@pytest.mark.parametrize(
    "text",
    [
        "node1 slots=2\nnode2 slots=2\n",  # Open MPI, DeepSpeed
        "# the job\nnode1 slots = 2 max_slots=4   # first\n\nnode2 slots=2",
        "node1:2\nnode2:2\n",  # MPICH
        "node1:2,node2:2",  # Horovod
        "node1\nnode1\nnode2\nnode2\n",  # a line per rank
        "node1\nnode2\n",  # scontrol show hostnames
        "\ufeffnode1\r\nnode2\r\n",
        "node[1-2]",
        "node[1,2]\n",
        "0 node1 0\n1 node1 1\n3 node2 1\n2 node2 0\n",
        "0 node1 gpu0 -\n1 node1 cuda:1\n2 node2 0 2\n3 node2 1 mlx5_1",
        "SLURM_JOB_NODELIST=node[1-2]\nSLURM_TASKS_PER_NODE=2(x2)\n",
        "export SLURM_JOB_NODELIST='node1,node2'\nexport SLURM_TASKS_PER_NODE=2,2\nSLURM_NTASKS=4",
        "node[1-2]\nSLURM_TASKS_PER_NODE=2(x2)",
        "SLURM_JOB_NODELIST=node[1-2]\nSLURM_TASKS_PER_NODE=1(x2)\n",  # one torchrun on each
        "SLURM_NODELIST=node[1-2]\n",
        "SLURM_JOB_NODELIST=node[1-9]\nSLURM_STEP_NODELIST=node[1-2]\nSLURM_STEP_TASKS_PER_NODE=2(x2)\nSLURM_TASKS_PER_NODE=2(x9)",
        "JobId=17 JobName=train\n   NodeList=node[1-2]\n   ReqNodeList=(null) NumNodes=2 NumTasks=4 NtasksPerN:B:S:C=0:0:*:*\n",
        "JobId=17\n   ReqNodeList=(null) ExcNodeList=node[8-9]\n   NodeList=node[1-2]\n   NtasksPerN:B:S:C=2:0:*:1\n",
        "JobID|NodeList|NTasks\n17|node[1-2]|\n17.batch|node1|1\n17.0|node[1-2]|4\n",
        "JobID NodeList  NTasks \n----- --------- ------\n17    node[1-2]       \n17.0  node[1-2]      4\n",
    ],
)
def test_forms_that_say_the_same(text: str, tmp_path: Path) -> None:
    assert names(tmp_path, text, 4) == TWO_BY_TWO


def test_hosts_without_gpus(tmp_path: Path) -> None:
    expected = ["rank 0 on node1", "rank 1 on node1", "rank 2 on node2"]
    assert names(tmp_path, "0: node1\n2: node2\n1: node1\n", 3) == expected  # srun --label hostname
    assert names(tmp_path, "rank 0=node1 slot=0:0\nrank 1=node1 slot=1\nrank 2=node2", 3) == expected  # rankfile


def test_nics(tmp_path: Path) -> None:
    found = places(tmp_path, "0 node1 0 mlx5_0\n1 node1 1 1\n2 node1 - nic2", 3)
    assert [p.nic for p in found.values()] == ["mlx5_0", "nic1", "nic2"]
    assert found[2].gpu is None


def test_cyclic_distribution(tmp_path: Path) -> None:
    text = "SLURM_JOB_NODELIST=node[1-2]\nSLURM_TASKS_PER_NODE=2(x2)\nSLURM_DISTRIBUTION=cyclic:block\n"
    assert names(tmp_path, text, 4) == ["node1/gpu0", "node2/gpu0", "node1/gpu1", "node2/gpu1"]


def test_more_slots_than_ranks_and_fewer(tmp_path: Path) -> None:
    assert names(tmp_path, "node1 slots=8\nnode2 slots=8", 2) == ["node1/gpu0", "node1/gpu1"]
    assert names(tmp_path, "node1 slots=1\nnode2 slots=2", 4)[3] == "rank 3"
    assert names(tmp_path, "node1 slots=0\nnode2 slots=2", 2) == ["node2/gpu0", "node2/gpu1"]


def pod(name: str, node: str, *, env: dict[str, str] | None = None, gpus: str | None = "2", **more: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "pytorch", "env": [{"name": k, "value": v} for k, v in (env or {}).items()]}
    if gpus is not None:
        container["resources"] = {"limits": {"nvidia.com/gpu": gpus, "memory": "64Gi", "cpu": 8}}
    meta = {"name": name, "labels": more.get("labels", {}), "annotations": more.get("annotations")}
    spec = {"nodeName": node, "containers": [container, {"name": "sidecar"}]}
    return {"kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": more.get("phase", "Running")}}


def pods(*items: dict[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)})


@pytest.mark.parametrize(
    "items",
    [
        [pod("b", "node2", env={"RANK": "1", "WORLD_SIZE": "2"}), pod("a", "node1", env={"RANK": "0"})],
        [pod(n, n, env={"PET_NODE_RANK": r, "PET_NPROC_PER_NODE": "2"}) for n, r in (("node1", "0"), ("node2", "1"))],
        [pod(n, n, annotations={"batch.kubernetes.io/job-completion-index": r}) for n, r in (("node1", "0"), ("node2", "1"))],
        [pod(n, n, env={"JOB_COMPLETION_INDEX": r}) for n, r in (("node1", "0"), ("node2", "1"))],
        [pod(n, n, labels={"apps.kubernetes.io/pod-index": r}) for n, r in (("node1", "0"), ("node2", "1"))],
        [
            pod(n, n, labels={"training.kubeflow.org/replica-type": t, "training.kubeflow.org/replica-index": "0"})
            for n, t in (("node2", "Worker"), ("node1", "Master"))
        ],
        [
            pod("old", "node7", env={"RANK": "0"}, phase="Failed"),
            pod("waiting", "", env={"RANK": "1"}),
            pod("web", "node9", gpus=None),
            pod("a", "node1", env={"RANK": "0"}),
            pod("b", "node2", env={"RANK": "1"}),
        ],
        [pod(n, n, env={"RANK": r}, phase="Succeeded") for n, r in (("node1", "0"), ("node2", "1"))],
    ],
)
def test_pods(items: list[dict[str, Any]], tmp_path: Path) -> None:
    assert names(tmp_path, pods(*items), 4) == TWO_BY_TWO


def test_pods_that_share_a_node_leave_the_gpu_open(tmp_path: Path) -> None:
    text = pods(pod("a", "node1", env={"RANK": "0"}, gpus="1"), pod("b", "node1", env={"RANK": "1"}, gpus="1"))
    assert names(tmp_path, text, 2) == ["rank 0 on node1", "rank 1 on node1"]


def test_amd_gpus(tmp_path: Path) -> None:
    one = pod("a", "node1", env={"RANK": "0"})
    one["spec"]["containers"][0]["resources"]["limits"] = {"amd.com/gpu": 2}
    assert names(tmp_path, json.dumps(one), 2) == TWO_BY_TWO[:2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no node"),
        ("# nothing\n", "names no node"),
        ("node1 cores=8", "line 1: 'cores=8' is not understood"),
        ("node1\nnode two", "line 2: 'two' is not understood"),
        ("node\x1b[31m1 slots=8", "is no name of a node"),
        ("../etc slots=8", "is no name of a node"),
        ("0 node1\nnode2", "line 2: 'node2' gives no rank, other lines do"),
        ("0 node1\n0 node2", "line 2: rank 0 stands there twice"),
        ("0 node1 zero", "'zero' is no GPU"),
        ("0 node1 0 ../nic", "'../nic' is no NIC"),
        ("0 node1 0 1 2", "is not `rank node [gpu] [nic]`"),
        ("0: node1 0", "is not `rank node [gpu] [nic]`"),
        ("99999999 node1", "rank 99999999 is beyond the 1,048,576"),
        ("node1 slots=99999999", "stands for more than 1,048,576 ranks"),
        ("node1 slots=0", "gives no node a rank"),
        ("node1:8,node2", "'node2' is not `node:ranks`"),
        ("node[0-999999999]", "stands for more than 131,072 nodes"),
        ("node" + "[1-9]" * 50, "stands for more than 131,072 nodes"),
        ("a[1-100000],b[1-100000]", "stands for more than 131,072 nodes"),
        ("node[4-1]", "'4-1' is no range"),
        ("node[1-2", "is no name of a node"),
        ("node[]", "'' is no range"),
        ("SLURM_NTASKS=4", "holds no SLURM_JOB_NODELIST"),
        ("SLURM_JOB_NODELIST=(null)", "holds no SLURM_JOB_NODELIST"),
        ("SLURM_JOB_NODELIST=node[1-2]\nSLURM_TASKS_PER_NODE=8(x4)", "has 2 nodes but SLURM_TASKS_PER_NODE counts 4"),
        ("SLURM_JOB_NODELIST=node1\nSLURM_TASKS_PER_NODE=8(x99999999)", "counts more than 131,072 nodes"),
        ("SLURM_JOB_NODELIST=node1\nSLURM_TASKS_PER_NODE=eight", "'eight' is not understood"),
        ("SLURM_JOB_NODELIST=node[1-2]\nSLURM_DISTRIBUTION=plane=2", "srun --label hostname"),
        ("JobId=1\nNodeList=(null)", "the job has no NodeList"),
        ("JobId=1\nNodeList=node1\n\nJobId=2\nNodeList=node2", "describes several jobs"),
        ("JobID|NodeList\n1|node1\n2|node2", "lists several jobs"),
        ("JobID|NodeList\n1|node[1-2+", "was cut by sacct"),
        ("JobID|NodeList\n1|", "is empty"),
        ("  JobID  NodeList\n1 node1", "no table of sacct"),
        ("{", "not the JSON of pods"),
        ("[]", "not the JSON of pods"),
        ('{"items": 3}', "not the JSON of pods"),
        ("[" * 100_000, "not the JSON of pods"),
        ('{"kind": "List", "items": [{"kind": "Node"}]}', "holds a 'Node', no pods"),
        (pods(), "no pod on a node says its part"),
        (pods(pod("a", "node1")), "no pod on a node says its part"),
        (pods(*[pod(n, n, env={"RANK": "0"}) for n in ("a", "b")]), "a and b are both number 0"),
        (pods(pod("a", "node1", env={"RANK": "0"}, gpus="9999999")), "stands for more than 1,048,576 ranks"),
        (pods(pod("a", "no/de", env={"RANK": "0"})), "'no/de' is no name of a node"),
        (pods(*[pod(n, n, env={"RANK": n}, gpus=g) for n, g in (("0", "8"), ("1", "4"))]), "different numbers of GPUs"),
    ],
)
def test_what_is_no_hosts_file(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text(text)
    start = time.perf_counter()
    with pytest.raises(BadInput) as caught:
        read_hosts(path)
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - start < 2


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(BadInput, match="check --hosts"):
            read_hosts(path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="not UTF-8"):
        read_hosts(tmp_path / "binary")
    monkeypatch.setattr(hosts, "MAX_BYTES", 8)
    (tmp_path / "large").write_text("node1\n" * 10)
    with pytest.raises(BadInput, match="larger than"):
        read_hosts(tmp_path / "large")


@pytest.mark.parametrize("text", ["a," * 500_000, "[" * 1_000_000, "[a" * 500_000, "node[" + "1," * 500_000 + "1]", "]" * 10**6])
def test_long_lists_end_quickly(text: str) -> None:
    start = time.perf_counter()
    with pytest.raises(WrongList):
        expand(text)
    assert time.perf_counter() - start < 5


def test_node_lists() -> None:
    assert expand("node[01-03,07]") == ["node01", "node02", "node03", "node07"]
    assert expand("a1, b[9-11],c") == ["a1", "b9", "b10", "b11", "c"]
    assert expand("rack[1-2]-n[08-09].x") == ["rack1-n08.x", "rack1-n09.x", "rack2-n08.x", "rack2-n09.x"]
    assert len(expand(f"n[1-{MAX_NODES}]")) == MAX_NODES


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet='node019 =:,[]-(x)#\n\tslot{}"RANK|', max_size=60))
def test_any_text_gives_places_or_one_line(text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "hosts")
        path.write_text(text)
        try:
            found = read_hosts(path).places(8)
        except BadInput as error:
            assert "\n" not in str(error)
        else:
            assert all(isinstance(place, Place) for place in found.values())


def ranks(*hosts: str | None) -> list[RankInfo]:
    return [RankInfo(rank=rank, identified_by="simulated", host=host) for rank, host in enumerate(hosts)]


def test_what_stays_open_is_said() -> None:
    infos = ranks("pod-a", "pod-a", "pod-b", None)
    given = {0: Place("node1", 0), 1: Place("node2", 0), 2: Place("node2", 0)}
    gaps = {gap.what: gap.ranks for gap in settle(infos, Placement(given), 4)}
    assert gaps == {"GPU shared by ranks": (1, 2), "hosts contradict the traces": (0, 1), "place unknown": (3,)}
    assert [(i.host, i.place) for i in infos] == [*((p.node, p) for p in given.values()), (None, None)]


def test_a_list_of_nodes_is_an_order_and_that_is_said() -> None:
    infos = ranks(None, None)
    placement = Placement(nodes=(("node1", None), ("node2", None)))
    assert [gap.what for gap in settle(infos, placement, 2)] == ["place by order"]
    assert [i.host for i in infos] == ["node1", "node2"]
    with pytest.raises(BadInput, match="3 ranks do not divide over 2 nodes"):
        settle(ranks(None, None, None), placement, 3)
    with pytest.raises(BadInput, match="more than the 1,048,576"):
        settle(ranks(None), placement, 10**12)
    with pytest.raises(BadInput, match="none of this run"):
        settle(infos, Placement({7: Place("node1")}), 2)
    assert settle(infos, None, 2) == []


def test_import_puts_ranks_in_their_places(tmp_path: Path) -> None:
    files = [write(tmp_path / f"rank{r}.json", gpu_trace(r, 2)) for r in range(2)]
    placement = Placement({0: Place("node1", 3, "mlx5_3"), 1: Place("node2", 3)})
    run = import_run(files, tmp_path / "a.run", rules=RULES, hosts=placement)
    assert [r.place for r in run.info.ranks] == list(placement.given.values())
    assert [r.host for r in run.info.ranks] == ["node1", "node2"]
    assert set(run.info.clock.hosts) == {"node1", "node2"}
    alone = import_run(files, tmp_path / "b.run", rules=RULES)
    assert [r.place for r in alone.info.ranks] == [None, None]
