"""What a user asks to have planned, in their words. Names of the catalog or paths of own files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stepscope.catalog.model import Model, load_model
from stepscope.catalog.stack import DEFAULT_STACK, Stack, load_stack
from stepscope.catalog.system import System, load_system
from stepscope.model.errors import UsageMistake
from stepscope.model.memory import CheckpointPlan, Textbook
from stepscope.model.plan import parse_plan
from stepscope.model.workload import Workload
from stepscope.planner.checkpoint import checkpoint, parse_terms
from stepscope.planner.predict import Planner
from stepscope.planner.setting import Choice
from stepscope.planner.textbook import textbook


@dataclass(frozen=True)
class Request:
    """One `plan`."""

    model: str
    system: str | None = None
    plan: str | None = None
    stack: str | None = None
    recipe: str | None = None
    loss: str | None = None
    expandable: bool = False

    def the_model(self) -> Model:
        """The model's description."""
        return load_model(_path_or_name(self.model))

    def the_system(self) -> System:
        """The cluster's description. UsageMistake where none is named."""
        if self.system is None:
            raise UsageMistake("plan: --system is missing; name a cluster such as hgx-h100 (or ask for --table)")
        return load_system(_path_or_name(self.system))

    def the_stack(self) -> Stack:
        """The software."""
        return load_stack(_path_or_name(self.stack or DEFAULT_STACK))

    def workload(self) -> Workload:
        """The model with its plan. UsageMistake for a model without shapes, or no plan."""
        if self.plan is None:
            raise UsageMistake("plan: --plan is missing; say how the job is laid out, for example fsdp=16,mbs=1,seq=8192")
        model = self.the_model()
        if model.shape is None:
            raise UsageMistake(
                f"{model.name}: has a number of parameters but no shapes; ask for --table, or give a model with shapes"
            )
        return Workload(model=model.name, shape=model.shape, plan=parse_plan(self.plan))

    def planner(self) -> Planner:
        """Who plans it."""
        return Planner(self.the_system(), self.the_stack(), Choice(self.recipe, self.loss, self.expandable))

    def table(self, master: bool, gradients: str) -> Textbook:
        """The textbook table of the model."""
        model = self.the_model()
        return textbook(model.name, model.parameters, master=master, gradients=gradients)

    def checkpoint(self, words: str) -> CheckpointPlan:
        """What a save costs."""
        system, workload = self.the_system(), self.workload()
        cluster = system.cluster(system.nodes_for(workload.plan.world_size))
        return checkpoint(workload, self.the_stack(), cluster, parse_terms(words), self.recipe)


def _path_or_name(text: str) -> str | Path:
    return Path(text) if "/" in text or text.endswith(".toml") else text
