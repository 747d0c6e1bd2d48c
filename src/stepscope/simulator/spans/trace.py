"""Builds the template of a program: for each operation the host's calls and the device's work, as a profiler shows them."""

from __future__ import annotations

from typing import Final

from stepscope.simulator.costs import Prepared
from stepscope.simulator.nccl.groups import Groups
from stepscope.simulator.program import COMPUTE, COPY, GATHER, REDUCE, REPLICATE, TENSOR, Op
from stepscope.simulator.spans.kernels import Pattern
from stepscope.simulator.spans.patterns import COPY_IN
from stepscope.simulator.spans.template import (
    BEGIN,
    BEGUN,
    END,
    ENDING,
    ENGINE,
    ISSUE,
    ISSUED,
    LEAD,
    MAIN,
    PER_OP,
    START,
    Point,
    Row,
    Template,
)  # fmt: skip

STREAM_NUMBERS: Final = {COMPUTE: 7, GATHER: 24, REDUCE: 28, REPLICATE: 32, TENSOR: 36, COPY: 20}
CALLS: Final = {
    "all_gather": ("c10d::_allgather_base_", "nccl:_all_gather_base", "AllGather"),
    "reduce_scatter": ("c10d::_reduce_scatter_base_", "nccl:_reduce_scatter_base", "ReduceScatter_Sum_{}"),
    "all_reduce": ("c10d::allreduce_", "nccl:all_reduce", "AllReduce_Sum_{}"),
}
LOADER: Final = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
LOADER_IN_LOOP: Final = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
SAVE: Final = "torch/distributed/checkpoint/state_dict_saver.py(93): save"
EVALUATE: Final = "autograd::engine::evaluate_function: "
LAUNCH, LAUNCH_EX = "cudaLaunchKernel", "cudaLaunchKernelExC"
_INSIDE: Final = (0.25, 0.75)  # where in its operator's time a launch stands: anywhere inside would do


def template_of(prepared: Prepared, patterns: dict[int, Pattern]) -> Template:
    """The template of a program on ranks with these kernels."""
    return _Trace(prepared, patterns).made()


