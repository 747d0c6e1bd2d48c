"""On real recordings: figures that were measured apart from us, and every damage. Skipped without the third-party traces."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import stepscope
from stepscope.model.breakdown import Breakdown
from stepscope.model.errors import BadInput
from stepscope.model.info import RunInfo

# Compute, communication and exposed communication in µs, as interval unions over each file's GPU activity.
DLRM = {
    0: (1034, 5798, 5537), 1: (1246, 11336, 11056), 2: (1068, 3492, 3217), 3: (1240, 9774, 9450),
    4: (1126, 6587, 6550), 5: (1041, 6251, 6211), 6: (1051, 3558, 3289), 7: (1059, 1746, 1580),
}  # fmt: skip
UNTOUCHED = ("02", "10", "18", "22", "24")  # damages that lie beside the figures of rank 0


def explain(path: Path) -> tuple[Breakdown, RunInfo]:
    """Breakdown and description of what lies at a path."""
    with stepscope.read(path) as run:
        return stepscope.breakdown(run), run.info


def unions(result: Breakdown) -> dict[int, tuple[int, int, int]]:
    """Compute, communication and exposed per rank in whole µs."""
    return {c.rank: tuple(round(n / 1000) for n in (c.compute_ns, c.total_ns, c.exposed_ns)) for c in result.communication}  # type: ignore[misc]


def means(result: Breakdown) -> dict[str, float]:
    """Mean parts in ms over all rank-steps."""
    return {p: sum(s.parts_ns[p] for s in result.steps) / len(result.steps) / 1e6 for p in result.steps[0].parts_ns}


def test_eight_ranks_on_v100(shared: Path) -> None:
    result, info = explain(shared / "traces/dlrm-8rank-v100")
    assert unions(result) == DLRM
    assert info.clock.aligned is True
    assert Counter(c.last_rank for c in result.collectives) == {7: 5, 5: 2, 4: 1}
    for collective in result.collectives:
        assert collective.transfer_ns is not None
        assert collective.skew_ns is not None
        assert collective.transfer_ns < 100_000 < collective.skew_ns


def test_fsdp_over_gloo(shared: Path) -> None:
    result, info = explain(shared / "traces/gloo-fsdp2-4rank")
    assert len(result.steps) == 24
    assert all(sum(s.parts_ns.values()) == s.duration_ns for s in result.steps)
    assert all(s.parts_ns["backward"] > 0 and s.parts_ns["comm_wait"] + s.parts_ns["comm_transfer"] > 0 for s in result.steps)
    per_step = Counter((c.step, c.op) for c in result.collectives)
    assert {n for (_, op), n in per_step.items() if op == "all_gather"} == {13}
    assert {n for (_, op), n in per_step.items() if op == "reduce_scatter"} == {7}
    assert {u.unit for u in result.units} == {"root", *(f"layers.{n}" for n in range(6))}
    assert info.missing_ranks == []


@pytest.mark.parametrize(("loader", "least", "most"), [("0workers", 60, 62.5), ("4workers", 4.0, 4.6)])
def test_input_bound_pair(shared: Path, loader: str, least: float, most: float) -> None:
    result, _ = explain(shared / f"traces/resnet50-loader-{loader}")
    assert len(result.steps) == 6
    assert least < means(result)["input_wait"] < most


FORMS = (
    "resnet50-loader-0workers-list",
    "resnet50-loader-4workers-b",
    "inference-h100",
    "inference-mi300x",
    "mi300x-resnet-rccl",
    "hta-ddp-a100-control",
    "hta-df_index_resolver",
    "hta-nccl_parser_config",
    "hta-cpu_only",
    "hta-cpu_only_full",
    "hta-amd_trace",
)


@pytest.mark.parametrize("form", FORMS)
def test_every_vendor_and_age_sums_to_its_steps(shared: Path, form: str) -> None:
    result, info = explain(shared / "traces" / form)
    assert result.steps
    assert all(sum(s.parts_ns.values()) == s.duration_ns for s in result.steps)
    assert all(r.dropped == 0 and r.repaired == 0 and r.clipped == 0 for r in info.ranks)


def test_two_of_128_ranks_leave_lower_bounds(shared: Path) -> None:
    result, info = explain(shared / "traces/hta-2of128")
    assert len(info.missing_ranks) == 126
    assert {c.last_rank for c in result.collectives} == {None}
    assert all(c.transfer_ns is None and c.n_ranks == 128 for c in result.collectives)
    assert any(c.wait_ns for c in result.collectives)


def test_rccls_generic_kernel_takes_the_launching_operation(shared: Path) -> None:
    result, _ = explain(shared / "traces/mi300x-resnet-rccl")
    assert Counter(c.op for c in result.collectives) == {"all_reduce": 6, "broadcast": 6, "unknown": 5}


def test_undamaged_figures_of_damaged_files(shared: Path) -> None:
    folders = sorted((shared / "traces/damaged").iterdir())
    assert len(folders) >= 12
    for folder in folders:
        number = folder.name[:2]
        if number in ("14", "16"):
            continue
        result, info = explain(folder)
        assert all(s.duration_ns < 10**10 for s in result.steps), folder.name
        if number in UNTOUCHED:
            assert unions(result)[0] == DLRM[0], folder.name
        else:
            touched = sum(r.repaired + r.dropped + r.clipped for r in info.ranks)
            assert touched, folder.name
            assert any(g.what == "damaged file" for g in info.gaps), folder.name


def test_files_that_cannot_be_told_apart_or_hold_nothing(shared: Path) -> None:
    with pytest.raises(BadInput, match=r"claimed by both .*r0\.json and .*r1\.json"):
        stepscope.read(shared / "traces/damaged/16_dup_rank")
    with pytest.raises(BadInput, match="holds no events"):
        stepscope.read(shared / "traces/damaged/14_empty_events")
