"""The textbook table: bytes a parameter of weights, gradients, moments and master weights, unsharded, and what it leaves out."""

from __future__ import annotations

from typing import Final

from stepscope.model.memory import TableRow, Textbook

WEIGHT: Final = 2  # 16-bit weights that compute reads
GRADIENT: Final = {"bf16": 2, "fp32": 4}
MOMENTS: Final = 8  # two of Adam, fp32
MASTER: Final = 4  # fp32 weights that the optimizer updates
ADDITIONAL: Final = (
    "activations: grow with tokens of a micro-batch, layers and hidden width; what backward forms again under checkpointing",
    "the loss head: 6 to 16 B for each token and word of the vocabulary, by implementation",
    "units gathered whole, the next one ahead, reduce-scatter inputs, or DDP buckets",
    "temporaries of the update, workspaces of matrix products",
    "outside of torch: the CUDA context and NCCL's buffers, for each process group",
    "what the allocator rounds and cannot use again",
)


def textbook(model: str, parameters: int, *, master: bool = True, gradients: str = "bf16") -> Textbook:
    """The table for so many parameters; decimal bytes. `master` False: 16-bit weights are updated in place."""
    states = [("Weights", WEIGHT), ("Gradients", GRADIENT[gradients]), ("Adam moments", MOMENTS)]
    if master:
        states.append(("Master weights", MASTER))
    states.append(("Total", sum(each for _, each in states)))
    rows = tuple(TableRow(row=name, bytes_per_parameter=each, bytes=each * parameters) for name, each in states)
    return Textbook(model=model, parameters=parameters, rows=rows, additional=ADDITIONAL)
