"""What may one ask of a recording, and what does each question need? A table, read by `doctor`.

A need is a feature of every rank's recording or of the run as a whole; `a|b` is met by either, and the first is the one to
record. Settings are those of torch.profiler, as one writes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that may have been recorded: how its absence reads, and how to record it."""

    missing: str
    how_to_record: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and all that it needs."""

    question: str
    needs: tuple[str, ...]


FEATURES: Final = {
    # of the recording of each rank
    "device_kernels": Feature(
        "no device kernels", "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]), no other profiler attached"
    ),
    "launches": Feature("no runtime calls", "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"),
    "correlation": Feature(
        "device work is not linked to its launch", "a newer torch (on ROCm a newer roctracer) writes `correlation`"
    ),
    "operators": Feature("no framework operators", "profile(activities=[ProfilerActivity.CPU, …])"),
    "sequence_numbers": Feature(
        "operators without autograd's sequence numbers", "a newer torch, ProfilerActivity.CPU on in forward and backward"
    ),
    "evaluate_function": Feature("no ranges of the autograd engine", "a newer torch, ProfilerActivity.CPU on in backward"),
    "forward_ranges": Feature(
        "no range around the forward pass", "FSDP and DDP of a newer torch write it; else name yours with --mark REGEX=forward"
    ),
    "module_frames": Feature("no nn.Module frames", "profile(with_stack=True, with_modules=True)"),
    "python_stacks": Feature("no Python frames", "profile(with_stack=True)"),
    "shapes": Feature("no input shapes", "profile(record_shapes=True)"),
    "memory": Feature("no allocations", "profile(profile_memory=True)"),
    "flops": Feature("no FLOP counts", "profile(with_flops=True, record_shapes=True)"),
    "step_markers": Feature(
        "no step markers", "profile(schedule=schedule(wait=1, warmup=3, active=5)) and prof.step() after every step"
    ),
    "loader": Feature(
        "no range around the loader",
        "torch's DataLoader writes it with ProfilerActivity.CPU; else name yours with --mark REGEX=input",
    ),
    "optimizer_ranges": Feature(
        "no `Optimizer.step` range",
        "torch.optim writes it with ProfilerActivity.CPU; else name yours with --mark REGEX=optimizer",
    ),
    "saves": Feature(
        "a save would not be recognised", "profile(with_stack=True) over a step that saves, or --mark REGEX=checkpoint"
    ),
    "collectives": Feature("no communication", "a job of several ranks, CPU and device activity on"),
    "collective_metadata": Feature(
        "collectives without name, size and group", "torch 2.2 or later writes them on NCCL kernels; keep ProfilerActivity.CPU on"
    ),
    "collective_sequence": Feature("collectives without sequence numbers", "a newer torch, ProfilerActivity.CPU on"),
    "group_ranks": Feature("the ranks of the process groups", "a newer torch writes `Process Group Ranks` and `distributedInfo`"),
    "units": Feature(
        "no names of FSDP units", "FSDP names its gathers with ProfilerActivity.CPU on, FSDP2 of a newer torch each unit"
    ),
    "warmup": Feature(
        "launches without their kernels", "profile(schedule=schedule(wait=1, warmup=3, active=5)): warm up for at least 3 steps"
    ),
    "complete_window": Feature(
        "the file was cut, or the ring of activity buffers wrapped",
        "fewer steps (active=2), or ACTIVITIES_MAX_GPU_BUFFER_SIZE_MB=512 in the file that KINETO_CONFIG names",
    ),
    "stream_sync": Feature(
        "no synchronisation records",
        "profile(experimental_config=torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True))",
    ),
    # that follow from the above, or of the run as a whole
    "work": Feature(
        "no device work", "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]), no other profiler attached"
    ),
    "all_ranks": Feature(
        "not every rank of the job", 'on_trace_ready=tensorboard_trace_handler(FOLDER, worker_name=f"rank{rank}") on every rank'
    ),
    "several_steps": Feature("fewer than two complete steps", "profile(schedule=schedule(wait=1, warmup=3, active=5))"),
    "shared_clock": Feature(
        "the clocks of the hosts are not aligned",
        "record every rank over the same steps, with an all-reduce that joins the hosts",
    ),
}

QUESTIONS: Final = (
    Asked("Where did each rank's step go, part by part?", ("work",)),
    Asked("How much communication was exposed, and how much hidden behind compute?", ("work",)),
    Asked("How long is each step?", ("step_markers",)),
    Asked("How much does the step vary from one to the next?", ("step_markers", "several_steps")),
    Asked("How much of the step is forward, and how much backward?", ("work", "operators", "evaluate_function|sequence_numbers")),
    Asked("Which work is forward by its range or link, not by order?", ("forward_ranges|sequence_numbers|module_frames",)),
    Asked("Which forward operator does each backward operator belong to?", ("operators", "sequence_numbers")),
    Asked("What does backward compute again (activation checkpointing)?", ("operators", "evaluate_function")),
    Asked("How long did the loader hold the step?", ("loader",)),
    Asked("How long did the optimizer take?", ("optimizer_ranges",)),
    Asked("Did a checkpoint stall the step?", ("saves",)),
    Asked("Was the GPU short of launches (host-bound), or idle?", ("device_kernels", "launches", "correlation")),
    Asked("Which operator launched each kernel?", ("device_kernels", "operators", "correlation")),
    Asked("Which line of Python launched each kernel?", ("device_kernels", "operators", "correlation", "python_stacks")),
    Asked("Which module of the model took the time?", ("module_frames",)),
    Asked("Where did the host block on the GPU, and which streams waited for which?", ("device_kernels", "stream_sync")),
    Asked("Which unit's gather was exposed?", ("work", "units")),
    Asked("How much of each collective was waiting, and how much transfer?", ("work", "all_ranks", "collectives")),
    Asked("Which rank came last to each collective?", ("work", "all_ranks", "collectives", "shared_clock")),
    Asked("What bus bandwidth did each collective reach?", ("work", "all_ranks", "collectives", "collective_metadata|shapes")),
    Asked("Which operation, group and size has each communication kernel?", ("collectives", "collective_metadata")),
    Asked("Are collectives matched across ranks by number, not by order?", ("all_ranks", "collective_sequence")),
    Asked("Which ranks form each process group?", ("group_ranks",)),
    Asked("Which rank is the slowest in its own work?", ("work", "all_ranks")),
    Asked("What happened at the same moment on different hosts?", ("shared_clock",)),
    Asked("Which shapes do the matrix products have, and how well do they suit the GPU?", ("operators", "shapes")),
    Asked("What share of the peak FLOP rate does the step reach?", ("work", "flops")),
    Asked("When does memory peak, and how high?", ("memory",)),
    Asked("Is the device work of the first step whole?", ("device_kernels", "warmup")),
    Asked("Is the recording whole up to its end?", ("complete_window",)),
)