class _Trace:
    def __init__(self, prepared: Prepared, patterns: dict[int, Pattern]) -> None:
        self.prepared, self.patterns = prepared, patterns
        self.ops = prepared.work.program.ops
        self.template = Template(len(self.ops))
        self.sharded = prepared.job.workload.plan.sharded
        self.forward: dict[int, int] = {}  # micro-batch -> row of the range around its forward
        self.entered: set[tuple[str, int]] = set()  # units whose backward has begun

    def made(self) -> Template:
        template = self.template
        start, end = template.step()
        template.add(Row("annotation", "ProfilerStep#{step}", start, end, MAIN))
        for k, op in enumerate(self.ops):
            getattr(self, f"_{op.kind}")(k, op)
        self._closing_hooks()
        return template

    def _compute(self, k: int, op: Op) -> None:
        template, pattern = self.template, self.patterns[k]
        first = template.kernels
        template.patterns[k] = (first, pattern)
        template.kernels += len(pattern)
        thread = ENGINE if op.pass_ == "backward" else MAIN
        outer = self._range(k, op, thread)
        again = -1
        for j in range(len(pattern)):
            low, high = (j + 0.1) / (len(pattern) + 1), (j + 1) / (len(pattern) + 1)
            name, parent = pattern.op[j], outer
            if op.pass_ == "backward":
                if pattern.recompute[j]:
                    again = again if again >= 0 else self._recomputation(k, pattern, outer)
                    parent = again
                else:
                    wrapped = template.slot(k, low, high)
                    parent = template.add(Row("op", EVALUATE + _function(name), *wrapped, thread, parent=outer, op=k))
                    low, high = low + 0.1 * (high - low), high - 0.1 * (high - low)
            shape = _shape(pattern.gemm[j])
            call = template.add(Row("op", name, *template.slot(k, low, high), thread, parent=parent, op=k, shape=shape,
                                    flops=int(pattern.flops[j]) or None))  # fmt: skip
            a, b = (low + (high - low) * f for f in _INSIDE)
            launch = template.add(Row("runtime", LAUNCH, *template.slot(k, a, b), thread, parent=call, op=k))
            template.add(Row("kernel", pattern.kernel[j], *template.kernel(first + j), stream=STREAM_NUMBERS[op.stream],
                             launch=launch, op=k, nbytes=int(pattern.bytes[j]) or None))  # fmt: skip

    def _range(self, k: int, op: Op, thread: int) -> int:
        """The range around a computation's calls, -1 where it stands alone or between a unit's hooks."""
        if op.name == "optimizer":
            return self.template.add(
                Row("annotation", "Optimizer.step#AdamW.step", *self.template.slot(k, 0.0, 1.0), thread, op=k)
            )
        if op.pass_ == "forward" and not self.sharded:
            return self._forward(k, op)
        if op.pass_ == "backward" and self.sharded and (op.unit, op.micro) not in self.entered:
            self.entered.add((op.unit, op.micro))
            name = f"FSDP::pre_backward ({op.unit})" if op.unit != "root" else "FSDP::pre_backward"
            before = self.template.slot(k, 0.0, 0.05 / (len(self.patterns[k]) + 1))
            self.template.add(Row("annotation", name, *before, thread, op=k))
        return -1

    def _forward(self, k: int, op: Op) -> int:
        """DDP's range around the forward of a micro-batch."""
        if op.micro not in self.forward:
            last = max(j for j, o in enumerate(self.ops) if o.pass_ == "forward" and o.kind == "compute" and o.micro == op.micro)
            a, b = self.template.at(k, ISSUE), self.template.at(last, ISSUED)
            row = Row("annotation", "DistributedDataParallel.forward", (a, a, 0.0), (b, b, 0.0), MAIN, op=k)
            self.forward[op.micro] = self.template.add(row)
        return self.forward[op.micro]

    def _recomputation(self, k: int, pattern: Pattern, outer: int) -> int:
        """The range of what checkpointing runs again: a forward inside backward."""
        last = max(j for j in range(len(pattern)) if pattern.recompute[j])
        first = min(j for j in range(len(pattern)) if pattern.recompute[j])
        share = len(pattern) + 1
        low, high = (first + 0.02) / share, (last + 1.05) / share
        around = self.template.slot(k, low, high)
        top = self.template.add(Row("op", EVALUATE + "CheckpointFunctionBackward", *around, ENGINE, parent=outer, op=k))
        inside = self.template.slot(k, low + 0.01 / share, high - 0.01 / share)
        return self.template.add(Row("annotation", "## forward ##", *inside, ENGINE, parent=top, op=k))

    def _collective(self, k: int, op: Op) -> None:
        template = self.template
        thread = ENGINE if op.pass_ == "backward" else MAIN
        hook = self._hook(op)
        outer = template.add(Row("annotation", hook, *template.slot(k, 0.02, 0.98), thread, op=k)) if hook else -1
        stream = STREAM_NUMBERS[op.stream]
        if op.lead and self._has_lead(k):
            launch = template.add(Row("runtime", LAUNCH, *template.slot(k, 0.06, 0.12), thread, parent=outer, op=k))
            template.add(Row("kernel", COPY_IN, *template.between(k, LEAD, START), stream=stream, launch=launch, op=k))
        call_name, inner_name, _ = CALLS[op.name]
        for n in range(op.count):
            low, high = 0.15 + 0.8 * n / op.count, 0.15 + 0.8 * (n + 0.95) / op.count
            call = template.add(Row("op", call_name, *template.slot(k, low, high), thread, parent=outer, op=k, collective=True))
            points = [low + (high - low) * f for f in (0.1, 0.3, 0.7, 0.9)]
            inner = template.add(
                Row("annotation", inner_name, *template.slot(k, points[0], points[3]), thread, parent=call, op=k)
            )
            launch = template.add(Row("runtime", LAUNCH_EX, *template.slot(k, points[1], points[2]), thread, parent=inner, op=k))
            start, end = self._called(k, op, n)
            kernel = template.add(Row("collective", self._kernel_name(op), start, end, stream=stream, launch=launch, op=k,
                                      nbytes=op.nbytes, collective=True))  # fmt: skip
            template.calls.append((kernel, call, k, n))

    def _called(self, k: int, op: Op, n: int) -> tuple[Point, Point]:
        """When the n-th of several equal calls runs: the first waits for the last member, the rest are spread to the end."""
        t = self.template
        if op.count == 1:
            return t.between(k, START, END)
        share = n / (op.count - 1)
        start = (t.at(k, BEGIN), t.at(k, ENDING), share) if n else (t.at(k, START), t.at(k, START), 0.0)
        return start, (t.at(k, BEGUN), t.at(k, END), share)

    def _hook(self, op: Op) -> str:
        if not self.sharded or op.unit == "" or op.stream == TENSOR:
            return ""
        if op.name == "all_gather" and op.pass_ == "forward":
            return f"FSDP::pre_forward ({op.unit})" if op.unit != "root" else "FSDP::pre_forward"
        if op.name == "all_gather":
            return f"FSDP::backward_prefetch for {op.unit}"
        return f"FSDP::post_backward_reduce ({op.unit})" if op.unit != "root" else "FSDP::post_backward_reduce"

    def _has_lead(self, k: int) -> bool:
        lead = self.prepared.work.codes[k].lead_ns
        return not isinstance(lead, float) or lead > 0

    def _kernel_name(self, op: Op) -> str:
        assert op.comm is not None
        from stepscope.simulator.costs import axes

        plan = self.prepared.job.workload.plan
        size, stride = axes(self.prepared.job.mesh, plan)[op.comm.axis]
        chosen = self.prepared.collectives.time(
            op.name, op.nbytes, Groups.regular(self.prepared.job.ranks, size, stride)
        ).algorithm
        dtype = "f32" if op.nbytes == 4 or (op.comm.axis != "tp" and plan.reduce == "fp32") else "bf16"
        algorithm = {"tree": "TREE", "nvls": "NVLS", "nvlstree": "NVLS_TREE"}.get(chosen, "RING")
        return f"ncclDevKernel_{CALLS[op.name][2].format(dtype)}_{algorithm}_LL(ncclDevKernelArgsStorage<4096ul>)"

    def _sync(self, k: int, op: Op) -> None:
        start, end = self.template.between(k, START, END)
        outer = -1
        if op.name == "read the loss":
            outer = self.template.add(Row("op", "aten::item", start, end, MAIN, op=k))
            outer = self.template.add(Row("op", "aten::_local_scalar_dense", start, end, MAIN, parent=outer, op=k))
        name = "cudaEventSynchronize" if op.name == "rate limit" else "cudaStreamSynchronize"
        self.template.add(Row("runtime", name, start, end, ENGINE if op.pass_ == "backward" else MAIN, parent=outer, op=k))

    def _host(self, k: int, op: Op) -> None:
        if op.name == "loop":
            return
        start, end = self.template.between(k, START, END)
        self.template.add(Row("op", op.name, start, end, ENGINE if op.pass_ == "backward" else MAIN, op=k))

    def _input(self, k: int, op: Op) -> None:
        name = LOADER if self.prepared.job.workload.loader.workers else LOADER_IN_LOOP
        self.template.add(Row("annotation", name, *self.template.between(k, START, END), MAIN, op=k))

    def _copy(self, k: int, op: Op) -> None:
        template = self.template
        held = self.prepared.work.codes[k].holds_host
        pageable = "Pageable" if held else "Pinned"
        a = template.at(k, ISSUE)
        until = template.at(k, END) if held else template.at(k, ISSUED)
        call = template.add(Row("op", "aten::_to_copy", (a, until, 0.0), (a, until, 1.0), MAIN, op=k))
        launch = template.add(Row("runtime", "cudaMemcpyAsync", (a, until, 0.2), (a, until, 0.9), MAIN, parent=call, op=k))
        nbytes = self.prepared.job.workload.plan.mbs * self.prepared.job.workload.seq * 16
        template.add(Row("memcpy", f"Memcpy HtoD ({pageable} -> Device)", *template.between(k, START, END),
                         stream=STREAM_NUMBERS[op.stream], launch=launch, op=k, nbytes=nbytes))  # fmt: skip

    def _save(self, k: int, op: Op) -> None:
        self.template.add(Row("python", SAVE, *self.template.between(k, START, END), MAIN, op=k))

    def _closing_hooks(self) -> None:
        """What closes a unit's forward and its backward."""
        t = self.template
        if not self.sharded:
            return
        last: dict[tuple[str, str | None, int], int] = {}
        for k, op in enumerate(self.ops):
            if op.kind == "compute" and op.unit and op.pass_:
                last[op.unit, op.pass_, op.micro] = k
        for (unit, pass_, _), k in last.items():
            end = t.at(k, ISSUED)
            name = "post_forward" if pass_ == "forward" else "post_backward_reshard"
            thread = MAIN if pass_ == "forward" else ENGINE
            low = (t.at(k, ISSUE), end, 0.985)
            t.add(
                Row(
                    "annotation",
                    f"FSDP::{name} ({unit})" if unit != "root" else f"FSDP::{name}",
                    low,
                    (end, end, 0.0),
                    thread,
                    op=k,
                )
            )


def _function(op: str) -> str:
    """The autograd node of an operator: aten::mm is run by MmBackward0."""
    return "".join(word.capitalize() for word in op.rpartition("::")[2].strip("_").split("_")) + "Backward0"


def _shape(gemm: object) -> str | None:
    m, n, k = (int(x) for x in gemm)  # type: ignore[attr-defined]  # a row of the pattern's array
    return f"[[{m},{k}],[{k},{n}]]" if m else None


__all__ = ["PER_OP", "template_of"]
