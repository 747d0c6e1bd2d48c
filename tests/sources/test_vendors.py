"""Names of communication kernels and operations, as NVIDIA, AMD and other libraries write them."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscope
from stepscope.sources.kineto.vendors import COMMUNICATION, kernel_operation, operation
from tests.sources.make import BASE, COMM, device, gpu_trace, host, launch, write


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", "all_reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_SIMPLE(ncclDevKernelArgsStorage<4096ul>)", "reduce_scatter"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_gather"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", "send_recv"),
        ("ncclSymkDevKernel_AllGather_LL(ncclSymkDevWorkArgs4K)", "all_gather"),
        ("ncclDevKernel_Reduce_Sum_f32_RING_LL", "reduce"),
        ("rccl_AllReduce_kernel", "all_reduce"),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", None),
        ("oneccl_allreduce_ring_f32", "all_reduce"),
        ("void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(...)", "reduce"),
    ],
)
def test_communication_kernels_are_recognised_whatever_their_case(name: str, op: str | None) -> None:
    assert COMMUNICATION.search(name)
    assert COMMUNICATION.search(name.lower())
    assert kernel_operation(name) == op


@pytest.mark.parametrize("name", ["void at::native::reduce_kernel<512, 1>", "gemm_allow", "synccl", "Memcpy DtoD"])
def test_compute_kernels_are_not_communication(name: str) -> None:
    assert not COMMUNICATION.search(name)


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("c10d::_allgather_base_", "all_gather"),
        ("nccl:_reduce_scatter_base", "reduce_scatter"),
        ("nccl:all_to_all", "all_to_all"),
        ("gloo:all_reduce", "all_reduce"),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("c10d::barrier", "barrier"),
        ("aten::mm", None),
    ],
)
def test_calls_and_annotations_name_their_operation(name: str, op: str | None) -> None:
    assert operation(name) == op


@pytest.mark.parametrize(("around", "op"), [("nccl:_all_gather_base", "all_gather"), (None, "unknown")])
def test_a_generic_kernel_takes_its_operation_from_the_launching_op_or_has_none(
    tmp_path: Path, around: str | None, op: str
) -> None:
    document = gpu_trace(0, 1, steps=1)
    if around:
        document["traceEvents"].append(host(around, BASE + 720, 20, "user_annotation"))
    document["traceEvents"] += [
        launch(70, BASE + 725, name="hipExtLaunchKernel"),
        device("ncclDevKernel_Generic(x)", 70, BASE + 740, 50, COMM),
    ]
    with stepscope.read(write(tmp_path / "a.json", document)) as run:
        assert run.tables(0).collectives["op"].to_list() == ["all_reduce", op]


def test_sizes_follow_the_nccl_tests_convention(tmp_path: Path) -> None:
    document = gpu_trace(0, 4, steps=1)
    document["distributedInfo"]["pg_config"] = [{"pg_name": "0", "ranks": [0, 1, 2, 3]}]
    meta = {"Collective name": "_allgather_base", "In msg nelems": 10, "Out msg nelems": 40, "Group size": 4, "dtype": "BFloat16"}
    meta |= {"Process Group Name": "0", "Seq": 12}
    document["traceEvents"] += [launch(70, BASE + 725), device("ncclDevKernel_AllGather", 70, BASE + 740, 50, COMM, **meta)]
    with stepscope.read(write(tmp_path / "a.json", document)) as run:
        rows = run.tables(0).collectives.select("op", "bytes", "group_size", "group", "seq").rows()
    assert rows == [("all_reduce", 1024, 4, None, None), ("all_gather", 80, 4, "0", 12)]


def test_a_matrix_product_keeps_the_sizes_of_its_operands_and_others_do_not(tmp_path: Path) -> None:
    document = gpu_trace(0, 1, steps=1)
    for event in document["traceEvents"]:
        if event["name"] in ("aten::mm", "aten::to"):
            event["args"]["Input Dims"] = [[8, 16], [16, 4]]
    with stepscope.read(write(tmp_path / "a.json", document)) as run:
        spans = run.tables(0).spans
        found = {n: s for n, s in zip(spans["name"], spans["shape"], strict=True) if s}
        forward = next(p for p in stepscope.compare(run, run).phases if p.phase == "forward")
    assert found == {"aten::mm": "[[8, 16], [16, 4]]"}
    assert [(s.base, s.run) for s in forward.inspect if s.signal == "gemm_shapes"] == [(1.0, 1.0)]


def test_other_devices_are_read_as_far_as_they_say(tmp_path: Path) -> None:
    document = {
        "traceEvents": [host("urEnqueueKernelLaunch", BASE, 5, "xpu_runtime", correlation=1), host("aten::mm", BASE - 5, 20)]
    }
    with stepscope.read(write(tmp_path / "rank0.json", document)) as run:
        assert run.info.ranks[0].device == "xpu"
        assert "no device activity recorded" in {g.what for g in run.info.gaps}
        parts = stepscope.breakdown(run).steps[0].parts_ns
    assert parts["idle"] == 0
