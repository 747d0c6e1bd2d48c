"""Times of single kernels by hand."""

from __future__ import annotations

import pytest

from stepscope.catalog.efficiency import Efficiency
from stepscope.catalog.gpu import Gpu, load_gpu
from stepscope.catalog.stack import Stack
from stepscope.model.errors import UsageMistake
from stepscope.simulator.kernels.operation import passes, product
from stepscope.simulator.kernels.roofline import gemm_fill, segment


def gemm(rows: int, columns: int, depth: int, precision: str = "bf16"):  # type: ignore[no-untyped-def]
    return product(rows, columns, depth, name="aten::mm", kernel="k", precision=precision, width=2, out=2)


def test_a_product_that_fills_whole_waves_runs_at_peak(gpu: Gpu, stack: Stack, plain: Efficiency) -> None:
    # 128 x 256 tiles: 132 in one direction, 16 in the other, sixteen waves of 132 multiprocessors
    op = gemm(128 * 132, 256 * 16, 4096)
    made = segment("layer", "forward", [op], gpu, plain, stack)

    assert op.flops == 2 * 16896 * 4096 * 4096
    assert made.total_ns() == pytest.approx(op.flops / 989.4e12 * 1e9)


def test_one_block_more_than_a_wave_takes_two(gpu: Gpu, plain: Efficiency) -> None:
    whole = gemm_fill((128 * 132, 256, 4096), 1, gpu.compute.units, plain)
    over = gemm_fill((128 * 133, 256, 4096), 1, gpu.compute.units, plain)

    assert whole == 1
    # two waves of the large tile: 133 of 264; the smaller tiles fill better but reach a share of the plateau
    assert 133 / 264 <= over < 0.95


def test_a_ragged_edge_is_computed_and_thrown_away(gpu: Gpu, plain: Efficiency) -> None:
    assert gemm_fill((128 * 132 - 100, 256, 4096), 1, gpu.compute.units, plain) < 1


def test_a_shallow_product_pays_for_its_start(gpu: Gpu, plain: Efficiency) -> None:
    import msgspec

    ramp = msgspec.structs.replace(plain, ramp_k=512)
    assert gemm_fill((128 * 132, 256, 512), 1, gpu.compute.units, ramp) == pytest.approx(0.5)


def test_a_copy_runs_at_memory_speed(gpu: Gpu, stack: Stack, plain: Efficiency) -> None:
    made = segment("layer", "forward", [passes("aten::add", "k", "elementwise", 1e9, 6)], gpu, plain, stack)

    assert made.total_ns() == pytest.approx(6e9 / 3350e9 * 1e9)


def test_a_slow_clock_and_slow_memory_stretch_their_own(gpu: Gpu, stack: Stack, plain: Efficiency) -> None:
    many, copy = gemm(128 * 132, 4096, 4096), passes("aten::add", "k", "elementwise", 1e9, 6)
    made = segment("layer", "forward", [many, copy], gpu, plain, stack)
    product_ns, copy_ns = made.ns()

    assert made.ns(clock=0.5) == pytest.approx([2 * product_ns, copy_ns])
    assert made.ns(hbm=0.5) == pytest.approx([product_ns, 2 * copy_ns])


def test_the_smallest_kernel_still_costs(gpu: Gpu, stack: Stack, plain: Efficiency) -> None:
    import msgspec

    least = msgspec.structs.replace(plain, kernel_ns=2000, gap_ns=1000)
    made = segment("layer", "forward", [passes("aten::add", "k", "elementwise", 1, 6)], gpu, least, stack)

    assert made.total_ns() == pytest.approx(3000)


def test_a_gpu_without_units_for_the_precision(stack: Stack, plain: Efficiency) -> None:
    with pytest.raises(UsageMistake, match=r"v100-sxm2-32gb: no units for precision bf16; take one of fp16, fp32"):
        segment("layer", "forward", [gemm(128, 128, 128)], load_gpu("v100-sxm2-32gb"), plain, stack)
