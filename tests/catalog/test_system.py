"""Systems: what each becomes as links, and descriptions that contradict themselves."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from stepscope.catalog.document import shipped
from stepscope.catalog.system import load_system, system_names
from stepscope.model.cluster import Cluster
from stepscope.model.errors import BadInput, UsageMistake
from stepscope.model.link import bottleneck


def kinds(cluster: Cluster, a: tuple[int, int], b: tuple[int, int]) -> list[str]:
    return [link.kind for link in cluster.path(a, b)]


@pytest.mark.parametrize("name", system_names())
def test_every_path_is_connected_there_as_back_and_made_of_the_clusters_links(name: str) -> None:
    cluster = load_system(name).cluster(2)
    every = {link.name: link for link in cluster.links()}
    gpus = [(node, gpu) for node in range(2) for gpu in range(cluster.gpus_per_node)]
    for a in gpus:
        for b in gpus:
            there, back = cluster.path(a, b), cluster.path(b, a)
            assert all(every[link.name] == link for link in there)
            assert all(x.dst == y.src for x, y in pairwise(there))
            assert [(link.kind, link.capacity_bytes_per_s) for link in there] == [
                (link.kind, link.capacity_bytes_per_s) for link in reversed(back)
            ]
            if a != b:
                assert (there[0].src, there[-1].dst) == (f"node{a[0]}/gpu{a[1]}", f"node{b[0]}/gpu{b[1]}")


@pytest.mark.parametrize("name", system_names())
def test_every_link_has_its_mirror_once(name: str) -> None:
    links = list(load_system(name).cluster(3).links())
    every = {link.name: link for link in links}

    assert len(every) == len(links)
    for link in links:
        assert every[f"{link.dst}>{link.src}"].capacity_bytes_per_s == link.capacity_bytes_per_s > 0


@pytest.mark.parametrize("name", system_names())
def test_healthy_pairing_never_crosses_a_socket(name: str) -> None:
    cluster = load_system(name).cluster(2)
    for gpu in range(cluster.gpus_per_node):
        assert "socket" not in kinds(cluster, (0, gpu), (1, gpu))


def test_what_leaves_a_node_of_the_reference() -> None:
    cluster = load_system("hgx-h100").cluster()
    cables = [link for link in cluster.links() if link.kind == "cable" and link.src.startswith("node1/")]

    assert cluster.world_size == 16
    assert sum(link.capacity_bytes_per_s for link in cables) == 8 * 49e9
    assert [link.dst for link in cables] == [f"leaf{i}" for i in range(8)]
    assert bottleneck(cluster.path((0, 3), (0, 5))) == 450e9
    assert bottleneck(cluster.path((0, 3), (1, 3))) == 49e9


def test_a_spine_layer_of_the_reference_carries_as_much_as_the_nodes_below() -> None:
    system = load_system("hgx-h100")
    up = sum(link.capacity_bytes_per_s for link in system.cluster(64).links() if link.kind == "spine" and link.src == "leaf3")

    assert up == 16 * 100e9
    assert up >= 32 * system.network.gbit * 1e9 / 8


def test_pairs_that_share_a_nic_and_gpus_with_several() -> None:
    p4d, p5 = load_system("p4d").cluster(), load_system("p5").cluster()

    assert p4d.path((0, 4), (1, 4))[1].dst == p4d.path((0, 5), (1, 5))[1].dst == "node0/nic2"
    assert [slot.nics for slot in p5.node.gpus][2] == (8, 9, 10, 11)
    assert p5.path((0, 2), (1, 2), nic=10)[2].name == "node0/nic10>leaf0"
    assert p5.path((0, 2), (1, 2), nic=10)[3].name == "leaf0>node1/nic10"
    assert bottleneck(p4d.path((0, 4), (1, 4))) == bottleneck(p5.path((0, 2), (1, 2))) == 12.5e9


def test_mesh_of_eight() -> None:
    dgx1 = load_system("dgx-1v").cluster()
    straight, around = dgx1.path((0, 0), (0, 3)), dgx1.path((0, 0), (0, 7))

    assert [(link.name, link.capacity_bytes_per_s) for link in straight] == [("node0/gpu0>node0/gpu3", 50e9)]
    assert [link.kind for link in around] == ["scale_up", "scale_up"]
    mi300x = load_system("nd-mi300x-v5").cluster()
    assert bottleneck(mi300x.path((0, 0), (0, 7))) == 64e9


def test_without_nvlink_bytes_take_pcie() -> None:
    cluster = load_system("l40s-pcie").cluster()

    assert kinds(cluster, (0, 0), (0, 1)) == ["pcie", "pcie"]
    assert kinds(cluster, (0, 0), (0, 7)) == ["pcie", "pcie", "socket", "pcie", "pcie"]


def test_numbers_of_nodes() -> None:
    system = load_system("hgx-h100")

    assert [system.nodes_for(ranks) for ranks in (1, 8, 16, 64)] == [1, 1, 2, 8]
    for ranks in (0, -8, 12):
        with pytest.raises(UsageMistake, match=f"^{ranks} ranks: hgx-h100 has 8 GPUs a node; take a multiple of 8"):
            system.nodes_for(ranks)
    for nodes in (0, -1, 10**9):
        with pytest.raises(UsageMistake, match=f"^{nodes} nodes: hgx-h100 can have 1 to 16384"):
            system.cluster(nodes)


def bad(tmp_path: Path, old: str, new: str, name: str = "hgx-h100") -> str:
    text = shipped(f"systems/{name}.toml")
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(BadInput) as caught:
        load_system(path)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "{ pcie = 3, nics = [3] }",
            "{ pcie = 3, nics = [9] }",
            "wiring.gpus[3].nics: NIC 9 is not there, wiring.nics has 0 to 7; mend the number or add it",
        ),
        (
            "{ pcie = 3, nics = [3] }",
            "{ pcie = 8, nics = [3] }",
            "wiring.gpus[3].pcie: PCIe switch 8 is not there, wiring.switches has 0 to 7; mend the number or add it",
        ),
        (
            "{ pcie = 3, rail = 3,",
            "{ pcie = -1, rail = 3,",
            "wiring.nics[3].pcie: PCIe switch -1 is not there, wiring.switches has 0 to 7; mend the number or add it",
        ),
        (
            "rail = 3,",
            "rail = 99,",
            "wiring.nics[3].rail: 99 is no rail; rails are numbered from 0, at most one for each NIC",
        ),
        (
            "sockets = 2",
            "sockets = 1",
            "wiring.switches[4].socket: socket 1 is not there, host.sockets has 0 to 0; mend the number or add it",
        ),
        ('"mlx5_1"', '"mlx5_0"', "wiring.nics: two NICs are named mlx5_0; rename one"),
        ("gbit = 400\npayload", "gbit = -400\npayload", "network.gbit: expected float > 0.0; mend that value"),
        ("nodes = 2", "nodes = 0", "size.nodes: expected int >= 1; mend that value"),
        ("spine_gbit = 800\n", "", "fabric.spine_gbit: missing, though there are spines; add what joins one leaf to one spine"),
        ('path = "/scratch"', 'path = "/data"', "storage: /data is mounted twice; give each file system a path of its own"),
        (
            "total_write_gbps = 160\n",
            "",
            "storage[0]: one total rate without the other; give both, or neither for a disk in the node",
        ),
        ('kind = "switch"', 'kind = "mesh"', "scale_up.bundles: missing; list the pairs"),
        (
            'gpu = "h100-sxm"',
            'gpu = "mine.toml"',
            "gpu: mine.toml is a path; give a name of the catalog, or the GPU's tables under gpu",
        ),
    ],
)
def test_a_description_that_cannot_be(tmp_path: Path, old: str, new: str, line: str) -> None:
    assert bad(tmp_path, old, new) == line


def test_links_that_cannot_be(tmp_path: Path) -> None:
    assert bad(tmp_path, "[0, 3, 2]", "[0, 3, 3]", "dgx-1v") == (
        "scale_up.bundles: GPU 0 has 7 links, a v100-sxm2-32gb has 6; take some away"
    )
    assert bad(tmp_path, "[0, 3, 2]", "[0, 8, 2]", "dgx-1v") == (
        "scale_up.bundles[2]: GPU 8 is not there, wiring.gpus has 0 to 7; mend the number or add it"
    )
    assert bad(tmp_path, "[0, 3, 2]", "[1, 0, 1]", "dgx-1v").startswith("scale_up.bundles[2]: GPUs 1 and 0 are one GPU or a pair")
    assert bad(tmp_path, 'kind = "none"', 'kind = "switch"', "l40s-pcie") == (
        "scale_up.kind: switch, but l40s has neither NVLink nor xGMI; write none, or name another GPU"
    )
    assert bad(tmp_path, 'gpu = "h100-sxm"', 'gpu = "h100-smx"').startswith("gpu: h100-smx: no such GPU; did you mean h100-sxm?")


def test_a_fabric_without_spines_has_one_leaf_of_room(tmp_path: Path) -> None:
    path = tmp_path / "flat.toml"
    path.write_text(shipped("systems/hgx-h100.toml").replace("spines = 16\nspine_gbit = 800\n", ""))
    flat = load_system(path)

    assert flat.cluster(32).world_size == 256
    with pytest.raises(UsageMistake, match=r"^33 nodes: hgx-h100 has no spine and room for 32 on a leaf; take at most 32$"):
        flat.cluster(33)
    with pytest.raises(UsageMistake, match=r"^hgx-h100: no spine joins leaf0 and leaf1; give the fabric spines$"):
        flat.cluster(2).path((0, 0), (1, 1))
