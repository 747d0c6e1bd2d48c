"""Workloads and plans of tests, in a word."""

from __future__ import annotations

import msgspec

from stepscope.catalog.gpu import load_gpu
from stepscope.catalog.model import load_model
from stepscope.catalog.stack import load_stack
from stepscope.model.memory import MemoryPlan
from stepscope.model.plan import parse_plan
from stepscope.model.shape import Shape
from stepscope.model.workload import Workload
from stepscope.planner.predict import predict
from stepscope.planner.setting import Choice

SMALL = Shape(
    layers=4, hidden=512, heads=8, kv_heads=2, ffn=1536, vocab=8192, context=512, tied_embeddings=False, activation="swiglu",
    norm="rmsnorm", attention="gqa", positions="rope",
)  # fmt: skip


def workload(plan: str, model: str = "llama3-8b", shape: Shape | None = None) -> Workload:
    """A model of the catalog, or a shape, laid out so."""
    found = shape or load_model(model).shape
    assert found is not None
    return Workload(model=model, shape=found, plan=parse_plan(plan))


def planned(
    plan: str, model: str = "llama3-8b", stack: str = "torchtitan", shape: Shape | None = None, choice: Choice | None = None
) -> MemoryPlan:
    """Its memory on an H100."""
    return predict(workload(plan, model, shape), load_gpu("h100-sxm"), load_stack(stack), choice)


def untied(model: str) -> Shape:
    """A model's shape with an output matrix of its own."""
    shape = load_model(model).shape
    assert shape is not None
    return msgspec.structs.replace(shape, tied_embeddings=False)
